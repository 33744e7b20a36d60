/*
 * ws_url.c - parses the template of WebSocket URLs, and writes the URL of one call from it.
 *
 * It also finds the place of the ticket in URLs that lead to the gateway.
 */
#include "api/ws_url.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"
#include "http/form.h"

enum ws_url_field {
    FIELD_TEXT, /* literal */
    FIELD_BASE,
    FIELD_POD,
    FIELD_PROVIDER,
    FIELD_TEMPLATE,
    FIELD_FLOW_SUFFIX,
    FIELD_CALL_SID,
    FIELD_MERCHANT,
    FIELD_TICKET,
    FIELDS,
};

static const char *const field_names[FIELDS] = {
    [FIELD_BASE] = "base",
    [FIELD_POD] = "pod",
    [FIELD_PROVIDER] = "provider",
    [FIELD_TEMPLATE] = "template",
    [FIELD_FLOW_SUFFIX] = "flow_suffix",
    [FIELD_CALL_SID] = "call_sid",
    [FIELD_MERCHANT] = "merchant",
    [FIELD_TICKET] = "ticket",
};

struct ws_url_piece {
    enum ws_url_field field;
    struct slice text; /* FIELD_TEXT and FIELD_BASE */
};

struct ws_url {
    char *url_template;
    char *base_url;
    struct ws_url_piece pieces[2 * WS_URL_FIELDS_MAX + 3]; /* with a ticket that the template has not */
    size_t count;
};

static enum ws_url_field ws_url_find_field(struct slice name)
{
    for (int i = FIELD_TEXT + 1; i < FIELDS; i++) {
        if (slice_equals(name, field_names[i]))
            return (enum ws_url_field)i;
    }
    return FIELD_TEXT;
}

/* Reads the placeholder at `at`, which begins with '{'. NULL with a sentence in `error`; else what follows
 * it.
 */
static const char *ws_url_read_field(const char *at, enum ws_url_field *ret_field, char *error,
                                     size_t error_size)
{
    size_t len = strcspn(at + 1, "{}");
    struct slice name = {at + 1, len};

    if (at[1 + len] != '}') {
        snprintf(error, error_size, "a '{' has no '}'");
        return NULL;
    }
    *ret_field = ws_url_find_field(name);
    if (*ret_field == FIELD_TEXT) {
        snprintf(error, error_size,
                 "{%.*s} is not a placeholder: use {base}, {pod}, {provider}, {template}, {flow_suffix}, "
                 "{call_sid}, {merchant} or {ticket}",
                 (int)(len > 64 ? 64 : len), name.data);
        return NULL;
    }
    return at + 1 + len + 1;
}

static bool ends_with(struct slice text, struct slice end)
{
    return text.len >= end.len && memcmp(text.data + text.len - end.len, end.data, end.len) == 0;
}

/* The piece behind /ws/pod/{pod} in the path; 0: these URLs do not lead to the gateway. */
static size_t ws_url_behind_pod(const struct ws_url *url)
{
    for (size_t i = 0; i + 1 < url->count; i++) {
        const struct ws_url_piece *piece = &url->pieces[i];

        if (piece->field != FIELD_TEXT)
            continue;
        if (memchr(piece->text.data, '?', piece->text.len) || memchr(piece->text.data, '#', piece->text.len))
            break;
        if (ends_with(piece->text, SLICE("/ws/pod/")) && url->pieces[i + 1].field == FIELD_POD)
            return i + 2;
    }
    return 0;
}

/* Does the segment end in front of piece `at`? */
static bool ws_url_ends_segment(const struct ws_url *url, size_t at)
{
    if (at == url->count || url->pieces[at].field == FIELD_FLOW_SUFFIX)
        return true;
    return url->pieces[at].field == FIELD_TEXT && strchr("/?#", url->pieces[at].text.data[0]);
}

/* The gateway takes the segment behind the pod for the ticket, whatever it is. */
static bool ws_url_ticket_is_found(const struct ws_url *url)
{
    size_t at = ws_url_behind_pod(url);

    return at == 0 || (at + 1 < url->count && url->pieces[at].field == FIELD_TEXT &&
                       slice_equals(url->pieces[at].text, "/") && url->pieces[at + 1].field == FIELD_TICKET &&
                       ws_url_ends_segment(url, at + 2));
}

static bool ws_url_check_tickets(const struct ws_url *url, char *error, size_t error_size)
{
    size_t tickets = 0;

    for (size_t i = 0; i < url->count; i++)
        tickets += url->pieces[i].field == FIELD_TICKET;
    if (tickets > 1)
        snprintf(error, error_size, "has {ticket} twice: a ticket signs what stands behind it");
    else if (tickets == 1 && !ws_url_ticket_is_found(url))
        snprintf(error, error_size,
                 "has {ticket} in a place where the gateway does not look for it: write "
                 "/ws/pod/{pod}/{ticket}/..., or leave {ticket} out");
    else
        return true;
    return false;
}

static bool ws_url_check_characters(const char *text, char *error, size_t error_size)
{
    if (text[0] == '\0' || strlen(text) > WS_URL_TEMPLATE_MAX) {
        snprintf(error, error_size, "must have 1 to %d characters", WS_URL_TEMPLATE_MAX);
        return false;
    }
    for (const char *c = text; *c; c++) {
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f) {
            snprintf(error, error_size, "may have printable ASCII characters only, and no spaces");
            return false;
        }
    }
    return true;
}

/* Takes `text` apart; the pieces point into it. False with a sentence in `error`. */
static bool ws_url_parse(const char *text, struct ws_url *url, char *error, size_t error_size)
{
    const char *at = text;
    size_t fields = 0;

    if (!ws_url_check_characters(text, error, error_size))
        return false;
    while (*at) {
        struct ws_url_piece piece = {.field = FIELD_TEXT, .text = {at, strcspn(at, "{}")}};

        if (piece.text.len > 0) {
            at += piece.text.len;
        } else if (*at == '}') {
            snprintf(error, error_size, "a '}' has no '{'");
            return false;
        } else {
            at = ws_url_read_field(at, &piece.field, error, error_size);
            if (!at)
                return false;
            if (++fields > WS_URL_FIELDS_MAX) {
                snprintf(error, error_size, "has more than %d placeholders", WS_URL_FIELDS_MAX);
                return false;
            }
        }
        url->pieces[url->count++] = piece;
    }
    return ws_url_check_tickets(url, error, error_size);
}

bool api_check_template(const char *ws_url_template, char *error, size_t error_size)
{
    struct ws_url url = {.count = 0};

    return ws_url_parse(ws_url_template, &url, error, error_size);
}

static void ws_url_add_ticket(struct ws_url *url)
{
    size_t at = ws_url_behind_pod(url);

    for (size_t i = 0; i < url->count; i++) {
        if (url->pieces[i].field == FIELD_TICKET)
            return;
    }
    if (at == 0)
        return; /* these URLs do not lead to the gateway */
    memmove(&url->pieces[at + 2], &url->pieces[at], (url->count - at) * sizeof(url->pieces[0]));
    url->pieces[at] = (struct ws_url_piece){.field = FIELD_TEXT, .text = SLICE("/")};
    url->pieces[at + 1] = (struct ws_url_piece){.field = FIELD_TICKET};
    url->count += 2;
}

int ws_url_new(const char *url_template, const char *base_url, bool has_tickets, struct ws_url **ret_url)
{
    struct ws_url *url = calloc(1, sizeof(*url));
    char error[256];

    if (!url)
        return -ENOMEM;
    url->url_template = strdup(url_template);
    url->base_url = strdup(base_url);
    if (!url->url_template || !url->base_url) {
        ws_url_free(url);
        return -ENOMEM;
    }
    if (!ws_url_parse(url->url_template, url, error, sizeof(error))) {
        ws_url_free(url);
        return -EINVAL;
    }
    if (has_tickets)
        ws_url_add_ticket(url);
    for (size_t i = 0; i < url->count; i++) {
        if (url->pieces[i].field == FIELD_BASE)
            url->pieces[i].text = slice_of(url->base_url);
    }
    *ret_url = url;
    return 0;
}

struct ws_url *ws_url_free(struct ws_url *url)
{
    if (!url)
        return NULL;
    free(url->url_template);
    free(url->base_url);
    free(url);
    return NULL;
}

/* Most values need no encoding at all: those are copied in one go. */
static void append_value(struct strbuf *buf, const char *text)
{
    size_t len = 0;

    while ((text[len] >= 'a' && text[len] <= 'z') || (text[len] >= 'A' && text[len] <= 'Z') ||
           (text[len] >= '0' && text[len] <= '9') || text[len] == '-')
        len++;
    strbuf_append(buf, text, len);
    if (text[len])
        percent_encode(buf, slice_of(text + len));
}

/* From the piece `first` to before the piece `end`. */
static void ws_url_write_pieces(const struct ws_url *url, size_t first, size_t end,
                                const struct ws_url_values *values, struct strbuf *buf)
{
    for (size_t i = first; i < end; i++) {
        const struct ws_url_piece *piece = &url->pieces[i];

        switch (piece->field) {
        case FIELD_TEXT:
        case FIELD_BASE:
            strbuf_append(buf, piece->text.data, piece->text.len);
            break;
        case FIELD_POD:
            append_value(buf, values->pod);
            break;
        case FIELD_PROVIDER:
            append_value(buf, values->provider);
            break;
        case FIELD_TEMPLATE:
            append_value(buf, values->template);
            break;
        case FIELD_FLOW_SUFFIX:
            if (strcmp(values->flow, "v2") == 0)
                strbuf_append(buf, "/v2", 3);
            break;
        case FIELD_CALL_SID:
            append_value(buf, values->call_sid);
            break;
        case FIELD_MERCHANT:
            append_value(buf, values->merchant);
            break;
        case FIELD_TICKET:
            append_value(buf, values->ticket);
            break;
        case FIELDS:
            assert(!"refused by ws_url_parse");
        }
    }
}

void ws_url_write(const struct ws_url *url, const struct ws_url_values *values, struct strbuf *buf)
{
    ws_url_write_pieces(url, 0, url->count, values, buf);
}

/* The piece with the pod of /ws/pod/{pod}/{ticket}; 0: the template has none. */
static size_t ws_url_pod(const struct ws_url *url)
{
    size_t behind = ws_url_behind_pod(url);

    return behind > 0 && behind + 1 < url->count && url->pieces[behind + 1].field == FIELD_TICKET ? behind - 1
                                                                                                  : 0;
}

bool ws_url_can_hold(const struct ws_url *url)
{
    size_t pod = ws_url_pod(url);

    for (size_t i = 0; i < url->count; i++) {
        if (url->pieces[i].field == FIELD_POD && i != pod)
            return false;
    }
    return pod > 0;
}

void ws_url_write_hold(const struct ws_url *url, const struct ws_url_values *values, struct strbuf *buf)
{
    size_t pod = ws_url_pod(url);
    struct slice before = url->pieces[pod - 1].text; /* it ends with /ws/pod/ */

    assert(ws_url_can_hold(url));
    ws_url_write_pieces(url, 0, pod - 1, values, buf);
    strbuf_append(buf, before.data, before.len - strlen("pod/"));
    strbuf_append_str(buf, "hold/");
    ws_url_write_pieces(url, pod + 2, url->count, values, buf);
}

bool api_template_can_hold(const char *ws_url_template)
{
    struct ws_url *url;
    bool can_hold;

    if (ws_url_new(ws_url_template, "", true, &url) < 0)
        return false;
    can_hold = ws_url_can_hold(url);
    ws_url_free(url);
    return can_hold;
}

struct slice ws_url_path(const struct ws_url *url, const struct ws_url_values *values, struct strbuf *buf)
{
    struct slice path;
    size_t at = 0;

    while (at < url->count && url->pieces[at].field != FIELD_TICKET)
        at++;
    if (at < url->count)
        ws_url_write_pieces(url, at + 1, url->count, values, buf);
    if (strbuf_failed(buf))
        return SLICE("");
    path = strbuf_slice(buf);
    for (size_t i = 0; i < path.len; i++) {
        if (path.data[i] == '?' || path.data[i] == '#')
            path.len = i;
    }
    return path.len > 0 ? path : SLICE("/");
}
