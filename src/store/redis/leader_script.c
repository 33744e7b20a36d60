/*
 * leader_script.c - calls the scripts of the leadership, which need no tiers.
 */
#include "store/redis/leader_script.h"

#include <stdio.h>

#include "store/redis/script_interface.h"

enum { LEADER_KEY_MAX = 512 };

int leader_script_call(struct redis_link *link, const char *script, const char *key_prefix, const char *key,
                       const char *const texts[LEADER_SCRIPT_TEXTS], redis_reply_fn done, void *arg)
{
    const struct slice args[SCRIPT_COMMON_ARGS + LEADER_SCRIPT_TEXTS] = {
        [SCRIPT_ARG_PREFIX] = slice_of(key_prefix),    [SCRIPT_ARG_TIERS] = SLICE(""),
        [SCRIPT_ARG_DEFAULT_TIER] = SLICE(""),         [SCRIPT_COMMON_ARGS] = slice_of(texts[0]),
        [SCRIPT_COMMON_ARGS + 1] = slice_of(texts[1]), [SCRIPT_COMMON_ARGS + 2] = slice_of(texts[2]),
    };
    char whole_key[LEADER_KEY_MAX];

    snprintf(whole_key, sizeof(whole_key), "%s%s", key_prefix, key);
    assert(redis_script_takes(redis_script(script), ARRAY_LEN(args)));
    return redis_link_call(link, redis_script(script), whole_key, args, ARRAY_LEN(args), done, arg);
}
