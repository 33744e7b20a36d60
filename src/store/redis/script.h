/*
 * script.h - the scripts that run in Redis, put into the binary by the build from scripts/redis/.
 */
#ifndef STORE_REDIS_SCRIPT_H
#define STORE_REDIS_SCRIPT_H

#include "base/base.h"

struct redis_script {
    const char *name;
    const char *text;
    size_t text_len;
    char sha[41];      /* of the text, in hex: what EVALSHA wants */
    bool has_deadline; /* it changes something, and its last argument says until when it may */
};

/* The script of scripts/redis/NAME.lua; an unknown name is our mistake. */
const struct redis_script *redis_script(const char *name);

#endif
