/*
 * request.h - one request from its first byte to the end of its answer. Internal to the module.
 *
 * Requests are taken from the server's pool, so that a request costs no memory from the heap. What the
 * client sent stays where it was read, in the connection's buffer; a request holds offsets into it, because
 * the buffer may move while the request is being read. Once the handler runs, it stays in place.
 */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include "base/list.h"
#include "base/slice.h"
#include "http/http.h"
#include "http/router.h"

struct http_connection;

enum { REQUEST_MAGIC = 0x72657175 };

enum http_request_state {
    REQUEST_READING,   /* not complete yet */
    REQUEST_WORKING,   /* the handler has it */
    REQUEST_WRITING,   /* answered; the client has not taken it all */
    REQUEST_STREAMING, /* between http_stream_begin and http_stream_end */
    REQUEST_ENDING,    /* the stream has ended; what waits must still go out */
    REQUEST_UPGRADED,  /* the connection was taken away */
    REQUEST_SENT,      /* handed to the kernel, or the client was gone */
};

/* Offsets from the start of the request. */
struct http_span {
    uint32_t at;
    uint32_t len;
};

struct http_header {
    struct http_span name;
    struct http_span value;
};

enum http_parse_step {
    PARSE_START,
    PARSE_NAME,
    PARSE_VALUE,
};

struct http_request {
    struct http_connection *connection;
    unsigned magic;
    enum http_request_state state;
    uint64_t started_ns;

    /* What was asked. */
    enum http_parse_step step;
    uint8_t method; /* enum llhttp_method */
    bool has_method;
    bool is_http_1_0;
    bool header_done;
    bool is_looked_up; /* `match` is set, and `match_err` is what router_find returned */
    bool is_dispatched;
    bool is_guarded;       /* the guard has seen it */
    bool expects_continue; /* waits for a word before it sends its body */
    bool is_chunked;
    bool is_complete;
    bool wants_upgrade;
    bool is_head;
    bool close;   /* the connection ends with this answer */
    bool is_held; /* its client waits on purpose; counted by the server */
    struct http_span target;
    struct http_span path;
    struct http_span query;
    struct http_span body;
    size_t header_len;     /* request line and headers */
    size_t content_length; /* as announced; 0 when chunked */
    size_t trailer_len;
    size_t header_count;
    struct http_header headers[HTTP_HEADERS_MAX];

    /* Why it is refused while it is being read; 0: it is not. */
    int refuse_status;
    int match_err; /* of router_find */
    const char *refuse_message;

    struct router_match match;
    void *user; /* see http_request_set_user */
    size_t id_len;
    char id[HTTP_REQUEST_ID_MAX + 1];
    struct arena arena;

    /* The answer. */
    int status;
    bool has_retry_after;
    struct strbuf extra; /* headers of the handler, in the arena */
    uv_write_t write;
    size_t unsent; /* its memory while the answer waits for the client; counted by the server */

    void (*on_close)(void *arg);
    void *on_close_arg;
    uint64_t looked_ns; /* when the socket was last asked whether the client has gone; 0: never */
    bool is_unsent;     /* the client had gone before the first byte of the answer */
    void (*on_unsent)(void *arg);
    void *on_unsent_arg;

    struct http_request *next_free;
};

/* The text of a span, where the buffer is now. */
struct slice http_request_span(const struct http_request *request, struct http_span span);

/* NULL: no memory. */
struct http_request *http_request_get(struct http_connection *connection);
/* Gives it back to the pool. */
void http_request_put(struct http_request *request);
void http_request_free(struct http_request *request);

/* Takes X-Request-Id if it is usable. */
void http_request_take_id(struct http_request *request, struct slice value);
void http_request_make_id(struct http_request *request);

/* response.c: answers a request that could not be read, and ends the connection after it. */
void http_refuse(struct http_request *request, int status, const char *message);

/* response.c: the answer does not wait any longer, because it is gone or the connection is. */
void http_response_settle(struct http_request *request);

/*
 * response.c: puts status line and headers into the server's scratch memory; `content_length` < 0: none.
 * 0 or -E2BIG.
 */
int http_response_head(struct http_request *request, int status, const char *content_type,
                       int64_t content_length, bool chunked, size_t *ret_len) MUST_CHECK;

#endif
