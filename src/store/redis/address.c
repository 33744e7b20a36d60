/*
 * address.c - sets, compares and prints the addresses of servers.
 */
#include "store/redis/address.h"

#include <stdio.h>

bool address_equals(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

const char *address_text(const struct redis_address *address, char *text, size_t size)
{
    if (address->port)
        snprintf(text, size, "%s:%u", address->host, (unsigned)address->port);
    else
        snprintf(text, size, "%s", address->host);
    return text;
}

bool address_set(struct redis_address *ret_address, struct slice host, long long port)
{
    if (host.len == 0 || host.len >= sizeof(ret_address->host) || memchr(host.data, 0, host.len) ||
        port < 1 || port > UINT16_MAX)
        return false;
    memmove(ret_address->host, host.data, host.len);
    ret_address->host[host.len] = '\0';
    ret_address->port = (uint16_t)port;
    return true;
}
