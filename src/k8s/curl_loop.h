/*
 * curl_loop.h - a multi handle of libcurl on libuv's loop. Loop thread only.
 *
 * libcurl must not be called from inside its own callbacks. So nothing of ours but small change happens in
 * those: whatever tells others is done in `turn`, which runs when libcurl is not on the stack.
 */
#ifndef K8S_CURL_LOOP_H
#define K8S_CURL_LOOP_H

#include <curl/curl.h>
#include <uv.h>

#include "base/base.h"

struct curl_loop; /* opaque: see curl_loop.c */

/* After libcurl has worked: see what came and ask curl_loop_next_done. May add, remove and close. */
typedef void (*curl_loop_turn_fn)(void *arg);

int curl_loop_new(uv_loop_t *loop, curl_loop_turn_fn turn, void *arg, struct curl_loop **ret_curl) MUST_CHECK;

/* Nothing is sent and no `turn` runs before the next turn of the loop. */
int curl_loop_add(struct curl_loop *curl, CURL *easy) MUST_CHECK;
void curl_loop_remove(struct curl_loop *curl, CURL *easy);

/* A transfer that has ended and must be removed now; NULL: no more of them. */
CURL *curl_loop_next_done(struct curl_loop *curl, CURLcode *ret_code);

/* All transfers must have been removed. Closes the connections, frees everything, then calls `closed`. */
void curl_loop_close(struct curl_loop *curl, void (*closed)(void *arg), void *arg);

#endif
