/*
 * answer.c - finds the stream's URL in a webhook's answer: TwiML, Plivo XML or JSON.
 */
#include "answer.h"

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

static enum answer_kind read_twiml(struct slice body, struct url *ret_url)
{
    struct slice connect, stream, url;

    if (!between(body, "<Response>", "</Response>", &body))
        return ANSWER_BAD;
    if (between(body, "<Connect>", "</Connect>", &connect))
        return between(connect, "<Stream ", ">", &stream) && between(stream, "url=\"", "\"", &url) &&
                       read_xml_url(url, ret_url)
                   ? ANSWER_STREAM
                   : ANSWER_BAD;
    return contains(body, "<Hangup/>") ? ANSWER_BUSY : ANSWER_BAD;
}

static enum answer_kind read_plivo_xml(struct slice body, struct url *ret_url)
{
    struct slice stream, url;

    if (!between(body, "<Response>", "</Response>", &body))
        return ANSWER_BAD;
    if (!between(body, "<Stream ", "</Stream>", &stream))
        return contains(body, "<Hangup/>") ? ANSWER_BUSY : ANSWER_BAD;
    if (!contains(stream, "bidirectional=\"true\""))
        return ANSWER_BAD;
    stream.len += strlen("</Stream>");
    return between(stream, ">", "</Stream>", &url) && read_xml_url(url, ret_url) ? ANSWER_STREAM : ANSWER_BAD;
}

static enum answer_kind read_json(struct slice body, struct url *ret_url)
{
    cJSON *tree = cJSON_ParseWithLength(body.data, body.len);
    const char *url = json_get_string(tree, "url");
    enum answer_kind kind = url && url_parse(slice_of(url), ret_url) == 0 ? ANSWER_STREAM : ANSWER_BAD;

    cJSON_Delete(tree);
    return kind;
}

enum answer_kind answer_read(enum media_dialect dialect, int status, struct slice body, struct url *ret_url)
{
    if (dialect == MEDIA_EXOTEL && status == 503)
        return ANSWER_BUSY;
    if (status != 200)
        return ANSWER_BAD;
    if (dialect == MEDIA_TWILIO)
        return read_twiml(body, ret_url);
    return dialect == MEDIA_PLIVO ? read_plivo_xml(body, ret_url) : read_json(body, ret_url);
}
