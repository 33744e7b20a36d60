/*
 * tiers.h - the tier configuration: parsing, validation, defaults.
 *
 * A tier_config is immutable once parsed. Merchant pools are entries too, named "merchant:{id}".
 */
#ifndef CORE_TIERS_H
#define CORE_TIERS_H

#include "core/names.h"

enum {
    TIERS_MAX = 1024, /* merchant pools included */
    TIER_CHAIN_MAX = 64,
    TIER_TARGET_MAX = 1000000,
    TIER_CONCURRENT_MAX = 1000,
    TIER_CONCURRENT_DEFAULT = 5,
    TIER_CONFIG_TEXT_MAX = 60 * 1024, /* fits a request body */
};

struct tier {
    char name[POOL_LABEL_MAX + 1]; /* "gold", "merchant:9shines" */
    bool is_merchant;
    bool is_shared;
    bool is_reserved;
    uint32_t target;
    uint32_t max_concurrent; /* calls per pod: 1 for exclusive tiers and merchant pools */
};

struct tier_config {
    char *text; /* as it was given */
    struct tier *tiers;
    size_t tier_count;
    size_t *chain; /* the default chain, indexes into tiers */
    size_t chain_len;
    size_t *fill_order;  /* all tiers in the order in which new pods fill them */
    size_t default_tier; /* where pods go when every tier is full */
};

/*
 * The three accepted forms of SPEC section 3; NULL, "" and "{}" give the defaults.
 *
 * 0; -ENOMEM; -EINVAL with a sentence for the operator in `error`.
 */
int tier_config_parse(const char *text, size_t len, struct tier_config **ret_config, char *error,
                      size_t error_size) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct tier_config *tier_config_free(struct tier_config *config);
void tier_config_freep(struct tier_config **config);

/* The tier of that name, or NULL. */
const struct tier *tier_config_find(const struct tier_config *config, const char *name);

#endif
