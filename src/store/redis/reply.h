/*
 * reply.h - the meaning of error replies and of TIME. Pure functions.
 */
#ifndef STORE_REDIS_REPLY_H
#define STORE_REDIS_REPLY_H

#include "store/redis/link.h"

/*
 * The negative errno of redis_reply_fn for the text of an error reply. Also finds the code inside a
 * text of Redis 6 and older ("ERR Error running script (call to f_…): @user_script:1: WRONGTYPE
 * …").
 */
int reply_errno(const char *text);

/*
 * "LATE 1770544800000: …", of our own scripts: the time of the server. False: not such a text.
 */
bool reply_late_at(const char *text, uint64_t *ret_server_ms);

/* The answer to TIME, in milliseconds. False: it is none. */
bool reply_time(const redisReply *reply, uint64_t *ret_server_ms);

/* The text begins with this code, as a whole word. */
bool reply_has_code(const char *text, const char *code);

#endif
