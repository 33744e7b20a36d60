/*
 * autoscale_sets.c - the rules for StatefulSets: which ordinals have live calls, and which are not wanted.
 *
 * A StatefulSet that shrinks loses its highest ordinals, whatever these do. So pods with high ordinals are
 * drained before, and the wanted number stays above them until their calls have ended.
 */
#include <stdlib.h>

#include "core/autoscale.h"

enum {
    ORDINAL_DIGITS_MAX = 9,
    SETS_MAX = 256, /* with more of them no ordinal is surplus: comparing them would take too long */
};

/* Splits "voice-agent-12" into the set and the ordinal. False: the name has no ordinal, and the set is "". */
static bool split_name(const char *name, struct slice *ret_set, uint32_t *ret_ordinal)
{
    const char *dash = strrchr(name, '-');
    size_t digits = dash ? strspn(dash + 1, "0123456789") : 0;

    *ret_set = SLICE("");
    *ret_ordinal = 0;
    if (!dash || dash == name || digits == 0 || digits > ORDINAL_DIGITS_MAX || dash[1 + digits] ||
        (dash[1] == '0' && digits > 1))
        return false;
    *ret_set = (struct slice){name, (size_t)(dash - name)};
    *ret_ordinal = (uint32_t)strtoul(dash + 1, NULL, 10);
    return true;
}

static bool set_is(const struct set_status *set, struct slice name)
{
    return strlen(set->name) == name.len && memcmp(set->name, name.data, name.len) == 0;
}

static int tally_grow(struct set_tally *tally)
{
    size_t room = tally->room ? tally->room * 2 : 8;
    struct set_status *sets = arena_alloc(tally->arena, room * sizeof(*sets));

    if (!sets)
        return -ENOMEM;
    if (tally->count)
        memcpy(sets, tally->sets, tally->count * sizeof(*sets));
    tally->sets = sets;
    tally->room = room;
    return 0;
}

/* The entry of the set and tier. Of the last few only: set_tally_finish joins the rest. */
static struct set_status *tally_find(const struct set_tally *tally, struct slice name, const char *tier)
{
    for (size_t i = tally->count; i > 0 && i + 8 > tally->count; i--) {
        struct set_status *set = &tally->sets[i - 1];

        if (set_is(set, name) && strcmp(set->tier, tier) == 0)
            return set;
    }
    return NULL;
}

static int tally_entry(struct set_tally *tally, struct slice name, const char *tier,
                       struct set_status **ret_set)
{
    struct set_status *set = tally_find(tally, name, tier);

    if (!set) {
        if (tally->count == tally->room && tally_grow(tally) < 0)
            return -ENOMEM;
        set = &tally->sets[tally->count];
        *set = (struct set_status){.name = arena_copy(tally->arena, name.data, name.len),
                                   .tier = arena_strdup(tally->arena, tier)};
        if (!set->name || !set->tier)
            return -ENOMEM;
        tally->count++;
    }
    *ret_set = set;
    return 0;
}

int set_tally_add(struct set_tally *tally, const struct scale_pod *pod)
{
    struct set_status *set;
    struct slice name;
    uint32_t ordinal;
    bool has_ordinal = split_name(pod->name, &name, &ordinal);
    int err = tally_entry(tally, name, pod->tier, &set);

    if (err < 0)
        return err;
    set->pods++;
    /* Kubernetes removes a terminating pod already, and its call keeps it until it has ended. */
    if (has_ordinal && pod->has_calls && !pod->is_terminating && set->floor <= ordinal)
        set->floor = ordinal + 1;
    return 0;
}

static int compare_sets(const void *a, const void *b)
{
    const struct set_status *set_a = a;
    const struct set_status *set_b = b;
    int by_name = strcmp(set_a->name, set_b->name);

    return by_name ? by_name : strcmp(set_a->tier, set_b->tier);
}

void set_tally_finish(struct set_tally *tally, struct result *status)
{
    size_t count = 0;

    if (tally->count)
        qsort(tally->sets, tally->count, sizeof(*tally->sets), compare_sets);
    for (size_t i = 0; i < tally->count; i++) {
        struct set_status *last = count ? &tally->sets[count - 1] : NULL;

        if (!last || compare_sets(last, &tally->sets[i]) != 0) {
            tally->sets[count++] = tally->sets[i];
            continue;
        }
        last->pods += tally->sets[i].pods;
        last->floor = tally->sets[i].floor > last->floor ? tally->sets[i].floor : last->floor;
    }
    status->status.sets = tally->sets;
    status->status.set_count = count;
}

/* All pods of all tiers are of this set. */
static bool is_the_only_set(const struct result *status, struct slice name)
{
    for (size_t i = 0; i < status->status.set_count; i++) {
        if (!set_is(&status->status.sets[i], name))
            return false;
    }
    return true;
}

static bool tier_has_other_sets(const struct result *status, const char *tier, struct slice name)
{
    for (size_t i = 0; i < status->status.set_count; i++) {
        if (strcmp(status->status.sets[i].tier, tier) == 0 && !set_is(&status->status.sets[i], name))
            return true;
    }
    return false;
}

uint64_t autoscale_keeps(const struct result *status, struct slice set)
{
    uint64_t sum = 0;

    if (status->status.set_count > SETS_MAX)
        return SCALE_KEEPS_ALL;
    if (is_the_only_set(status, set))
        return autoscale_of_all(status).desired_pods;
    for (size_t i = 0; i < status->status.set_count; i++) {
        const struct set_status *at = &status->status.sets[i];
        const struct tier_status *tier;

        if (!set_is(at, set))
            continue;
        tier = autoscale_find_tier(status, at->tier);
        if (!tier || tier_has_other_sets(status, at->tier, set))
            return SCALE_KEEPS_ALL;
        sum += autoscale_of_tier(tier).desired_pods;
    }
    return sum;
}

enum scale_action autoscale_action(const struct result *status, const struct scale_pod *pod, bool by_set)
{
    struct slice set;
    uint32_t ordinal;
    bool has_ordinal = split_name(pod->name, &set, &ordinal);
    bool takes_calls = pod->state == POD_AVAILABLE || pod->state == POD_BUSY;
    uint64_t keeps;

    if (pod->is_terminating || (!pod->is_surplus && (!takes_calls || !by_set || !has_ordinal)))
        return SCALE_NOTHING;
    keeps = by_set && has_ordinal ? autoscale_keeps(status, set) : SCALE_KEEPS_ALL;
    if (pod->is_surplus)
        return ordinal < keeps ? SCALE_UNDRAIN : SCALE_NOTHING;
    return ordinal >= keeps && autoscale_of_all(status).waiting == 0 ? SCALE_DRAIN : SCALE_NOTHING;
}
