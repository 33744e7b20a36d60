/*
 * tiers.h - the tier configuration: parsing, validation, defaults.
 *
 * A tier_config is immutable once parsed. Merchant pools are entries too, named "merchant:{id}". In
 * the text such a pool has two spellings: the key "merchant:9shines", or the plain key "9shines" of
 * an exclusive tier that stands outside an explicit default_chain.
 */
#ifndef CORE_TIERS_H
#define CORE_TIERS_H

#include "base/strbuf.h"
#include "core/names.h"

enum {
    TIERS_MAX = 1024, /* merchant pools included */
    TIER_CHAIN_MAX = 64,
    TIER_TARGET_MAX = 1000000,
    TIER_CONCURRENT_MAX = 1000,
    TIER_CONCURRENT_DEFAULT = 5,
    TIER_CONFIG_TEXT_MAX = 60 * 1024,    /* fits a request body */
    TIER_CONFIG_STORED_MAX = 256 * 1024, /* TIERS_MAX tiers with the longest names, as tier_config_write */
    TIER_SKIPPED_MAX = 255,
    TIER_UNSET = UINT32_MAX, /* of buffer, min_pods and max_pods */
};

struct tier {
    char name[POOL_LABEL_MAX + 1]; /* "gold", "merchant:9shines" */
    bool is_merchant;
    bool is_shared;
    bool is_reserved;
    uint32_t target;
    uint32_t max_concurrent; /* calls per pod: 1 for exclusive tiers and merchant pools */
    /* For autoscaling (core/autoscale.h). TIER_UNSET: not given. */
    uint32_t buffer;
    uint32_t min_pods;
    uint32_t max_pods;
};

struct tier_config {
    char *text; /* to be stored: as tier_config_write writes it; of a stored one: as it was read */
    char skipped[TIER_SKIPPED_MAX + 1]; /* names in a stored default_chain that are no tiers; "": none */
    char ignored[TIER_SKIPPED_MAX + 1]; /* the first unknown member of TIER_CONFIG, a sentence; "": none */
    struct tier *tiers;
    size_t tier_count;
    size_t *chain; /* the default chain, indexes into tiers */
    size_t chain_len;
    size_t *fill_order;  /* all tiers in the order in which new pods fill them */
    size_t default_tier; /* where pods go when every tier is full */
};

/*
 * What somebody asks for now: PUT /api/v1/tiers. The three forms of docs/TIERS.md; NULL, "" and "{}"
 * give the defaults. Members that are unknown or there twice, and unknown names in default_chain, are
 * errors.
 *
 * 0; -ENOMEM; -EINVAL with a sentence for the operator in `error`.
 */
int tier_config_parse(const char *text, size_t len, struct tier_config **ret_config, char *error,
                      size_t error_size) MUST_CHECK;

/*
 * TIER_CONFIG: the same, but members that are unknown are ignored, and the first one is told in `ignored`: an
 * upgrade must not stop a router that ran with it.
 */
int tier_config_parse_seed(const char *text, size_t len, struct tier_config **ret_config, char *error,
                           size_t error_size) MUST_CHECK;

/*
 * What is stored, perhaps by another program: the same, but unknown members are ignored, and
 * unknown names in default_chain are skipped and told in `skipped`, as long as one tier is left.
 */
int tier_config_parse_stored(const char *text, size_t len, struct tier_config **ret_config, char *error,
                             size_t error_size) MUST_CHECK;

/*
 * The one form in which a configuration is stored: an envelope with all members in a fixed order
 * and plain names. A merchant pool keeps its prefix where its plain name would mean something else.
 * Read again it is the same configuration.
 */
void tier_config_write(const struct tier_config *config, struct strbuf *buf);

/* Does the stored text mean the same tiers as `wanted`, however it is written? True also without memory. */
bool tier_config_is_same(const char *stored, size_t len, const struct tier_config *wanted);

/* Accepts NULL; always returns NULL. */
struct tier_config *tier_config_free(struct tier_config *config);
void tier_config_freep(struct tier_config **config);

/* The tier of that name ("gold", "merchant:9shines"), or NULL. */
const struct tier *tier_config_find(const struct tier_config *config, const char *name);

/*
 * The same for a name in either spelling: "9shines" is a tier of that name, else the pool
 * merchant:9shines.
 */
const struct tier *tier_config_resolve(const struct tier_config *config, const char *name);

#endif
