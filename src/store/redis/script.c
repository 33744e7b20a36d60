/*
 * script.c - finds an embedded script by its name.
 */
#include "store/redis/script.h"

#include <stdlib.h>

#include "store/redis/script_table.h"

static int script_compare(const void *name, const void *script)
{
    return strcmp(name, ((const struct redis_script *)script)->name);
}

const struct redis_script *redis_script(const char *name)
{
    const struct redis_script *script =
        bsearch(name, redis_script_table, redis_script_count, sizeof(redis_script_table[0]), script_compare);

    assert(script);
    return script;
}

bool redis_script_takes(const struct redis_script *script, size_t count)
{
    size_t most = script->args.least + script->args.optional;

    if (count < script->args.least)
        return false;
    if (script->args.has_list || count <= most)
        return true;
    return script->args.each > 0 && (count - most) % script->args.each == 0;
}
