/*
 * address.h - the address of a Redis server or a sentinel. Pure functions.
 */
#ifndef STORE_REDIS_ADDRESS_H
#define STORE_REDIS_ADDRESS_H

#include "store/redis/link.h"

enum { ADDRESS_TEXT_MAX = sizeof(((struct redis_address *)0)->host) + 8 };

bool address_equals(const struct redis_address *a, const struct redis_address *b);

/* "host:port" or the path of a socket; returns `text`. */
const char *address_text(const struct redis_address *address, char *text, size_t size);

/* False, and nothing is written, if it does not fit or the port is none. */
bool address_set(struct redis_address *ret_address, struct slice host, long long port);

#endif
