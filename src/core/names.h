/*
 * names.h - which names are allowed, in one place.
 */
#ifndef CORE_NAMES_H
#define CORE_NAMES_H

#include "base/base.h"

enum {
    POD_NAME_MAX = 63, /* a DNS label */
    CALL_SID_MAX = 128,
    MERCHANT_ID_MAX = 128,
    TIER_NAME_MAX = 63,
    PROVIDER_MAX = 32,
    ADDRESS_MAX = 255,
    INCARNATION_MAX = 127,
    POOL_LABEL_MAX = 9 + MERCHANT_ID_MAX, /* "merchant:" and an id; "pool:" and a tier is shorter */
};

/*
 * A pool is named as in the tier configuration: "gold", or "merchant:9shines" for a merchant's own.
 * Calls and refusals show it with a label: "pool:gold", or again "merchant:9shines".
 */
#define MERCHANT_POOL_PREFIX "merchant:"
#define POOL_LABEL_PREFIX "pool:"

/* 1 to 128 characters of A-Z a-z 0-9 . _ : @ + = - */
bool name_is_call_sid(const char *text, size_t len);
bool name_is_merchant_id(const char *text, size_t len);

/*
 * A DNS label: lower-case letters, digits and inner hyphens, 1 to 63. But not "metadata" or
 * "calls": what is stored of such a pod in Redis would be where other things are (pod:metadata,
 * pod:calls:…).
 */
#define POD_NAME_RULE                                                                                        \
    "must be a DNS label: lower-case letters, digits and inner hyphens, at most 63 characters; and not "     \
    "\"metadata\" or \"calls\", which are reserved"
bool name_is_pod(const char *text, size_t len);

/* A pod's name, or the beginning of one with a * behind it, or only that. */
#define POD_PATTERN_RULE "must be a pod's name, or the beginning of one with a * behind it: \"voice-agent-*\""
bool name_is_pod_pattern(const char *text, size_t len);

/* Does the pod belong to that pattern? */
bool name_fits_pod(const char *pattern, const char *pod);

/* 1 to 63 characters of A-Z a-z 0-9 . _ - */
bool name_is_tier(const char *text, size_t len);

/* A tier, or "merchant:" and a merchant id. */
bool name_is_pool(const char *text, size_t len);

/* How a merchant's configuration may call a pool: the same, or the merchant id alone. */
bool name_is_pool_or_id(const char *text, size_t len);

/* Does the name begin with "merchant:"? */
bool name_is_merchant_pool(const char *text, size_t len);

/* The name of the pool of a merchant. Longer ids than MERCHANT_ID_MAX are cut. */
void merchant_pool_name(struct slice merchant_id, char ret_name[POOL_LABEL_MAX + 1]);

/* The label of a pool from its name: "gold" is pool:gold, "merchant:9shines" is itself. */
void pool_label(struct slice name, char ret_label[POOL_LABEL_MAX + 1]);

/* The name of a pool from its label. */
const char *name_of_pool_label(const char *label);

/* 1 to 32 characters of A-Z a-z 0-9 . _ - */
bool name_is_provider(const char *text, size_t len);

/* host:port, [v6]:port or host; printable, no spaces, quotes or backslashes; empty is allowed. */
bool name_is_address(const char *text, size_t len);

/* 1 to 127 printable characters, no spaces, quotes or backslashes. */
bool name_is_incarnation(const char *text, size_t len);

#endif
