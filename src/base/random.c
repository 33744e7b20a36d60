/*
 * random.c - random bytes of the kernel, and times that are spread at random.
 */
#include "base/random.h"

#include <sys/random.h>

bool random_bytes(void *bytes, size_t len)
{
    if (getrandom(bytes, len, GRND_NONBLOCK) == (ssize_t)len)
        return true;
    memset(bytes, 0, len);
    return false;
}

bool random_bytes_wait(void *bytes, size_t len)
{
    return getrandom(bytes, len, 0) == (ssize_t)len;
}

uint32_t random_u32(void)
{
    uint32_t number;

    (void)random_bytes(&number, sizeof(number));
    return number;
}

uint64_t random_jitter_ms(uint64_t ms)
{
    return ms - ms / 2 * random_u32() / UINT32_MAX;
}
