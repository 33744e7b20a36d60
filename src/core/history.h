/*
 * history.h - the last versions of each configuration: of the tiers, and of every merchant.
 *
 * A configuration is known by the merchant's id; "" means the tiers. A text "" means that there is no
 * configuration: it was removed, or never set. Versions have numbers from 1 on. Two rules, which the Redis
 * scripts share (scripts/redis/lib/history.lua):
 *
 * - The present version is the newest one that is kept, if that has the present text. Otherwise somebody
 *   else has written it (TIER_CONFIG, a router of an older version, an edit by hand): it has the next number.
 * - A change adds a version. If the present text is not kept yet, it is kept first, without a time and a key.
 *   So the configuration before the first change can be restored. A change to the same text adds nothing.
 *
 * HISTORY_MAX versions of each are kept. A merchant that was removed keeps its history, until
 * HISTORY_REMOVED_MAX others were removed after it.
 */
#ifndef CORE_HISTORY_H
#define CORE_HISTORY_H

#include "base/list.h"
#include "base/map.h"
#include "core/command.h"

struct version {
    struct list in_history;
    uint64_t number;
    uint64_t at_ms; /* 0: not known */
    const char *by; /* the name of the key; "": not known, or none */
    char text[];    /* followed by `by` */
};

struct history {
    struct map_node node;
    struct list in_removed; /* while its merchant is removed */
    struct list versions;   /* oldest first */
    size_t count;
    char merchant_id[];
};

struct histories {
    struct map by_merchant;
    struct list removed; /* histories of removed merchants, the oldest removal first */
    size_t removed_count;
};

void histories_init(struct histories *histories);
void histories_release(struct histories *histories);

/* NULL: no version is kept. */
struct history *history_find(const struct histories *histories, const char *merchant_id);

/* The newest version, or NULL. */
const struct version *history_newest(const struct history *history);

/* Copies all. NULL without memory. */
struct version *version_new(uint64_t number, uint64_t at_ms, const char *by, const char *text) MUST_CHECK;

/* Finds the history, or makes it. 0 or -ENOMEM. */
int history_get(struct histories *histories, const char *merchant_id,
                struct history **ret_history) MUST_CHECK;

/* Adds the version, which it takes; forgets the oldest ones beyond the limits. */
void history_add(struct histories *histories, struct history *history, struct version *version);

/* Frees a history without versions: its change has failed. */
void history_drop_empty(struct histories *histories, struct history *history);

/* The number of the present version, if the newest kept one has that number and text; 0 and "": none. */
uint64_t history_present(uint64_t newest, const char *newest_text, const char *text);

/*
 * Fills result->history: the newest first, the present one too if it is not among the `count` kept ones,
 * which are the oldest first. Older versions are left out beyond HISTORY_MAX, or beyond HISTORY_TEXTS_MAX
 * bytes. Borrows all texts. 0 or -ENOMEM.
 */
int history_answer(const struct version_info *kept, size_t count, const char *present_text,
                   struct arena *arena, struct result *result) MUST_CHECK;

#endif
