/*
 * leader_script.h - calls the scripts of the leadership, which need no tiers.
 */
#ifndef STORE_REDIS_LEADER_SCRIPT_H
#define STORE_REDIS_LEADER_SCRIPT_H

#include "store/redis/link.h"

enum { LEADER_SCRIPT_TEXTS = 3 };

/* `key` without the prefix. All texts are copied. As redis_link_call. */
int leader_script_call(struct redis_link *link, const char *script, const char *key_prefix, const char *key,
                       const char *const texts[LEADER_SCRIPT_TEXTS], redis_reply_fn done,
                       void *arg) MUST_CHECK;

#endif
