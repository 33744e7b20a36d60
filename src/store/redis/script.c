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
