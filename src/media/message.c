/*
 * message.c - reads what providers send on their media streams, and writes with a dialect's words.
 *
 * Fifty messages a second and call are looked at, so that the member "event" is found without a parser; only
 * `start` and marks, which are rare, are parsed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "media/dialect.h"

#define MARK_PREFIX "sr-hold-"

enum {
    MARK_NAME_MAX = sizeof(MARK_PREFIX) + 20,
    PARSE_MAX = 1 << 20, /* of memory for the tree of a message */
};

static const struct dialect *const dialects[] = {&dialect_twilio, &dialect_plivo, &dialect_exotel};

const struct dialect *dialect_find(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_LEN(dialects); i++)
        if (strcmp(dialects[i]->name, name) == 0)
            return dialects[i];
    return NULL;
}

/* A place in the beginning of a JSON text. */
struct cursor {
    const char *at;
    const char *end;
};

static void skip_blanks(struct cursor *cursor)
{
    while (cursor->at < cursor->end &&
           (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\t' || *cursor->at == '\r'))
        cursor->at++;
}

static bool take(struct cursor *cursor, char c)
{
    if (cursor->at >= cursor->end || *cursor->at != c)
        return false;
    cursor->at++;
    return true;
}

/* Takes a string, as it is written between the quotes. False: it is none, or not complete. */
static bool take_string(struct cursor *cursor, struct slice *ret_text)
{
    const char *start, *quote;

    if (!take(cursor, '"'))
        return false;
    start = cursor->at;
    for (;;) {
        size_t escapes = 0;

        quote = memchr(cursor->at, '"', (size_t)(cursor->end - cursor->at));
        if (!quote)
            return false;
        cursor->at = quote + 1;
        while (quote - escapes > start && quote[-1 - (ptrdiff_t)escapes] == '\\')
            escapes++;
        if (escapes % 2 == 0)
            break;
    }
    *ret_text = (struct slice){start, (size_t)(quote - start)};
    return true;
}

/* Skips a value of any kind. False: it is not complete. */
static bool skip_value(struct cursor *cursor)
{
    struct slice text;
    size_t depth = 0;

    while (cursor->at < cursor->end) {
        char c = *cursor->at;

        if (c == '"') {
            if (!take_string(cursor, &text))
                return false;
            if (depth == 0)
                return true;
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return c != ']'; /* behind a number, true, false or null */
        if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        cursor->at++;
        if (depth == 0 && (c == '}' || c == ']'))
            return true;
    }
    return false;
}

/* The value of the member "event" of the message itself; members of objects in it do not count. */
static bool find_event(struct slice text, struct slice *ret_event)
{
    struct cursor cursor = {text.data, text.data + text.len};
    struct slice key;

    skip_blanks(&cursor);
    if (!take(&cursor, '{'))
        return false;
    do {
        skip_blanks(&cursor);
        if (!take_string(&cursor, &key))
            return false;
        skip_blanks(&cursor);
        if (!take(&cursor, ':'))
            return false;
        skip_blanks(&cursor);
        if (slice_equals(key, "event"))
            return take_string(&cursor, ret_event);
        if (!skip_value(&cursor))
            return false;
        skip_blanks(&cursor);
    } while (take(&cursor, ','));
    return false;
}

enum media_event media_event(struct slice text)
{
    static const struct {
        const char *word;
        enum media_event event;
    } words[] = {
        {"media", MEDIA_MEDIA},
        {"mark", MEDIA_MARK},
        {"playedStream", MEDIA_MARK},
        {"played", MEDIA_MARK}, /* Plivo's support pages call it so */
        {"stop", MEDIA_STOP},
        {"start", MEDIA_START},
        {"connected", MEDIA_CONNECTED},
        {"dtmf", MEDIA_DTMF},
        {"clearedAudio", MEDIA_CLEARED},
    };
    struct slice event;

    if (!find_event(text, &event))
        return MEDIA_OTHER;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (slice_equals(event, words[i].word))
            return words[i].event;
    return MEDIA_OTHER;
}

static bool copy_id(char ret_id[MEDIA_ID_MAX + 1], const char *id)
{
    size_t len = id ? strlen(id) : 0;

    if (len == 0 || len > MEDIA_ID_MAX)
        return false;
    memcpy(ret_id, id, len + 1);
    return true;
}

/* Exotel writes numbers as texts. 0: it is none. */
static uint64_t number_of(const cJSON *item)
{
    const char *text = cJSON_GetStringValue(item);
    double number = text ? strtod(text, NULL) : cJSON_GetNumberValue(item);

    return number >= 1 && number <= 1e6 ? (uint64_t)number : 0;
}

static enum media_format format_of(const struct dialect *dialect, const cJSON *start)
{
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(start, dialect->format_object);
    const char *encoding = json_get_string(format, "encoding");
    uint64_t rate = number_of(cJSON_GetObjectItemCaseSensitive(format, dialect->sample_rate));

    return dialect->format(encoding ? encoding : "", rate);
}

/* The id of the stream stands in `start`, in the message itself, or in both. */
static bool start_read(const struct dialect *dialect, const cJSON *message, struct media_start *ret_start)
{
    const cJSON *start = cJSON_GetObjectItemCaseSensitive(message, "start");
    struct media_start found = {.dialect = dialect};

    if (!cJSON_IsObject(start))
        return false;
    if (!copy_id(found.stream_id, json_get_string(start, dialect->stream_id)) &&
        !copy_id(found.stream_id, json_get_string(message, dialect->stream_id)))
        return false;
    if (!copy_id(found.call_id, json_get_string(start, dialect->call_id)))
        found.call_id[0] = '\0';
    found.format = format_of(dialect, start);
    *ret_start = found;
    return true;
}

int media_read_start(const struct dialect *dialect, struct slice text, struct media_start *ret_start)
{
    CLEANUP(arena_release) struct arena arena;
    const char *event;
    cJSON *message;

    arena_init(&arena, PARSE_MAX);
    message = json_parse(&arena, text);
    event = json_get_string(message, "event");
    if (!event || strcmp(event, "start") != 0)
        return -EINVAL;
    if (dialect)
        return start_read(dialect, message, ret_start) ? 0 : -EINVAL;
    for (size_t i = 0; i < ARRAY_LEN(dialects); i++)
        if (start_read(dialects[i], message, ret_start))
            return 0;
    return -EINVAL;
}

static bool name_is_ours(const char *name, uint64_t *ret_number)
{
    size_t prefix = strlen(MARK_PREFIX);
    char written[MARK_NAME_MAX + 1];
    uint64_t number;

    if (!name || strncmp(name, MARK_PREFIX, prefix) != 0)
        return false;
    number = strtoull(name + prefix, NULL, 10);
    /* Only a name that we write is ours: no sign, no leading zero, nothing behind the number. */
    snprintf(written, sizeof(written), MARK_PREFIX "%llu", (unsigned long long)number);
    if (strcmp(written, name) != 0)
        return false;
    *ret_number = number;
    return true;
}

bool media_is_our_mark(const struct dialect *dialect, struct slice text, uint64_t *ret_number)
{
    CLEANUP(arena_release) struct arena arena;
    const cJSON *message;

    arena_init(&arena, PARSE_MAX);
    if (media_event(text) != MEDIA_MARK || !memmem(text.data, text.len, MARK_PREFIX, strlen(MARK_PREFIX)))
        return false;
    message = json_parse(&arena, text);
    if (dialect->mark_object)
        message = cJSON_GetObjectItemCaseSensitive(message, dialect->mark_object);
    return name_is_ours(json_get_string(message, "name"), ret_number);
}

static void write_begin(struct strbuf *buf, const struct media_start *start, const char *event)
{
    strbuf_append_str(buf, "{\"event\":\"");
    strbuf_append_str(buf, event);
    strbuf_append_str(buf, "\",\"");
    strbuf_append_str(buf, start->dialect->stream_id);
    strbuf_append_str(buf, "\":\"");
    json_escape(buf, slice_of(start->stream_id));
    strbuf_append_char(buf, '"');
}

void media_write_play_begin(struct strbuf *buf, const struct media_start *start)
{
    assert(start->format < MEDIA_FORMATS);
    write_begin(buf, start, start->dialect->play);
    strbuf_append_str(buf, ",\"media\":{");
    if (start->dialect->write_format)
        start->dialect->write_format(buf, start->format);
    strbuf_append_str(buf, "\"payload\":\"");
}

void media_write_play_end(struct strbuf *buf, const struct media_start *start UNUSED)
{
    strbuf_append_str(buf, "\"}}");
}

void media_write_mark(struct strbuf *buf, const struct media_start *start, uint64_t number)
{
    const char *object = start->dialect->mark_object;

    write_begin(buf, start, start->dialect->mark);
    if (object)
        strbuf_printf(buf, ",\"%s\":{", object);
    else
        strbuf_append_char(buf, ',');
    strbuf_append_str(buf, "\"name\":\"" MARK_PREFIX);
    strbuf_append_u64(buf, number);
    strbuf_append_str(buf, object ? "\"}}" : "\"}");
}

void media_write_clear(struct strbuf *buf, const struct media_start *start)
{
    write_begin(buf, start, start->dialect->clear);
    strbuf_append_char(buf, '}');
}
