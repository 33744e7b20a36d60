/*
 * head.c - writes the header of the request to the pod, and reads the header of the pod's answer.
 */
#include "gateway/head.h"

#include "base/slice.h"
#include "core/names.h"
#include "http/proxy_headers.h"
#include "http/traceparent.h"

/* What RFC 9110 calls hop-by-hop, and what frames a body. */
static bool is_for_one_hop(struct slice name)
{
    static const char *const names[] = {
        "connection",          "upgrade", "keep-alive", "proxy-connection",  "proxy-authenticate",
        "proxy-authorization", "te",      "trailer",    "transfer-encoding", "content-length"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_is_word(name, names[i]))
            return true;
    return false;
}

/* Has the client named this header in Connection, as one that is not to be passed on? */
static bool is_named_in_connection(const struct http_request *request, struct slice name)
{
    for (size_t i = 0; i < http_request_header_count(request); i++) {
        struct slice header, value, element;

        http_request_header_at(request, i, &header, &value);
        if (!slice_is_word(header, "connection"))
            continue;
        while (slice_take_first(&value, &element))
            if (element.len == name.len && strncasecmp(element.data, name.data, name.len) == 0)
                return true;
    }
    return false;
}

static void append_header(struct strbuf *buf, const char *name, struct slice value)
{
    strbuf_append_str(buf, name);
    strbuf_append(buf, ": ", 2);
    strbuf_append(buf, value.data, value.len);
    strbuf_append(buf, "\r\n", 2);
}

static bool is_replaced(struct slice name)
{
    static const char *const names[] = {
        "host",   "x-request-id", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
        "expect", "traceparent"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_is_word(name, names[i]))
            return true;
    return false;
}

/*
 * Is it the client's word for what the pod must be able to believe? What this router tells a pod about its
 * call, and, from a stranger, what only a proxy can know.
 */
static bool is_claim(struct slice name, bool is_by_proxy)
{
    static const char *const ours[] = {"x-call-sid", "x-merchant-id", "x-call-resumed"};

    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (header_is(name, ours[i]))
            return true;
    /* An underscore is nobody's way to write these, but that of somebody who wants to get past a proxy. */
    return header_names_client(name) && (!is_by_proxy || memchr(name.data, '_', name.len));
}

/* The addresses that proxies before us have written, if they are believed, and our own peer's. */
static void append_forwarded_for(const struct http_request *request, bool is_by_proxy, struct strbuf *buf)
{
    bool is_first = true;

    strbuf_append_str(buf, "X-Forwarded-For: ");
    for (size_t i = 0; is_by_proxy && i < http_request_header_count(request); i++) {
        struct slice name, value;

        http_request_header_at(request, i, &name, &value);
        if (!slice_is_word(name, "x-forwarded-for") || value.len == 0)
            continue;
        if (!is_first)
            strbuf_append(buf, ", ", 2);
        strbuf_append(buf, value.data, value.len);
        is_first = false;
    }
    if (!is_first)
        strbuf_append(buf, ", ", 2);
    strbuf_append_str(buf, http_request_peer(request));
    strbuf_append(buf, "\r\n", 2);
}

/* The client's own, if it is to be passed on; else data is NULL: then its tracestate means nothing. */
static struct slice find_traceparent(const struct http_request *request)
{
    struct slice found = traceparent_find(request);

    return is_named_in_connection(request, SLICE("traceparent")) ? (struct slice){NULL, 0} : found;
}

/* What two pods may agree to differently: a stream that is followed may have several, one after the other. */
static bool is_agreed(struct slice name)
{
    return slice_is_word(name, "sec-websocket-extensions") || slice_is_word(name, "sec-websocket-protocol");
}

/* A store that other programs write to may hold names that are none of ours: they are no headers. */
void head_end_request(const struct head_call *call, struct strbuf *buf)
{
    if (call->subprotocols.len > 0)
        append_header(buf, "Sec-WebSocket-Protocol", call->subprotocols);
    if (name_is_call_sid(call->call_sid, strlen(call->call_sid)))
        append_header(buf, "X-Call-Sid", slice_of(call->call_sid));
    if (name_is_merchant_id(call->merchant_id, strlen(call->merchant_id)))
        append_header(buf, "X-Merchant-Id", slice_of(call->merchant_id));
    if (call->resumed > 0)
        strbuf_printf(buf, "X-Call-Resumed: %u\r\n", call->resumed);
    strbuf_append(buf, "\r\n", 2);
}

void head_write_subprotocols(const struct http_request *request, struct strbuf *buf)
{
    size_t begin = buf->len;

    for (size_t i = 0; i < http_request_header_count(request); i++) {
        struct slice name, value;

        http_request_header_at(request, i, &name, &value);
        if (!slice_is_word(name, "sec-websocket-protocol") || value.len == 0 ||
            is_named_in_connection(request, name))
            continue;
        if (buf->len > begin)
            strbuf_append(buf, ", ", 2);
        strbuf_append(buf, value.data, value.len);
    }
}

void head_write_request(const struct trusted *trusted, struct http_request *request, struct slice path,
                        bool is_followed, struct strbuf *buf)
{
    struct slice query = http_request_query(request);
    struct slice host = http_request_header(request, "host");
    struct slice traceparent = find_traceparent(request);
    struct forwarded forwarded;

    forwarded_read(trusted, request, &forwarded);
    strbuf_append_str(buf, "GET ");
    strbuf_append(buf, path.data, path.len);
    if (query.len > 0) {
        strbuf_append_char(buf, '?');
        strbuf_append(buf, query.data, query.len);
    }
    strbuf_append_str(buf, " HTTP/1.1\r\n");
    append_header(buf, "Host", host.data ? host : SLICE(""));
    for (size_t i = 0; i < http_request_header_count(request); i++) {
        struct slice name, value;

        http_request_header_at(request, i, &name, &value);
        if (is_for_one_hop(name) || is_replaced(name) || is_claim(name, forwarded.is_by_proxy) ||
            is_named_in_connection(request, name) || (is_followed && is_agreed(name)) ||
            (!traceparent.data && slice_is_word(name, "tracestate")))
            continue;
        strbuf_append(buf, name.data, name.len);
        strbuf_append(buf, ": ", 2);
        strbuf_append(buf, value.data, value.len);
        strbuf_append(buf, "\r\n", 2);
    }
    strbuf_append_str(buf, "Upgrade: websocket\r\nConnection: Upgrade\r\n");
    append_forwarded_for(request, forwarded.is_by_proxy, buf);
    append_header(buf, "X-Forwarded-Proto", forwarded.is_https ? SLICE("https") : SLICE("http"));
    if (forwarded.host.len > 0)
        append_header(buf, "X-Forwarded-Host", forwarded.host);
    append_header(buf, "X-Request-Id", slice_of(http_request_id(request)));
    if (traceparent.data)
        append_header(buf, "traceparent", traceparent);
}

static bool is_token(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!is_letter && !(c >= '0' && c <= '9') && !(c && strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return text.len > 0;
}

/*
 * Is every line but the first a name, a colon and a value, and no line more than that? Headers are passed on
 * to the client, who must not see others in them than we do: a bare LF or a folded line would hide one.
 */
static bool is_clean(struct slice head)
{
    const char *line = head.data;
    const char *last = head.data + head.len - 2;

    while (line < last) {
        const char *end = memmem(line, (size_t)(last + 2 - line), "\r\n", 2);
        const char *colon = memchr(line, ':', (size_t)(end - line));

        if (line != head.data && (!colon || !is_token((struct slice){line, (size_t)(colon - line)})))
            return false;
        for (const char *at = line; at < end; at++) {
            if (((unsigned char)*at < ' ' && *at != '\t') || *at == 127)
                return false;
        }
        line = end + 2;
    }
    return true;
}

int head_read_answer(struct slice data, struct head_answer *ret_answer)
{
    const char *end = memmem(data.data, data.len, "\r\n\r\n", 4);
    struct head_answer answer = {0};

    if (!end)
        return data.len > HEAD_ANSWER_MAX ? -EPROTO : 0;
    answer.len = (size_t)(end + 4 - data.data);
    if (answer.len > HEAD_ANSWER_MAX || answer.len < 16 || memcmp(data.data, "HTTP/1.", 7) != 0 ||
        data.data[8] != ' ')
        return -EPROTO;
    for (size_t i = 9; i < 12; i++) {
        if (data.data[i] < '0' || data.data[i] > '9')
            return -EPROTO;
        answer.status = answer.status * 10 + (data.data[i] - '0');
    }
    if (answer.status != 101 && (answer.status < 200 || answer.status > 599))
        return -EPROTO;
    if (!is_clean((struct slice){data.data, answer.len}))
        return -EPROTO;
    end = memmem(data.data, data.len, "\r\n", 2);
    answer.said = (struct slice){data.data + 9, (size_t)(end - data.data - 9)};
    *ret_answer = answer;
    return 1;
}

struct slice head_find(struct slice head, const char *name)
{
    size_t name_len = strlen(name);
    const char *line = memmem(head.data, head.len, "\r\n", 2);
    const char *last = head.data + head.len - 2;

    assert(line);
    for (line += 2; line < last;) {
        const char *end = memmem(line, (size_t)(last + 2 - line), "\r\n", 2);

        if ((size_t)(end - line) > name_len && line[name_len] == ':' &&
            slice_is_word((struct slice){line, name_len}, name))
            return slice_trim((struct slice){line + name_len + 1, (size_t)(end - line) - name_len - 1});
        line = end + 2;
    }
    return (struct slice){NULL, 0};
}
