/*
 * event.c - the names of events, and their text: written as one line of JSON, and read back.
 */
#include "store/event.h"

#include "base/clock.h"
#include "base/json.h"

#define EVENT_BEGIN "{\"event\":\""
#define EVENT_ID "\",\"id\":\""

const char *event_kind_name(enum event_kind kind)
{
    static const char *const names[] = {
        [EVENT_ALLOCATED] = "allocated",
        [EVENT_REFUSED] = "refused",
        [EVENT_WAITING] = "call_waiting",
        [EVENT_WAIT_ENDED] = "wait_ended",
        [EVENT_MOVED] = "moved",
        [EVENT_RELEASED] = "released",
        [EVENT_ENDED] = "ended",
        [EVENT_DRAINING] = "draining",
        [EVENT_UNDRAINED] = "undrained",
        [EVENT_POD_JOINED] = "pod_joined",
        [EVENT_POD_LEFT] = "pod_left",
        [EVENT_PODS_CHANGED] = "pods_changed",
        [EVENT_LEADER_ELECTED] = "leader_elected",
        [EVENT_LEADER_LOST] = "leader_lost",
        [EVENT_DROPPED] = "dropped",
    };

    assert(kind < EVENT_KINDS);
    return names[kind];
}

static void put_text(struct json_writer *json, const char *key, const char *text)
{
    if (text && text[0])
        json_put_string(json, key, text);
}

bool event_write(struct strbuf *buf, const struct event *event, const struct event_origin *origin)
{
    struct json_writer json = {.buf = buf, .needs_comma = true};
    char time[CLOCK_TEXT_MAX];
    size_t start = buf->len;

    clock_format_millis(origin->at_ms, time);
    strbuf_append(buf, EVENT_BEGIN, sizeof(EVENT_BEGIN) - 1);
    strbuf_append_str(buf, event_kind_name(event->kind));
    strbuf_append(buf, EVENT_ID, sizeof(EVENT_ID) - 1);
    strbuf_append_str(buf, origin->replica);
    strbuf_append_char(buf, ':');
    strbuf_append_u64(buf, origin->number);
    strbuf_append_char(buf, '"');
    json_put_string(&json, "time", time);
    json_put_string(&json, "replica", origin->replica);
    put_text(&json, "call_sid", event->call_sid);
    put_text(&json, "pod_name", event->pod);
    put_text(&json, "from_pod", event->from_pod);
    put_text(&json, "source_pool", event->pool);
    put_text(&json, "tier", event->tier);
    put_text(&json, "merchant_id", event->merchant_id);
    put_text(&json, "provider", event->provider);
    put_text(&json, "reason", event->reason);
    if (event->count)
        json_put_u64(&json, "count", event->count);
    strbuf_append(buf, "}\n", 2);
    if (!strbuf_failed(buf) && buf->len - start <= EVENT_TEXT_MAX)
        return true;
    buf->len = start;
    buf->failed = false;
    return false;
}

/* What is between the quotes that the text begins behind, and the rest behind them. */
static bool take_name(struct slice *text, size_t max, struct slice *ret_name)
{
    const char *quote = memchr(text->data, '"', text->len);
    size_t len = quote ? (size_t)(quote - text->data) : 0;

    if (len == 0 || len > max)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text->data[i] <= ' ' || text->data[i] > '~' || text->data[i] == '\\')
            return false;
    }
    *ret_name = (struct slice){text->data, len};
    *text = (struct slice){text->data + len, text->len - len};
    return true;
}

static bool take_literal(struct slice *text, struct slice literal)
{
    if (text->len < literal.len || memcmp(text->data, literal.data, literal.len) != 0)
        return false;
    *text = (struct slice){text->data + literal.len, text->len - literal.len};
    return true;
}

bool event_read(struct slice *lines, struct event_text *ret_text)
{
    const char *end = memchr(lines->data, '\n', lines->len);
    size_t len = end ? (size_t)(end - lines->data) : lines->len;
    struct slice line = {lines->data, len};
    struct slice rest = line;
    struct event_text text = {.json = line};

    *lines = (struct slice){lines->data + len + (end ? 1 : 0), lines->len - len - (end ? 1 : 0)};
    /* A carriage return ends a line of server-sent events, and JSON allows it between its words. */
    if (len > EVENT_TEXT_MAX || memchr(line.data, '\r', len) || !take_literal(&rest, SLICE(EVENT_BEGIN)) ||
        !take_name(&rest, EVENT_KIND_MAX, &text.kind) || !take_literal(&rest, SLICE(EVENT_ID)) ||
        !take_name(&rest, EVENT_ID_MAX, &text.id) || !json_is_valid(line))
        return false;
    *ret_text = text;
    return true;
}
