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
};

/*
 * Appends the client's request as the pod shall see it: for `path`, which begins with a slash, with the
 * client's query. Headers that are meant for this connection alone are left out, and so are those that only
 * this router may write, and, unless the peer is a trusted proxy, those that say who the client is. Who asked
 * and how is added, with what a trusted proxy says of it, and so is the call: X-Call-Sid, X-Merchant-Id. A
 * traceparent is passed on, with its tracestate, if it is the only one and valid.
 */
void head_write_request(const struct trusted *trusted, struct http_request *request, struct slice path,
                        const struct head_call *call, struct strbuf *buf);

/* What the pod answered. */
struct head_answer {
    size_t len;        /* of status line and headers */
    struct slice said; /* the status line without its version: "403 Forbidden"; within the data */
    int status;
};

/* 1: the header is complete. 0: more is needed. -EPROTO: it is no HTTP/1.x answer that can be passed on. */
int head_read_answer(struct slice data, struct head_answer *ret_answer) MUST_CHECK;

#endif
