/*
 * media.c - reads and writes the messages of media streams of Twilio, Plivo and Exotel.
 */
#include "media.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

static const char *const dialect_names[MEDIA_DIALECTS] = {"", "twilio", "plivo", "exotel"};

const char *media_dialect_name(enum media_dialect dialect)
{
    return dialect_names[dialect];
}

size_t media_payload_len(enum media_dialect dialect)
{
    return dialect == MEDIA_EXOTEL ? MEDIA_PAYLOAD_MAX : 216;
}

static bool starts_with(struct slice text, const char *prefix)
{
    size_t len = strlen(prefix);

    return text.len >= len && memcmp(text.data, prefix, len) == 0;
}

/* The value of "payload", which holds no escapes, because it is base64. */
static bool find_payload(struct slice message, struct slice *ret_payload)
{
    static const char key[] = "\"payload\":\"";
    const char *at = memmem(message.data, message.len, key, sizeof(key) - 1);
    const char *end;

    if (!at)
        return false;
    at += sizeof(key) - 1;
    end = memchr(at, '"', message.len - (size_t)(at - message.data));
    if (!end)
        return false;
    *ret_payload = (struct slice){at, (size_t)(end - at)};
    return true;
}

static void copy_sid(char ret_sid[MEDIA_SID_MAX + 1], const char *text)
{
    size_t len = text ? strlen(text) : 0;

    if (len > MEDIA_SID_MAX)
        len = 0;
    if (len > 0)
        memcpy(ret_sid, text, len);
    ret_sid[len] = '\0';
}

/* The names of its fields tell whose `start` it is. */
static bool read_start(const cJSON *message, struct media_start *ret_start)
{
    static const struct {
        enum media_dialect dialect;
        const char *call_sid;
        const char *stream_sid;
    } fields[] = {
        {MEDIA_TWILIO, "callSid", "streamSid"},
        {MEDIA_PLIVO, "callId", "streamId"},
        {MEDIA_EXOTEL, "call_sid", "stream_sid"},
    };
    const cJSON *start = cJSON_GetObjectItemCaseSensitive(message, "start");

    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const char *call_sid = json_get_string(start, fields[i].call_sid);
        const char *stream_sid = json_get_string(start, fields[i].stream_sid);

        if (!call_sid)
            continue;
        if (!stream_sid)
            stream_sid = json_get_string(message, fields[i].stream_sid);
        ret_start->dialect = fields[i].dialect;
        copy_sid(ret_start->call_sid, call_sid);
        copy_sid(ret_start->stream_sid, stream_sid);
        return true;
    }
    return false;
}

static enum media_event read_rare(const cJSON *message, struct media_start *ret_start,
                                  struct slice *ret_payload)
{
    const char *event = json_get_string(message, "event");
    const char *payload;

    if (!event)
        return MEDIA_OTHER;
    if (strcmp(event, "connected") == 0)
        return MEDIA_CONNECTED;
    if (strcmp(event, "start") == 0)
        return read_start(message, ret_start) ? MEDIA_START : MEDIA_OTHER;
    if (strcmp(event, "dtmf") == 0)
        return MEDIA_DTMF;
    if (strcmp(event, "stop") == 0)
        return MEDIA_STOP;
    if (strcmp(event, "clear") == 0 || strcmp(event, "clearAudio") == 0)
        return MEDIA_CLEAR;
    if (strcmp(event, "clearedAudio") == 0)
        return MEDIA_CLEARED;
    if (strcmp(event, "mark") == 0 || strcmp(event, "checkpoint") == 0 ||
        strcmp(event, "playedStream") == 0) {
        const cJSON *mark = cJSON_GetObjectItemCaseSensitive(message, "mark");

        payload = json_get_string(mark ? mark : message, "name");
        *ret_payload = slice_of(payload ? payload : "");
        return MEDIA_MARK;
    }
    if (strcmp(event, "media") == 0 || strcmp(event, "playAudio") == 0) {
        payload = json_get_string(cJSON_GetObjectItemCaseSensitive(message, "media"), "payload");
        *ret_payload = slice_of(payload ? payload : "");
        return MEDIA_MEDIA;
    }
    return MEDIA_OTHER;
}

enum media_event media_read(struct slice message, struct media_start *ret_start, struct slice *ret_payload)
{
    enum media_event event = MEDIA_OTHER;
    cJSON *tree;

    /* As every sender that cares for speed writes it. */
    if ((starts_with(message, "{\"event\":\"media\"") || starts_with(message, "{\"event\":\"playAudio\"")) &&
        find_payload(message, ret_payload))
        return MEDIA_MEDIA;
    if (message.len == 0 || message.data[0] != '{')
        return MEDIA_OTHER;
    tree = cJSON_ParseWithLength(message.data, message.len);
    if (tree)
        event = read_rare(tree, ret_start, ret_payload);
    /* A payload that was written in an unusual way is found again in the message itself. */
    if (event == MEDIA_MEDIA || event == MEDIA_MARK) {
        const char *at = memmem(message.data, message.len, ret_payload->data, ret_payload->len);

        if (at && ret_payload->len > 0)
            ret_payload->data = at;
        else
            event = MEDIA_OTHER;
    }
    cJSON_Delete(tree);
    return event;
}

bool media_write_connected(struct strbuf *buf, enum media_dialect dialect)
{
    if (dialect == MEDIA_TWILIO)
        strbuf_append_str(buf, "{\"event\":\"connected\",\"protocol\":\"Call\",\"version\":\"1.0.0\"}");
    else if (dialect == MEDIA_EXOTEL)
        strbuf_append_str(buf, "{\"event\":\"connected\"}");
    return dialect != MEDIA_PLIVO;
}

void media_write_start(struct strbuf *buf, const struct media_start *start)
{
    const char *call = start->call_sid;
    const char *stream = start->stream_sid;

    switch (start->dialect) {
    case MEDIA_TWILIO:
        strbuf_printf(
            buf,
            "{\"event\":\"start\",\"sequenceNumber\":\"1\",\"streamSid\":\"%s\",\"start\":{\"streamSid\":\"%"
            "s\","
            "\"accountSid\":\"AC0\",\"callSid\":\"%s\",\"tracks\":[\"inbound\"],\"customParameters\":{},"
            "\"mediaFormat\":{\"encoding\":\"audio/x-mulaw\",\"sampleRate\":8000,\"channels\":1}}}",
            stream, stream, call);
        break;
    case MEDIA_PLIVO:
        strbuf_printf(
            buf,
            "{\"event\":\"start\",\"sequenceNumber\":0,\"start\":{\"callId\":\"%s\",\"streamId\":\"%s\","
            "\"accountId\":\"0\",\"tracks\":[\"inbound\"],"
            "\"mediaFormat\":{\"encoding\":\"audio/x-mulaw\",\"sampleRate\":8000}}}",
            call, stream);
        break;
    case MEDIA_EXOTEL:
        strbuf_printf(buf,
                      "{\"event\":\"start\",\"sequence_number\":1,\"stream_sid\":\"%s\",\"start\":{\"stream_"
                      "sid\":\"%s\","
                      "\"call_sid\":\"%s\",\"account_sid\":\"0\","
                      "\"media_format\":{\"encoding\":\"raw/slin\",\"sample_rate\":8000}}}",
                      stream, stream, call);
        break;
    case MEDIA_UNKNOWN:
    case MEDIA_DIALECTS:
        abort();
    }
}

/* No printf here: this is written fifty times a second for each call. */
static void put_media(struct strbuf *buf, const char *const words[4], const uint64_t numbers[3],
                      const char *stream_sid)
{
    strbuf_append_str(buf, words[0]);
    strbuf_append_u64(buf, numbers[0]);
    strbuf_append_str(buf, words[1]);
    strbuf_append_str(buf, stream_sid);
    strbuf_append_str(buf, words[2]);
    strbuf_append_u64(buf, numbers[1]);
    strbuf_append_str(buf, words[3]);
    strbuf_append_u64(buf, numbers[2]);
    strbuf_append_str(buf, "\",\"payload\":\"");
}

void media_write_media(struct strbuf *buf, const struct media_start *start, uint64_t number,
                       struct slice payload)
{
    static const char *const words[MEDIA_DIALECTS][4] = {
        [MEDIA_TWILIO] = {"{\"event\":\"media\",\"sequenceNumber\":\"", "\",\"streamSid\":\"",
                          "\",\"media\":{\"track\":\"inbound\",\"chunk\":\"", "\",\"timestamp\":\""},
        [MEDIA_PLIVO] = {"{\"event\":\"media\",\"sequenceNumber\":", ",\"streamId\":\"",
                         "\",\"media\":{\"track\":\"inbound\",\"chunk\":", ",\"timestamp\":\""},
        [MEDIA_EXOTEL] = {"{\"event\":\"media\",\"sequence_number\":", ",\"stream_sid\":\"",
                          "\",\"media\":{\"chunk\":", ",\"timestamp\":\""},
    };
    /* `start` was the first of the sequence. */
    uint64_t numbers[] = {number + 2, number + 1, number * MEDIA_FRAME_MS};

    assert(start->dialect != MEDIA_UNKNOWN);
    put_media(buf, words[start->dialect], numbers, start->stream_sid);
    strbuf_append(buf, payload.data, payload.len);
    strbuf_append_str(buf, "\"}}");
}

bool media_write_stop(struct strbuf *buf, const struct media_start *start, uint64_t number)
{
    unsigned long long sequence = number + 2;

    if (start->dialect == MEDIA_TWILIO)
        strbuf_printf(buf,
                      "{\"event\":\"stop\",\"sequenceNumber\":\"%llu\",\"streamSid\":\"%s\","
                      "\"stop\":{\"accountSid\":\"AC0\",\"callSid\":\"%s\"}}",
                      sequence, start->stream_sid, start->call_sid);
    else if (start->dialect == MEDIA_EXOTEL)
        strbuf_printf(buf,
                      "{\"event\":\"stop\",\"sequence_number\":%llu,\"stream_sid\":\"%s\","
                      "\"stop\":{\"call_sid\":\"%s\",\"account_sid\":\"0\",\"reason\":\"callended\"}}",
                      sequence, start->stream_sid, start->call_sid);
    return start->dialect != MEDIA_PLIVO;
}

void media_write_played(struct strbuf *buf, const struct media_start *start, const char *name)
{
    static const char *const words[MEDIA_DIALECTS][3] = {
        [MEDIA_TWILIO] = {"{\"event\":\"mark\",\"sequenceNumber\":\"0\",\"streamSid\":\"",
                          "\",\"mark\":{\"name\":\"", "\"}}"},
        [MEDIA_PLIVO] = {"{\"event\":\"playedStream\",\"streamId\":\"", "\",\"name\":\"", "\"}"},
        [MEDIA_EXOTEL] = {"{\"event\":\"mark\",\"sequence_number\":0,\"stream_sid\":\"",
                          "\",\"mark\":{\"name\":\"", "\"}}"},
    };

    assert(start->dialect != MEDIA_UNKNOWN);
    strbuf_append_str(buf, words[start->dialect][0]);
    strbuf_append_str(buf, start->stream_sid);
    strbuf_append_str(buf, words[start->dialect][1]);
    json_escape(buf, slice_of(name));
    strbuf_append_str(buf, words[start->dialect][2]);
}

bool media_write_cleared(struct strbuf *buf, const struct media_start *start)
{
    if (start->dialect != MEDIA_PLIVO)
        return false;
    strbuf_printf(buf, "{\"sequenceNumber\":0,\"event\":\"clearedAudio\",\"streamId\":\"%s\"}",
                  start->stream_sid);
    return true;
}

void media_write_audio(struct strbuf *buf, const struct media_start *start, struct slice payload)
{
    switch (start->dialect) {
    case MEDIA_TWILIO:
        strbuf_append_str(buf, "{\"event\":\"media\",\"streamSid\":\"");
        json_escape(buf, slice_of(start->stream_sid));
        strbuf_append_str(buf, "\",\"media\":{\"payload\":\"");
        break;
    case MEDIA_PLIVO:
        strbuf_append_str(buf, "{\"event\":\"playAudio\",\"media\":{\"contentType\":\"audio/x-mulaw\","
                               "\"sampleRate\":8000,\"payload\":\"");
        break;
    case MEDIA_EXOTEL:
        strbuf_append_str(buf, "{\"event\":\"media\",\"stream_sid\":\"");
        json_escape(buf, slice_of(start->stream_sid));
        strbuf_append_str(buf, "\",\"media\":{\"payload\":\"");
        break;
    case MEDIA_UNKNOWN:
    case MEDIA_DIALECTS:
        abort();
    }
    strbuf_append(buf, payload.data, payload.len);
    strbuf_append_str(buf, "\"}}");
}
