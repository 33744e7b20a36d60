/*
 * rebalance_plan.c - the rules of rebalancing: which idle pods move to which tier.
 */
#include "core/rebalance_plan.h"

#include "core/page.h"

/* One run: how much may still be moved, and which tier is filled next. */
struct run {
    const struct rebalance_view *view;
    rebalance_move_fn move;
    void *arg;
    size_t limit;
    size_t moved;
    size_t next_fill; /* position in fill_order; all tiers before it have the pods that they want */
    bool is_at_limit; /* there was one more pod to move */
};

bool rebalance_find_wanted(const struct rebalance_view *view, size_t *from, size_t *ret_tier)
{
    const struct tier_config *tiers = view->tiers;

    for (; *from < tiers->tier_count; ++*from) {
        size_t tier = tiers->fill_order[*from];

        if (view->assigned(view->arg, tier) < view->wanted(view->arg, tier)) {
            *ret_tier = tier;
            return true;
        }
    }
    return false;
}

size_t rebalance_tier_for_new_pod(const struct rebalance_view *view)
{
    size_t from = 0;
    size_t tier;

    assert(view->tiers->default_tier < view->tiers->tier_count);
    return rebalance_find_wanted(view, &from, &tier) ? tier : view->tiers->default_tier;
}

static void run_move(struct run *run, size_t index, size_t to)
{
    if (run->moved >= run->limit) {
        run->is_at_limit = true;
        return;
    }
    run->move(run->arg, index, to);
    run->moved++;
}

/* A tier that was removed gives back all its idle pods. */
static void run_removed(struct run *run)
{
    const struct rebalance_view *view = run->view;

    for (size_t i = 0; i < view->pod_count && !run->is_at_limit; i++) {
        struct rebalance_pod pod = view->pod(view->arg, i);

        if (pod.tier == REBALANCE_REMOVED_TIER && pod.is_idle)
            run_move(run, i, rebalance_tier_for_new_pod(view));
    }
}

/* The tier gives the idle pods that it does not want, as long as another one wants them. */
static void run_donor(struct run *run, size_t donor)
{
    const struct rebalance_view *view = run->view;
    size_t wanted = view->wanted(view->arg, donor);

    for (size_t i = 0; i < view->pod_count && view->assigned(view->arg, donor) > wanted; i++) {
        struct rebalance_pod pod = view->pod(view->arg, i);
        size_t to;

        if (run->is_at_limit || !rebalance_find_wanted(view, &run->next_fill, &to))
            return;
        if (pod.tier == donor && pod.is_idle && !pod.is_pinned)
            run_move(run, i, to);
    }
}

bool rebalance(const struct rebalance_view *view, size_t limit, rebalance_move_fn move, void *arg,
               size_t *ret_moved)
{
    const struct tier_config *tiers = view->tiers;
    struct run run = {.view = view, .move = move, .arg = arg, .limit = step_limit(limit)};

    run_removed(&run);
    for (size_t i = tiers->tier_count; i > 0; i--)
        run_donor(&run, tiers->fill_order[i - 1]);
    *ret_moved = run.moved;
    return run.is_at_limit;
}
