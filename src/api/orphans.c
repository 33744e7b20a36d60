/*
 * orphans.c - finds merchants that name a tier or a pool which a change of the tiers removes.
 */
#include "api/orphans.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/merchant.h"

enum { SENTENCE_MAX = 512, SCRATCH_MAX = 1024 * 1024 };

struct orphans {
    struct tier_config *old_tiers;
    struct tier_config *new_tiers;
    struct arena *arena;
    size_t looked;
    size_t found; /* merchants */
    const char *warnings[ORPHANS_NAMED_MAX + 2];
    size_t warning_count;
};

static struct orphans *orphans_free(struct orphans *orphans)
{
    tier_config_free(orphans->old_tiers);
    tier_config_free(orphans->new_tiers);
    free(orphans);
    return NULL;
}

static bool removes_a_tier(const struct orphans *orphans)
{
    for (size_t i = 0; i < orphans->old_tiers->tier_count; i++) {
        if (!tier_config_find(orphans->new_tiers, orphans->old_tiers->tiers[i].name))
            return true;
    }
    return false;
}

struct orphans *orphans_new(const char *old_tiers, const char *new_tiers, struct arena *arena)
{
    struct orphans *orphans = calloc(1, sizeof(*orphans));
    char error[SENTENCE_MAX];

    if (!orphans)
        return NULL;
    orphans->arena = arena;
    if (tier_config_parse_stored(old_tiers, strlen(old_tiers), &orphans->old_tiers, error, sizeof(error)) <
            0 ||
        tier_config_parse_stored(new_tiers, strlen(new_tiers), &orphans->new_tiers, error, sizeof(error)) <
            0 ||
        !removes_a_tier(orphans))
        return orphans_free(orphans);
    return orphans;
}

static void warn(struct orphans *orphans, const char *format, ...) PRINTF_LIKE(2, 3);

static void warn(struct orphans *orphans, const char *format, ...)
{
    char sentence[SENTENCE_MAX];
    const char *copy;
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    copy = arena_strdup(orphans->arena, sentence);
    assert(orphans->warning_count < ARRAY_LEN(orphans->warnings));
    if (copy) /* without memory there is no warning */
        orphans->warnings[orphans->warning_count++] = copy;
}

static bool is_removed(const struct orphans *orphans, const char *name)
{
    return tier_config_resolve(orphans->old_tiers, name) && !tier_config_resolve(orphans->new_tiers, name);
}

/* The first name of the merchant that is removed, and the member that has it; NULL: none. */
static const char *removed_name(const struct orphans *orphans, const struct merchant_config *merchant,
                                const char **ret_member)
{
    char pool[POOL_LABEL_MAX + 1];

    *ret_member = "tier";
    if (merchant->tier && is_removed(orphans, merchant->tier))
        return merchant->tier;
    *ret_member = "pool";
    if (merchant->pool) {
        merchant_pool_name(slice_of(merchant->pool), pool);
        if (is_removed(orphans, pool))
            return merchant->pool;
    }
    *ret_member = "fallback";
    for (size_t i = 0; i < merchant->fallback_len; i++) {
        if (is_removed(orphans, merchant->fallback[i]))
            return merchant->fallback[i];
    }
    return NULL;
}

static void look_at(struct orphans *orphans, const char *id, const char *text)
{
    struct merchant_config merchant = {0};
    char error[SENTENCE_MAX];
    struct arena scratch;
    const char *name = NULL;
    const char *member;

    arena_init(&scratch, SCRATCH_MAX);
    if (merchant_config_parse(&scratch, text, strlen(text), &merchant, error, sizeof(error)) == 0)
        name = removed_name(orphans, &merchant, &member);
    if (name && orphans->found++ < ORPHANS_NAMED_MAX)
        warn(orphans, "merchant \"%s\": %s \"%s\" is removed; its calls skip it", id, member, name);
    arena_release(&scratch);
}

bool orphans_look(struct orphans *orphans, const struct result *page)
{
    for (size_t i = 0; i < page->merchants.ids.count; i++)
        look_at(orphans, page->merchants.ids.names[i], page->merchants.texts.names[i]);
    orphans->looked += page->merchants.ids.count;
    return page->merchants.next_cursor[0] && orphans->looked < ORPHANS_LOOKED_MAX;
}

void orphans_finish(struct orphans *orphans, bool is_complete, struct name_array *ret_warnings)
{
    size_t size;

    if (orphans->found > ORPHANS_NAMED_MAX)
        warn(orphans, "%zu more merchants name a tier or a pool that is removed",
             orphans->found - ORPHANS_NAMED_MAX);
    if (!is_complete)
        warn(orphans, "only %zu merchants were looked at: others may name a tier or a pool that is removed",
             orphans->looked);
    size = orphans->warning_count * sizeof(orphans->warnings[0]);
    ret_warnings->names = arena_alloc(orphans->arena, size + 1);
    ret_warnings->count = ret_warnings->names ? orphans->warning_count : 0;
    if (ret_warnings->count)
        memcpy(ret_warnings->names, orphans->warnings, size);
    orphans_free(orphans);
}
