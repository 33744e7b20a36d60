/*
 * trusted.c - a list of addresses and blocks, as an operator writes it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/slice.h"
#include "http/forwarded.h"

struct trusted {
    size_t count;
    struct address_block blocks[];
};

int trusted_new(const char *text, struct trusted **ret_trusted, char *error, size_t error_size)
{
    struct slice rest = slice_of(text);
    struct trusted *trusted;
    struct slice entry;
    size_t room = 1;

    for (const char *at = text; *at; at++)
        room += *at == ',';
    if (room > TRUSTED_MAX) {
        snprintf(error, error_size, "has more than %d entries", TRUSTED_MAX);
        return -EINVAL;
    }
    trusted = calloc(1, sizeof(*trusted) + room * sizeof(trusted->blocks[0]));
    if (!trusted)
        return -ENOMEM;
    if (slice_trim(rest).len == 0)
        rest.data = NULL;
    while (slice_take_first(&rest, &entry)) {
        if (address_block_parse(entry, &trusted->blocks[trusted->count]) < 0) {
            snprintf(error, error_size,
                     "\"%.*s\" is neither an address nor a block such as 10.0.0.0/8 or 2001:db8::/32",
                     (int)min_u64(entry.len, 64), entry.data);
            trusted_free(trusted);
            return -EINVAL;
        }
        trusted->count++;
    }
    *ret_trusted = trusted;
    return 0;
}

struct trusted *trusted_free(struct trusted *trusted)
{
    free(trusted);
    return NULL;
}

bool trusted_has(const struct trusted *trusted, const struct address *address)
{
    for (size_t i = 0; trusted && i < trusted->count; i++) {
        if (address_block_has(&trusted->blocks[i], address))
            return true;
    }
    return false;
}

const struct address_block *trusted_block(const struct trusted *trusted, size_t index)
{
    return trusted && index < trusted->count ? &trusted->blocks[index] : NULL;
}
