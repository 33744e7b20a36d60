/*
 * head.h - the two headers of a handshake: the request to the pod, and its answer.
 *
 * No I/O. Inside the module only.
 */
#ifndef GATEWAY_HEAD_H
#define GATEWAY_HEAD_H

#include "http/forwarded.h"
#include "http/http.h"

enum {
    HEAD_REQUEST_MAX = HTTP_HEADER_MAX + 2048, /* the client's, and what is added to it */
    HEAD_ANSWER_MAX = 8 * 1024,
};

/* The call that the connection belongs to, for the pod. Borrowed. */
struct head_call {
    const char *call_sid;
    const char *merchant_id; /* "": none */
    /* The subprotocols that are offered, as in the header; "": none. */
    struct slice subprotocols;
    unsigned resumed; /* how often the call has come back to a pod, with this time; 0: it has not */
};

/*
 * Appends the client's request as the pod shall see it, without its end: for `path`, which begins with a
 * slash, with the client's query. Headers that are meant for this connection alone are left out, and so are
 * those that only this router may write, and, unless the peer is a trusted proxy, those that say who the
 * client is. Who asked and how is added, with what a trusted proxy says of it. A traceparent is passed on,
 * with its tracestate, if it is the only one and valid.
 *
 * `is_followed`: the stream may go on with another pod. Then extensions of WebSocket are left out, because no
 * two pods need to agree to the same ones, and so are the subprotocols: see struct head_call.
 */
void head_write_request(const struct trusted *trusted, struct http_request *request, struct slice path,
                        bool is_followed, struct strbuf *buf);

/* Its end: the call, X-Call-Sid and the others, and the empty line. */
void head_end_request(const struct head_call *call, struct strbuf *buf);

/* Appends the subprotocols that the client offers, of all its headers, separated by commas. */
void head_write_subprotocols(const struct http_request *request, struct strbuf *buf);

/* What the pod answered. */
struct head_answer {
    size_t len;        /* of status line and headers */
    struct slice said; /* the status line without its version: "403 Forbidden"; within the data */
    int status;
};

/* 1: the header is complete. 0: more is needed. -EPROTO: it is no HTTP/1.x answer that can be passed on. */
int head_read_answer(struct slice data, struct head_answer *ret_answer) MUST_CHECK;

/* The value of the first header of that name (lower case) in an answer that was read; data NULL: none. */
struct slice head_find(struct slice head, const char *name);

#endif
