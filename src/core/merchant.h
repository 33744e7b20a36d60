/*
 * merchant.h - a merchant's configuration, and the chain of pools that follows from it (docs/TIERS.md).
 */
#ifndef CORE_MERCHANT_H
#define CORE_MERCHANT_H

#include "base/arena.h"
#include "core/tiers.h"

enum {
    MERCHANT_CONFIG_TEXT_MAX = 8 * 1024,
    MERCHANTS_MAX = 100000,
    CHAIN_MAX = TIER_CHAIN_MAX + 2, /* the merchant's pool and its own tier in front */
    MERCHANT_PRIORITY_MAX = 9,
    MERCHANT_HOLD_SECONDS_MAX = 3600,
    MERCHANT_WAITING_MAX = 100000,
};

#define MERCHANT_NOT_GIVEN UINT32_MAX

/*
 * All strings borrowed from the arena it was parsed into. `tier` and `fallback` may name a merchant
 * pool, too, in either spelling; `pool` is a merchant id.
 */
struct merchant_config {
    const char *tier; /* NULL: not given */
    const char *pool; /* NULL: not given */
    const char **fallback;
    size_t fallback_len; /* 0: not given, or an empty list, which is the same */
    /* Of its calls that wait, or MERCHANT_NOT_GIVEN. */
    uint32_t priority;
    uint32_t hold_seconds; /* 0: they may not wait */
    uint32_t max_waiting;
};

/*
 * What somebody asks for now: PUT /api/v1/merchants/{id}. 0; -ENOMEM; -EINVAL with a sentence for the
 * operator in `error`: not an object, a member that is unknown, there twice or of the wrong type, a name
 * that can be no tier or pool, more than TIER_CHAIN_MAX fallbacks, a text that is too long. A tier that
 * does not exist is no error: it may be configured later.
 */
int merchant_config_check(struct arena *arena, const char *text, size_t len,
                          struct merchant_config *ret_config, char *error, size_t error_size) MUST_CHECK;

/*
 * What is stored, perhaps by another program: the same, but members that no chain depends on are ignored, and
 * so are numbers of waiting calls that no PUT would accept.
 */
int merchant_config_parse(struct arena *arena, const char *text, size_t len,
                          struct merchant_config *ret_config, char *error, size_t error_size) MUST_CHECK;

/* The pools to try, in order, without duplicates. */
struct chain {
    const struct tier *steps[CHAIN_MAX]; /* borrowed from the tier configuration */
    size_t len;
    const char *missing_pool; /* the merchant's dedicated pool, when it is not configured; else NULL */
};

/*
 * `merchant` NULL: a merchant without configuration. Names that are not configured are skipped. A
 * fallback list of such names only leaves nothing, not the default chain: installations say "no
 * fallback" that way.
 */
void chain_resolve(const struct tier_config *tiers, const struct merchant_config *merchant,
                   struct chain *ret_chain);

#endif
