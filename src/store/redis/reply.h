/*
 * reply.h - what Redis's error replies mean. Pure functions.
 */
#ifndef STORE_REDIS_REPLY_H
#define STORE_REDIS_REPLY_H

#include "store/redis/link.h"

enum { ADDRESS_TEXT_MAX = sizeof(((struct redis_address *)0)->host) + 8 };

/*
 * The negative errno of redis_reply_fn for the text of an error reply. Also finds the code inside a text of
 * Redis 6 and older ("ERR Error running script (call to f_…): @user_script:1: WRONGTYPE …").
 */
int reply_errno(const char *text);

/*
 * "LATE 1770544800000: …", of our own scripts: what time it is at the server. False: not such a text.
 */
bool reply_late_at(const char *text, uint64_t *ret_server_ms);

/* The answer to TIME, in milliseconds. False: it is none. */
bool reply_time(const redisReply *reply, uint64_t *ret_server_ms);

/* The text begins with this code, as a whole word. */
bool reply_has_code(const char *text, const char *code);

/*
 * "MOVED 3999 127.0.0.1:6381": where the slot is. An empty host means the one that was asked, `asked`.
 * False: not such a text.
 */
bool reply_moved_to(const char *text, const char *asked, struct redis_address *ret_address);

/* Reads the nodes out of the answer to CLUSTER SLOTS, each once; returns how many, `max` at most. */
size_t reply_cluster_nodes(const redisReply *reply, const char *asked, struct redis_address *ret_nodes,
                           size_t max);

bool address_equals(const struct redis_address *a, const struct redis_address *b);

/* "host:port" or the path of a socket; returns `text`. */
const char *address_text(const struct redis_address *address, char *text, size_t size);

/* False, and nothing is written, if it does not fit or the port is none. */
bool address_set(struct redis_address *ret_address, struct slice host, long long port);

#endif
