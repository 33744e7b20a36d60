/*
 * rate.h - limits how often one client may ask: token buckets, one for each address.
 *
 * A client may ask as often as the limit says within one period, all at once if it likes; after
 * that it gets the next turn when its share of the period has passed. The time is passed in. Does
 * no I/O and does not log.
 *
 * An IPv6 client is its /64, because the owner of one address has all of them. At most
 * RATE_CLIENTS_MAX clients are remembered. When one more comes, the one that has not asked for the
 * longest time is forgotten. So a client with very many addresses may escape the limit, but no
 * client is refused because of another.
 */
#ifndef API_RATE_H
#define API_RATE_H

#include "base/base.h"

struct rate; /* opaque: see rate.c */

enum {
    RATE_CLIENTS_MAX = 65536,
    RATE_COUNT_MAX = 1000000,
};

/*
 * Is `text` a limit such as "10/s", "600/m" or "3600/h", or "", which is none? -EINVAL with a sentence in
 * `error`.
 */
int rate_check(const char *text, char *error, size_t error_size) MUST_CHECK;

/* `text` has passed rate_check; *ret_rate is NULL when it is "". -ENOMEM. */
int rate_new(const char *text, struct rate **ret_rate) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct rate *rate_free(struct rate *rate);

/*
 * May this client ask now? `client` is its address as text; all that are no address count as one client.
 *
 * 0: yes, and it was counted. Else no, and how many milliseconds later it may. Without memory: yes.
 */
uint64_t rate_take(struct rate *rate, const char *client, uint64_t now_ms) MUST_CHECK;

/* Clients that are remembered. */
size_t rate_clients(const struct rate *rate);

#endif
