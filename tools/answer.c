/*
 * answer.c - reads answers to webhooks: TwiML, Plivo XML or JSON.
 */
#include "answer.h"

#include <stdlib.h>

#include "base/json.h"

enum { ANSWER_URL_MAX = URL_PATH_MAX + URL_HOST_MAX };

/* Appends what stands for an entity at the start of `text`; returns how long it is written, 0 if it is none.
 */
static size_t take_entity(struct slice text, char *ret_c)
{
    static const struct {
        const char *name;
        char c;
    } entities[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};

    for (size_t i = 0; i < ARRAY_LEN(entities); i++) {
        size_t len = strlen(entities[i].name);

        if (text.len >= len && memcmp(text.data, entities[i].name, len) == 0) {
            *ret_c = entities[i].c;
            return len;
        }
    }
    return 0;
}

/* A URL that is written in XML. */
static bool read_xml_url(struct slice text, struct url *ret_url)
{
    char plain[ANSWER_URL_MAX];
    size_t len = 0;

    for (size_t i = 0; i < text.len;) {
        char c = text.data[i];
        size_t step = 1;

        if (c == '&')
            step = take_entity((struct slice){text.data + i, text.len - i}, &c);
        if (step == 0 || len == sizeof(plain))
            return false;
        plain[len++] = c;
        i += step;
    }
    return url_parse((struct slice){plain, len}, ret_url) == 0;
}

/* What is between the first `before` and the next `after`. */
static bool between(struct slice text, const char *before, const char *after, struct slice *ret_inside)
{
    const char *start = memmem(text.data, text.len, before, strlen(before));
    const char *end;

    if (!start)
        return false;
    start += strlen(before);
    end = memmem(start, text.len - (size_t)(start - text.data), after, strlen(after));
    if (!end)
        return false;
    *ret_inside = (struct slice){start, (size_t)(end - start)};
    return true;
}

static bool contains(struct slice text, const char *part)
{
    return memmem(text.data, text.len, part, strlen(part)) != NULL;
}

/* The first <name …>…</name>: what is in its tag, and what is behind it. */
static bool element(struct slice text, const char *open, const char *close, struct slice *ret_tag,
                    struct slice *ret_inside)
{
    struct slice whole;
    const char *end;

    if (!between(text, open, close, &whole))
        return false;
    end = memchr(whole.data, '>', whole.len);
    if (!end)
        return false;
    *ret_tag = (struct slice){whole.data, (size_t)(end - whole.data)};
    *ret_inside = (struct slice){end + 1, whole.len - (size_t)(end + 1 - whole.data)};
    return true;
}

/* <Redirect> at the end of the document, and a pause before it. */
static void read_redirect(struct slice body, const char *pause, struct answer *answer)
{
    struct slice tag, url, length;

    if (!element(body, "<Redirect", "</Redirect>", &tag, &url))
        return;
    answer->has_after = read_xml_url(url, &answer->after);
    if (between(body, pause, ">", &tag) && between(tag, " length=\"", "\"", &length) && length.len < 6)
        answer->pause_ms = strtoull(length.data, NULL, 10) * 1000;
}

/* What a document without a stream means. */
static enum answer_kind kind_without_stream(struct slice body, const struct answer *answer)
{
    if (answer->has_after)
        return ANSWER_LATER;
    return contains(body, "<Hangup/>") ? ANSWER_BUSY : ANSWER_BAD;
}

static enum answer_kind read_twiml(struct slice body, struct answer *answer)
{
    struct slice tag, inside, stream, url, action;

    if (!between(body, "<Response>", "</Response>", &body))
        return ANSWER_BAD;
    read_redirect(body, "<Pause", answer);
    if (!element(body, "<Connect", "</Connect>", &tag, &inside))
        return kind_without_stream(body, answer);
    if (!between(inside, "<Stream", ">", &stream) || !between(stream, " url=\"", "\"", &url) ||
        !read_xml_url(url, &answer->url))
        return ANSWER_BAD;
    if (between(tag, " action=\"", "\"", &action))
        answer->has_after = read_xml_url(action, &answer->after);
    return ANSWER_STREAM;
}

static enum answer_kind read_plivo_xml(struct slice body, struct answer *answer)
{
    struct slice tag, url, value;

    if (!between(body, "<Response>", "</Response>", &body))
        return ANSWER_BAD;
    read_redirect(body, "<Wait", answer);
    if (!element(body, "<Stream", "</Stream>", &tag, &url))
        return kind_without_stream(body, answer);
    if (!between(tag, " bidirectional=\"", "\"", &value) || !slice_equals(value, "true") ||
        !read_xml_url(url, &answer->url))
        return ANSWER_BAD;
    /* Without it the call is over with the stream, and nothing behind it is done. */
    answer->has_after =
        answer->has_after && between(tag, " keepCallAlive=\"", "\"", &value) && slice_equals(value, "true");
    return ANSWER_STREAM;
}

static enum answer_kind read_json(struct slice body, struct answer *answer)
{
    cJSON *tree = cJSON_ParseWithLength(body.data, body.len);
    const char *url = json_get_string(tree, "url");
    enum answer_kind kind = url && url_parse(slice_of(url), &answer->url) == 0 ? ANSWER_STREAM : ANSWER_BAD;

    cJSON_Delete(tree);
    return kind;
}

void answer_read(enum media_dialect dialect, int status, struct slice body, struct answer *ret_answer)
{
    *ret_answer = (struct answer){.kind = ANSWER_BAD};
    if (dialect == MEDIA_EXOTEL && status == 503)
        ret_answer->kind = ANSWER_BUSY;
    else if (status != 200)
        return;
    else if (dialect == MEDIA_TWILIO)
        ret_answer->kind = read_twiml(body, ret_answer);
    else
        ret_answer->kind =
            dialect == MEDIA_PLIVO ? read_plivo_xml(body, ret_answer) : read_json(body, ret_answer);
}
