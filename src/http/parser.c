/*
 * parser.c - from bytes to a request: llhttp, plus what it does not check.
 *
 * llhttp in strict mode refuses most of what confuses two servers about where a request ends. It still takes
 * folded headers, a bare LF at the end of a line, other protocols than HTTP, and any number of headers of any
 * size; those are refused here, on the raw bytes of the header, once it is complete.
 */
#include "http/connection.h"

/* The callbacks' way to stop llhttp; 1 and 2 mean something else to it in on_headers_complete. */
enum { PARSER_STOP = -1 };

static int parser_refuse(struct http_request *request, int status, const char *message)
{
    if (request->refuse_status == 0) {
        request->refuse_status = status;
        request->refuse_message = message;
    }
    return PARSER_STOP;
}

static int parser_malformed(struct http_request *request)
{
    return parser_refuse(request, 400, "malformed request");
}

static struct http_connection *connection_of(llhttp_t *parser)
{
    struct http_connection *connection = parser->data;

    MAGIC_CHECK(connection, CONNECTION_MAGIC);
    return connection;
}

static uint32_t offset_of(const struct http_connection *connection, const char *at)
{
    return (uint32_t)(at - (connection->buffer + connection->start));
}

/* The pieces of a text that was cut by the network lie side by side, because it all goes into one buffer. */
static void span_add(const struct http_connection *connection, struct http_span *span, const char *at,
                     size_t len)
{
    if (span->len == 0)
        span->at = offset_of(connection, at);
    span->len = offset_of(connection, at) + (uint32_t)len - span->at;
}

static int parser_on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct http_connection *connection = connection_of(parser);

    span_add(connection, &connection->request->target, at, len);
    return 0;
}

/* A field after a chunked body. It is ignored, but bounded. */
static int parser_on_trailer(struct http_request *request, size_t len)
{
    request->trailer_len += len;
    if (request->trailer_len > HTTP_HEADER_MAX)
        return parser_refuse(request, 431, "header too large");
    return 0;
}

static int parser_on_field(llhttp_t *parser, const char *at, size_t len)
{
    struct http_connection *connection = connection_of(parser);
    struct http_request *request = connection->request;
    bool is_start = request->step != PARSE_NAME;

    request->step = PARSE_NAME;
    if (request->header_done)
        return parser_on_trailer(request, len);
    if (is_start) {
        if (request->header_count == HTTP_HEADERS_MAX)
            return parser_refuse(request, 431, "too many headers");
        request->headers[request->header_count++] = (struct http_header){{0, 0}, {0, 0}};
    }
    span_add(connection, &request->headers[request->header_count - 1].name, at, len);
    return 0;
}

static int parser_on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct http_connection *connection = connection_of(parser);
    struct http_request *request = connection->request;

    request->step = PARSE_VALUE;
    if (request->header_done)
        return parser_on_trailer(request, len);
    assert(request->header_count > 0);
    span_add(connection, &request->headers[request->header_count - 1].value, at, len);
    return 0;
}

/*
 * Looks at the header as it came: every line ends with CRLF and nothing else, none is folded, and none
 * lacks a name. Sets header_len. llhttp has seen the end of the header, so the end is there.
 */
static bool parser_check_lines(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    const char *begin = connection->buffer + connection->start;
    const char *end = connection->buffer + connection->len;
    const char *at = begin + request->target.at + request->target.len;

    for (;;) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        size_t len;

        if (!lf)
            return false;
        len = (size_t)(lf - at);
        if (len == 0 || lf[-1] != '\r')
            return false;
        if (len == 1) {
            request->header_len = (size_t)(lf + 1 - begin);
            return true;
        }
        if (memchr(at, '\r', len) != lf - 1 || at[0] == '\t' || at[0] == ':')
            return false;
        if (at[0] == ' ' && at != begin + request->target.at + request->target.len)
            return false;
        at = lf + 1;
    }
}

static int parser_check_protocol(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    const char *at = connection->buffer + connection->start + request->target.at + request->target.len;
    size_t left = (size_t)(connection->buffer + connection->len - at);

    /* llhttp also speaks RTSP and ICE, and takes HTTP/0.9 and HTTP/2.0 for versions of the same thing. */
    if (left < 10 || memcmp(at, " HTTP/1.", 8) != 0 || (at[8] != '0' && at[8] != '1') ||
        (at[9] != '\r' && at[9] != '\n'))
        return parser_refuse(request, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    request->is_http_1_0 = at[8] == '0';
    return 0;
}

/* Splits the target into path and query; an absolute one loses scheme and authority. */
static int parser_check_target(struct http_request *request)
{
    struct slice target = http_request_span(request, request->target);
    struct http_span path = request->target;
    const char *query;

    if (request->method == HTTP_CONNECT || (request->method == HTTP_OPTIONS && slice_equals(target, "*"))) {
        request->path = path;
        return 0;
    }
    if (target.len == 0 || memchr(target.data, '#', target.len))
        return parser_malformed(request);
    if (target.data[0] != '/') {
        const char *authority = memmem(target.data, target.len, "://", 3);
        size_t skip;

        if (!authority)
            return parser_malformed(request);
        skip = (size_t)(authority + 3 - target.data);
        while (skip < target.len && target.data[skip] != '/' && target.data[skip] != '?')
            skip++;
        if (skip == target.len || target.data[skip] == '?')
            return parser_refuse(request, 400, "the target has no path");
        path.at += (uint32_t)skip;
        path.len -= (uint32_t)skip;
        target = http_request_span(request, path);
    }
    query = memchr(target.data, '?', target.len);
    if (query) {
        size_t len = (size_t)(query - target.data);

        request->query = (struct http_span){path.at + (uint32_t)len + 1, path.len - (uint32_t)len - 1};
        path.len = (uint32_t)len;
    }
    request->path = path;
    return 0;
}

static void trim(const struct http_request *request, struct http_span *span)
{
    struct slice text = http_request_span(request, *span);

    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    span->len = (uint32_t)text.len;
}

struct seen {
    unsigned hosts;
    unsigned lengths;
    unsigned encodings;
    unsigned connections; /* what is named in Connection, with what is empty */
    bool expects_continue;
    bool expects_other;
    bool is_bad_encoding;
};

static unsigned count_commas(struct slice text)
{
    unsigned count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.data[i] == ',';
    return count;
}

/* The few headers that the server itself acts on, told apart by their length first. */
static void parser_look_at(struct http_request *request, const struct http_header *header, struct seen *seen)
{
    struct slice name = http_request_span(request, header->name);
    struct slice value = http_request_span(request, header->value);

    switch (header->name.len) {
    case 4:
        if (slice_is_word(name, "host"))
            seen->hosts++;
        break;
    case 6:
        if (!slice_is_word(name, "expect"))
            break;
        if (slice_is_word(value, "100-continue"))
            seen->expects_continue = true;
        else
            seen->expects_other = true;
        break;
    case 10:
        if (slice_is_word(name, "connection"))
            seen->connections += 1 + count_commas(value);
        break;
    case 12:
        if (slice_is_word(name, "x-request-id"))
            http_request_take_id(request, value);
        break;
    case 14:
        if (slice_is_word(name, "content-length"))
            seen->lengths++;
        break;
    case 17:
        if (slice_is_word(name, "transfer-encoding")) {
            seen->encodings++;
            if (!slice_is_word(value, "chunked"))
                seen->is_bad_encoding = true;
        }
        break;
    default:
        break;
    }
}

/* What two servers could understand differently is refused, even where the standard has a rule for it. */
static int parser_check_framing(struct http_request *request, const struct seen *seen)
{
    if (seen->lengths > 1 || seen->encodings > 1 || (seen->lengths && seen->encodings))
        return parser_refuse(request, 400, "more than one length of the body");
    if (seen->is_bad_encoding || (seen->encodings && request->is_http_1_0))
        return parser_refuse(request, 400, "this transfer encoding is not understood");
    if (seen->hosts > 1 || (seen->hosts == 0 && !request->is_http_1_0))
        return parser_refuse(request, 400, "exactly one Host header is required");
    /* Whoever passes the request on compares each of them with the name of each header. */
    if (seen->connections > HTTP_CONNECTION_ELEMENTS_MAX)
        return parser_refuse(request, 400, "too many elements in Connection");
    return 0;
}

static int parser_on_headers_complete(llhttp_t *parser)
{
    struct http_connection *connection = connection_of(parser);
    struct http_request *request = connection->request;
    struct seen seen = {0};

    request->method = parser->method;
    request->has_method = true;
    request->is_head = parser->method == HTTP_HEAD;
    if (parser_check_protocol(connection) || !parser_check_lines(connection))
        return parser_malformed(request);
    request->header_done = true;
    request->step = PARSE_START;
    for (size_t i = 0; i < request->header_count; i++) {
        trim(request, &request->headers[i].value);
        parser_look_at(request, &request->headers[i], &seen);
    }
    if (request->header_len > HTTP_HEADER_MAX)
        return parser_refuse(request, 431, "header too large");
    if (parser_check_framing(request, &seen) || parser_check_target(request))
        return PARSER_STOP;
    request->is_chunked = seen.encodings > 0;
    if (seen.lengths && parser->content_length > HTTP_BODY_MAX)
        return parser_refuse(request, 413, "body too large");
    if (seen.expects_other)
        return parser_refuse(request, 417, "this expectation cannot be met");
    request->content_length = seen.lengths ? (size_t)parser->content_length : 0;
    request->body.at = (uint32_t)request->header_len;

    /*
     * llhttp would stop for an upgrade before anybody has agreed to it. Here it reads on as if there were
     * none: what follows the request stays in the buffer, where http_upgrade or the next request finds it.
     */
    request->wants_upgrade = parser->upgrade && parser->method != HTTP_CONNECT;
    parser->upgrade = 0;

    request->expects_continue = seen.expects_continue && !request->is_http_1_0 &&
                                (request->is_chunked || request->content_length) &&
                                connection->len == connection->start + request->header_len;
    return 0;
}

static int parser_on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct http_connection *connection = connection_of(parser);
    struct http_request *request = connection->request;
    char *end = connection->buffer + connection->start + request->body.at + request->body.len;

    if (len > HTTP_BODY_MAX - request->body.len)
        return parser_refuse(request, 413, "body too large");
    /* Chunks move together over what stood between them; the parser is past those bytes. */
    if (at != end)
        memmove(end, at, len);
    request->body.len += (uint32_t)len;
    return 0;
}

static int parser_on_message_complete(llhttp_t *parser)
{
    struct http_request *request = connection_of(parser)->request;

    request->is_complete = true;
    request->close = !llhttp_should_keep_alive(parser);
    return HPE_PAUSED;
}

void parser_init(struct http_connection *connection)
{
    llhttp_settings_t *settings = &connection->server->parser_settings;

    if (!settings->on_message_complete) {
        llhttp_settings_init(settings);
        settings->on_url = parser_on_url;
        settings->on_header_field = parser_on_field;
        settings->on_header_value = parser_on_value;
        settings->on_headers_complete = parser_on_headers_complete;
        settings->on_body = parser_on_body;
        settings->on_message_complete = parser_on_message_complete;
    }
    llhttp_init(&connection->parser, HTTP_REQUEST, settings);
    connection->parser.data = connection;
}

static int parser_refuse_error(struct http_connection *connection, llhttp_errno_t error)
{
    struct http_request *request = connection->request;

    if (error == HPE_INVALID_VERSION || error == HPE_PAUSED_H2_UPGRADE)
        (void)parser_refuse(request, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    else
        (void)parser_malformed(request);
    return -EPROTO;
}

/*
 * Drops the framing between chunks, so that only the body itself takes room. The last four bytes stay,
 * because the end of the last line is looked at again.
 */
static void parser_compact(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    size_t end = connection->start + request->body.at + request->body.len;
    size_t keep = connection->parsed - end;

    if (keep > 4)
        keep = 4;
    memmove(connection->buffer + end, connection->buffer + connection->parsed - keep, keep);
    connection->parsed = end + keep;
    connection->len = end + keep;
}

static int parser_complete(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    const char *end = connection->buffer + connection->parsed;

    /* llhttp lets a bare LF end the trailer. */
    if (request->is_chunked && memcmp(end - 4, "\r\n\r\n", 4) != 0) {
        (void)parser_malformed(request);
        return -EPROTO;
    }
    return 1;
}

int parser_run(struct http_connection *connection)
{
    llhttp_t *parser = &connection->parser;
    struct http_request *request = connection->request;
    llhttp_errno_t error;

    error =
        llhttp_execute(parser, connection->buffer + connection->parsed, connection->len - connection->parsed);
    if (error == HPE_PAUSED && request->is_complete) {
        connection->parsed = (size_t)(llhttp_get_error_pos(parser) - connection->buffer);
        llhttp_resume(parser);
        return parser_complete(connection);
    }
    if (error != HPE_OK)
        return parser_refuse_error(connection, error);
    connection->parsed = connection->len;
    if (!request->header_done && connection->parsed - connection->start > HTTP_HEADER_MAX) {
        (void)parser_refuse(request, 431, "header too large");
        return -EPROTO;
    }
    if (request->header_done && request->is_chunked)
        parser_compact(connection);
    return 0;
}
