/*
 * result.c - fills the results of commands: refusals, arrays of names, arrays of ended calls.
 */
#include "core/result.h"

#include <stdio.h>

#include "base/nearest.h"

int result_refuse(struct result *result, struct arena *arena, enum outcome outcome, const char *message)
{
    result->outcome = outcome;
    result->error = arena_strdup(arena, message);
    return result->error ? 0 : -ENOMEM;
}

void result_forbid(struct result *result)
{
    result->outcome = OUTCOME_FORBIDDEN;
    result->error = "the call is not this provider's";
}

int name_array_init(struct name_array *array, struct arena *arena, size_t max)
{
    *array = (struct name_array){0};
    array->names = arena_alloc(arena, (max + 1) * sizeof(*array->names));
    return array->names ? 0 : -ENOMEM;
}

int name_array_add(struct name_array *array, struct arena *arena, const char *name)
{
    const char *copy = arena_strdup(arena, name);

    if (!copy)
        return -ENOMEM;
    array->names[array->count++] = copy;
    return 0;
}

/*
 * An array that grows is full when its count is a power of two, or 0. The old arrays stay in the
 * arena, as many bytes again.
 */
static int array_make_room(void **items, size_t count, size_t size, struct arena *arena)
{
    void *grown;

    if (count & (count - 1))
        return 0;
    grown = arena_alloc(arena, (count ? count * 2 : 1) * size);
    if (!grown)
        return -ENOMEM;
    if (count)
        memcpy(grown, *items, count * size);
    *items = grown;
    return 0;
}

int name_array_append(struct name_array *array, struct arena *arena, const char *name)
{
    void *names = array->names;
    int err = array_make_room(&names, array->count, sizeof(*array->names), arena);

    if (err < 0)
        return err;
    array->names = names;
    array->names[array->count++] = name;
    return 0;
}

int ended_array_add(struct ended_array *array, struct arena *arena, const struct ended_call *call)
{
    void *calls = array->calls;
    int err = array_make_room(&calls, array->count, sizeof(*array->calls), arena);

    if (err < 0)
        return err;
    array->calls = calls;
    array->calls[array->count++] = *call;
    return 0;
}

int ended_waits_add(struct ended_wait **waits, size_t *count, struct arena *arena,
                    const struct ended_wait *wait)
{
    void *items = *waits;
    int err = array_make_room(&items, *count, sizeof(**waits), arena);

    if (err < 0)
        return err;
    *waits = items;
    (*waits)[(*count)++] = *wait;
    return 0;
}

int result_change(struct result *result, struct arena *arena, uint64_t present, const char *old_text,
                  const char *new_text)
{
    bool is_changed = strcmp(old_text, new_text) != 0;

    result->change.old_text = arena_strdup(arena, old_text);
    result->change.new_text = arena_strdup(arena, new_text);
    result->change.is_changed = is_changed;
    result->change.version = present + (is_changed ? 1 : 0);
    return result->change.old_text && result->change.new_text ? 0 : -ENOMEM;
}

/* The plain name of a tier or pool, as people write it. */
static const char *plain_name(const struct tier *tier)
{
    return tier->name + (tier->is_merchant ? strlen(MERCHANT_POOL_PREFIX) : 0);
}

static const char *nearest_tier(const struct tier_config *tiers, const char *name, bool is_pool)
{
    size_t least = nearest_max(name) + 1;
    const char *nearest = NULL;

    for (size_t i = 0; i < tiers->tier_count && least > 0; i++) {
        const char *plain = plain_name(&tiers->tiers[i]);
        size_t distance;

        if (is_pool && !tiers->tiers[i].is_merchant)
            continue;
        distance = edit_distance(name, plain, least - 1);
        if (distance < least) {
            least = distance;
            nearest = plain;
        }
    }
    return nearest;
}

static int warn_of_name(struct result *result, struct arena *arena, const struct tier_config *tiers,
                        const char *member, const char *name)
{
    const char *nearest = nearest_tier(tiers, name, strcmp(member, "pool") == 0);
    char sentence[512];
    const char *copy;

    snprintf(sentence, sizeof(sentence), "%s \"%s\" is not configured%s%s%s", member, name,
             nearest ? "; did you mean \"" : "; calls skip it until it is", nearest ? nearest : "",
             nearest ? "\"?" : "");
    copy = arena_strdup(arena, sentence);
    return copy ? name_array_append(&result->change.warnings, arena, copy) : -ENOMEM;
}

int result_warn_of_names(struct result *result, struct arena *arena, const struct merchant_config *merchant,
                         const struct tier_config *tiers)
{
    char pool[POOL_LABEL_MAX + 1];
    int err = 0;

    if (merchant->tier && !tier_config_resolve(tiers, merchant->tier) &&
        !(merchant->pool && strcmp(merchant->tier, "dedicated") == 0))
        err = warn_of_name(result, arena, tiers, "tier", merchant->tier);
    if (err == 0 && merchant->pool) {
        merchant_pool_name(slice_of(merchant->pool), pool);
        if (!tier_config_find(tiers, pool))
            err = warn_of_name(result, arena, tiers, "pool", merchant->pool);
    }
    for (size_t i = 0; err == 0 && i < merchant->fallback_len; i++) {
        const char *name = merchant->fallback[i];

        if (strcmp(name, "none") != 0 && !tier_config_resolve(tiers, name))
            err = warn_of_name(result, arena, tiers, "fallback", name);
    }
    return err;
}
