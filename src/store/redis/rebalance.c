/*
 * rebalance.c - the command rebalance: plans moves from all pods, and has a script move those that
 * are still idle.
 *
 * The rules are those of core/rebalance.c. The pods are read only if one tier is below its target
 * and another one can give pods.
 */
#include <stdlib.h>

#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

struct plan_pod {
    const char *name;
    const struct tier *tier; /* NULL: its tier was removed */
    bool is_idle;
    bool is_pinned;
};

struct plan_move {
    const char *pod;
    const struct tier *to; /* NULL: wherever a new pod would go, pinned or not */
};

struct plan {
    struct plan_pod *pods; /* by name */
    size_t count;
    size_t room;
    uint32_t *counts; /* parallel to the tiers */
    struct plan_move *moves;
    size_t move_count;
    size_t next_fill;
    size_t at;
    struct tier_cache *cache; /* held: the plan points into it */
    const struct tier_config *config;
};

static int rebalance_page(struct operation *operation, const char *after);
static int rebalance_move(struct operation *operation);

static void plan_release(void *arg)
{
    struct plan *plan = arg;

    free(plan->pods);
    free(plan->counts);
    free(plan->moves);
    tier_cache_free(plan->cache);
}

static size_t rebalance_limit(const struct operation *operation)
{
    /* After a change of the tiers everything moves at once. */
    if (operation->command.type == COMMAND_TIERS_SET)
        return SIZE_MAX;
    return operation->command.rebalance.limit ? operation->command.rebalance.limit : STEP_LIMIT;
}

static uint32_t *plan_count(struct plan *plan, const struct tier *tier)
{
    return &plan->counts[tier - plan->config->tiers];
}

/* The first tier below its target; NULL: none. As pool_for_new_pod() and next_to_fill() of core. */
static const struct tier *tier_below_target(struct plan *plan, size_t *from)
{
    for (; *from < plan->config->tier_count; ++*from) {
        const struct tier *tier = &plan->config->tiers[plan->config->fill_order[*from]];

        if (*plan_count(plan, tier) < tier->target)
            return tier;
    }
    return NULL;
}

/* False: the limit is reached. */
static bool plan_add_move(struct operation *operation, struct plan *plan, struct plan_pod *pod,
                          const struct tier *to)
{
    if (plan->move_count >= rebalance_limit(operation)) {
        operation->result->rebalance.more = true;
        return false;
    }
    plan->moves[plan->move_count++] = (struct plan_move){pod->name, pod->tier ? to : NULL};
    if (pod->tier)
        --*plan_count(plan, pod->tier);
    ++*plan_count(plan, to);
    pod->tier = to;
    return true;
}

/* A tier that was removed gives back all its idle pods. */
static void plan_removed(struct operation *operation, struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct tier *to;
        size_t from = 0;

        if (plan->pods[i].tier || !plan->pods[i].is_idle)
            continue;
        to = tier_below_target(plan, &from);
        if (!to)
            to = &plan->config->tiers[plan->config->default_tier];
        if (!plan_add_move(operation, plan, &plan->pods[i], to))
            return;
    }
}

static void plan_from(struct operation *operation, struct plan *plan, const struct tier *donor)
{
    for (size_t i = 0; i<plan->count && * plan_count(plan, donor)> donor->target; i++) {
        const struct tier *to = tier_below_target(plan, &plan->next_fill);

        if (!to || operation->result->rebalance.more)
            return;
        if (plan->pods[i].tier == donor && plan->pods[i].is_idle && !plan->pods[i].is_pinned)
            (void)plan_add_move(operation, plan, &plan->pods[i], to);
    }
}

static int plan_compare(const void *a, const void *b)
{
    return strcmp(((const struct plan_pod *)a)->name, ((const struct plan_pod *)b)->name);
}

static int rebalance_plan(struct operation *operation)
{
    struct plan *plan = operation->bulk->plan;

    plan->counts = calloc(plan->config->tier_count + 1, sizeof(*plan->counts));
    plan->moves = calloc(2 * plan->count + 1, sizeof(*plan->moves));
    if (!plan->counts || !plan->moves)
        return -ENOMEM;
    if (plan->count)
        qsort(plan->pods, plan->count, sizeof(*plan->pods), plan_compare);
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->pods[i].tier)
            ++*plan_count(plan, plan->pods[i].tier);
    }
    plan_removed(operation, plan);
    for (size_t i = plan->config->tier_count; i > 0; i--)
        plan_from(operation, plan, &plan->config->tiers[plan->config->fill_order[i - 1]]);
    return rebalance_move(operation);
}

static void rebalance_moved(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;

    if (err == -ESTALE) {
        /* Whoever changed the tiers moves the pods by a plan of its own. */
        (void)bulk_done(operation);
        return;
    }
    if (err == 0) {
        answer_init(&answer, reply, &operation->bulk->scratch);
        while (answer_left(&answer) > 0)
            operation->result->rebalance.moved += answer_u64(&answer);
        err = answer.err == -EIO ? operation_unexpected(operation) : answer.err;
    }
    if (err == 0)
        err = rebalance_move(operation);
    if (err)
        operation_finish(operation, err);
}

static int rebalance_move(struct operation *operation)
{
    struct plan *plan = operation->bulk->plan;
    size_t end = (size_t)min_u64(plan->move_count, plan->at + (uint64_t)REDIS_SEEN_BATCH);
    struct args args;

    if (plan->at == plan->move_count)
        return bulk_done(operation);
    arena_reset(&operation->bulk->scratch);
    args_begin_fenced(&args, operation, &operation->bulk->scratch, 2 * (end - plan->at));
    for (; plan->at < end; plan->at++) {
        const struct plan_move *move = &plan->moves[plan->at];

        args_add_text(&args, move->pod);
        args_add_text(&args, move->to ? move->to->name : "");
    }
    return args_call(&args, operation, "move", rebalance_moved);
}

static int plan_add(struct operation *operation, const struct page_pod *pod)
{
    struct plan *plan = operation->bulk->plan;
    const char *name = arena_strdup(&operation->bulk->keep, pod->info.name);

    if (!name)
        return -ENOMEM;
    if (plan->count == plan->room) {
        size_t room = plan->room ? plan->room * 2 : 256;
        struct plan_pod *pods = room > REDIS_PODS_MAX ? NULL : realloc(plan->pods, room * sizeof(*pods));

        if (!pods)
            return -ENOMEM;
        plan->pods = pods;
        plan->room = room;
    }
    plan->pods[plan->count++] = (struct plan_pod){
        .name = name,
        .tier = tier_config_find(plan->config, pod->info.tier),
        .is_idle = pod->info.state == POD_AVAILABLE && pod->info.calls.count == 0,
        .is_pinned = pod->is_pinned,
    };
    return 0;
}

static int rebalance_take(struct operation *operation, const redisReply *reply, struct page_head *ret_head)
{
    struct answer answer;

    arena_reset(&operation->bulk->scratch);
    answer_init(&answer, reply, &operation->bulk->scratch);
    pods_page_head(&answer, ret_head);
    while (answer_left(&answer) > 0) {
        struct page_pod pod;
        int rc;

        pods_page_pod(&answer, operation, ret_head->now_ms, &pod);
        rc = answer.err ? 0 : plan_add(operation, &pod);
        if (rc)
            return rc;
    }
    ret_head->last = arena_strdup(&operation->bulk->keep, ret_head->last);
    if (!ret_head->last)
        return -ENOMEM;
    return answer.err == -EIO ? operation_unexpected(operation) : answer.err;
}

static void rebalance_paged(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct page_head head;

    if (err == 0)
        err = rebalance_take(operation, reply, &head);
    if (err == 0)
        err = head.more ? rebalance_page(operation, head.last) : rebalance_plan(operation);
    if (err)
        operation_finish(operation, err);
}

static int rebalance_page(struct operation *operation, const char *after)
{
    arena_reset(&operation->bulk->scratch);
    return pods_page_send(operation, after, REDIS_PAGE_BATCH, &operation->bulk->scratch, rebalance_paged);
}

/* Is there anything to move, by the counts alone? */
static bool may_move(const struct result *status)
{
    bool is_wanted = false;
    bool is_given = false;

    for (size_t i = 0; i < status->status.tier_count; i++) {
        const struct tier_status *tier = &status->status.tiers[i];

        if (!tier->is_configured && tier->assigned)
            return true;
        is_wanted = is_wanted || tier->assigned < tier->target;
        is_given = is_given || tier->assigned > tier->target;
    }
    return is_wanted && is_given;
}

static void rebalance_counted(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct result status = {0};

    if (err == 0)
        err = status_read(operation, reply, &operation->bulk->keep, &status);
    if (err == 0)
        err = may_move(&status) ? rebalance_page(operation, "") : bulk_done(operation);
    if (err)
        operation_finish(operation, err);
}

int bulk_rebalance(struct operation *operation)
{
    struct plan *plan = arena_alloc(&operation->bulk->keep, sizeof(*plan));
    struct args args;

    if (!plan)
        return -ENOMEM;
    *plan = (struct plan){.cache = tier_cache_ref(operation->store->tiers)};
    plan->config = plan->cache->config;
    operation->bulk->plan = plan;
    operation->bulk->plan_free = plan_release;
    args_begin(&args, operation, &operation->bulk->scratch, 1);
    args_add_u64(&args, REDIS_STATUS_LOOK);
    return args_call(&args, operation, "status", rebalance_counted);
}

int operation_rebalance(struct operation *operation)
{
    return bulk_start(operation, bulk_rebalance);
}
