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
    struct {
        size_t least; /* all scripts' arguments and its own, without optional and repeated ones */
        size_t optional;
        size_t each;   /* arguments that are repeated; 0: none */
        bool has_list; /* any number of others stand before them */
    } args;
};

/* The script of scripts/redis/NAME.lua; an unknown name is our mistake. */
const struct redis_script *redis_script(const char *name);

/* May the script be called with this number of arguments? The deadline is not one of them. */
bool redis_script_takes(const struct redis_script *script, size_t count);

#endif
