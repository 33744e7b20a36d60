/*
 * head.h - the two headers of a handshake: what the pod is asked, and what it answers.
 *
 * No I/O. Inside the room only.
 */
#ifndef GATEWAY_HEAD_H
#define GATEWAY_HEAD_H

#include "http/forwarded.h"
#include "http/http.h"

enum {
    HEAD_REQUEST_MAX = HTTP_HEADER_MAX + 2048, /* the client's, and what is added to it */
    HEAD_ANSWER_MAX = 8 * 1024,
    HEAD_BODY_MAX = 64 * 1024, /* of an answer that is no agreement */
};

/*
 * Appends the client's request as the pod shall see it: for `path`, which begins with a slash, with the
 * client's query. Headers that are meant for this connection alone are left out; who asked and how is added,
 * with what a trusted proxy says of it.
 */
void head_write_request(const struct trusted *trusted, struct http_request *request, struct slice path,
                        struct strbuf *buf);

/* What the pod answered. */
struct head_answer {
    int status;
    size_t len; /* of status line and headers */
    bool is_chunked;
    bool has_length;
    size_t content_length;
};

/* 1: the header is complete. 0: more is needed. -EPROTO: it is no HTTP/1.x answer that can be passed on. */
int head_read_answer(struct slice data, struct head_answer *ret_answer) MUST_CHECK;

/* Takes the next header line of a complete header; *at begins at 0. False: there is none any more. */
bool head_next(struct slice head, size_t *at, struct slice *ret_name, struct slice *ret_value);

/* Is a header of the answer for the client, rather than for the gateway? */
bool head_is_for_client(struct slice name);

/*
 * The body of an answer of which `data` has come, taken out of its chunks in place. 1: *ret_body is complete.
 * 0: more is needed, unless `is_end`; -EPROTO: it makes no sense, or ended too early.
 */
int head_read_body(const struct head_answer *answer, char *data, size_t len, bool is_end,
                   struct slice *ret_body) MUST_CHECK;

#endif
