/*
 * rebalance.c - the command rebalance, phase by phase; tiers_set ends with the same phases.
 *
 * It counts the pods of each tier, and is done if no tier wants more pods or none can give
 * any. Pods that are counted in more than one tier are removed from those that are not theirs. Then
 * it reads all pods, plans the moves by the rules of core/rebalance_plan.c, and has a script move
 * the pods that are still idle.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/autoscale.h"
#include "core/rebalance_plan.h"
#include "store/redis/answer.h"
#include "store/redis/bulk.h"

struct planned_pod {
    const char *name;
    struct rebalance_pod pod;
};

struct planned_move {
    const char *pod;
    const char *to; /* "": the tier for a new pod, pinned or not */
};

struct plan {
    struct tier_cache *cache; /* held: the plan points into it */
    const struct tier_config *tiers;
    struct planned_pod *pods; /* by name */
    size_t count;
    size_t room;
    uint32_t *counts;                  /* parallel to the tiers */
    uint64_t *wanted;                  /* the same: how many pods each should have */
    const struct tier_status *strayed; /* tiers whose lists may have pods of others */
    size_t strayed_count;
    char cursor[REDIS_CURSOR_MAX]; /* in the list of the first of them */
    struct planned_move *moves;
    size_t move_count;
    size_t at; /* moves before it have been sent */
};

static void plan_release(void *state)
{
    struct plan *plan = state;

    free(plan->pods);
    free(plan->counts);
    free(plan->wanted);
    free(plan->moves);
    tier_cache_free(plan->cache);
}

/* The pods of each tier */

static int count_begin(struct operation *operation)
{
    struct plan *plan;
    int err = bulk_replace_state(operation, sizeof(*plan), plan_release);

    if (err < 0)
        return err;
    plan = operation->bulk->state;
    plan->cache = tier_cache_ref(operation->store->tiers);
    plan->tiers = plan->cache->config;
    return BULK_SEND;
}

static uint64_t plan_tier_wants(const struct plan *plan, const struct tier_status *status)
{
    const struct tier *tier = tier_config_find(plan->tiers, status->name);

    if (!tier)
        return 0;
    return autoscale_pods(tier, status->calls - min_u64(status->calls, status->held_calls), status->waiting,
                          (uint64_t)status->by_state[POD_DRAINING] + status->by_state[POD_SUSPENDED]);
}

/* Is there anything to move, by the counts alone? */
static bool may_move(const struct plan *plan, const struct result *status)
{
    bool is_wanted = false;
    bool is_given = false;

    for (size_t i = 0; i < status->status.tier_count; i++) {
        const struct tier_status *tier = &status->status.tiers[i];

        if (!tier->is_configured && tier->assigned)
            return true;
        is_wanted = is_wanted || tier->assigned < plan_tier_wants(plan, tier);
        is_given = is_given || tier->assigned > plan_tier_wants(plan, tier);
    }
    return is_wanted && is_given;
}

/* Every pod has one tier. If the tiers together have more pods than there are, some lists are wrong. */
static bool has_strays(const struct result *status)
{
    uint64_t assigned = 0;

    for (size_t i = 0; i < status->status.tier_count; i++)
        assigned += status->status.tiers[i].assigned;
    return assigned > status->status.pods;
}

static int count_take(struct operation *operation, const redisReply *reply)
{
    struct plan *plan = operation->bulk->state;
    struct result status = {0};
    int err = status_read(operation, reply, &operation->bulk->keep, &status);

    if (err < 0)
        return err;
    plan->wanted = calloc(plan->tiers->tier_count + 1, sizeof(*plan->wanted));
    if (!plan->wanted)
        return -ENOMEM;
    for (size_t i = 0; i < status.status.tier_count; i++) {
        const struct tier *tier = tier_config_find(plan->tiers, status.status.tiers[i].name);

        if (tier)
            plan->wanted[tier - plan->tiers->tiers] = plan_tier_wants(plan, &status.status.tiers[i]);
    }
    if (has_strays(&status)) {
        plan->strayed = status.status.tiers;
        plan->strayed_count = status.status.tier_count;
        return BULK_NEXT;
    }
    return may_move(plan, &status) ? BULK_NEXT : BULK_DONE;
}

const struct bulk_phase rebalance_count = {
    .name = "count the pods", .begin = count_begin, .send = bulk_status_send, .take = count_take};

/* Pods in the lists of tiers that are not theirs */

static void strays_go_to(struct plan *plan, size_t tiers)
{
    plan->strayed += tiers;
    plan->strayed_count -= tiers;
    snprintf(plan->cursor, sizeof(plan->cursor), "0");
}

static int strays_begin(struct operation *operation)
{
    strays_go_to(operation->bulk->state, 0);
    return BULK_SEND;
}

static int strays_send(struct operation *operation)
{
    const struct plan *plan = operation->bulk->state;
    struct args args;

    if (plan->strayed_count == 0)
        return BULK_NEXT;
    args_begin_fenced(&args, operation, &operation->bulk->scratch, SCRIPT_STRAYS_ARGS);
    args_add_text(&args, plan->strayed->name);
    args_add_text(&args, plan->cursor);
    args_add_u64(&args, REDIS_PAGE_BATCH);
    return bulk_call(&args, operation, SCRIPT_STRAYS);
}

static int strays_take(struct operation *operation, const redisReply *reply)
{
    struct plan *plan = operation->bulk->state;
    struct answer answer;
    bool is_last;

    answer_init(&answer, reply, &operation->bulk->scratch);
    is_last = answer_cursor(&answer, plan->cursor);
    if (answer.err)
        return operation_unexpected(operation);
    if (is_last)
        strays_go_to(plan, 1);
    return BULK_SEND;
}

const struct bulk_phase rebalance_remove_strays = {
    .name = "remove strays", .begin = strays_begin, .send = strays_send, .take = strays_take};

/* All pods */

static int plan_add_pod(struct operation *operation, const struct page_pod *pod)
{
    struct plan *plan = operation->bulk->state;
    const struct tier *tier = tier_config_find(plan->tiers, pod->info.tier);
    const char *name = arena_strdup(&operation->bulk->keep, pod->info.name);

    if (!name)
        return -ENOMEM;
    if (plan->count == plan->room) {
        size_t room = plan->room ? plan->room * 2 : 256;
        struct planned_pod *pods = room > REDIS_PODS_MAX ? NULL : realloc(plan->pods, room * sizeof(*pods));

        if (!pods)
            return -ENOMEM;
        plan->pods = pods;
        plan->room = room;
    }
    plan->pods[plan->count++] = (struct planned_pod){
        .name = name,
        .pod = {.tier = tier ? (size_t)(tier - plan->tiers->tiers) : REBALANCE_REMOVED_TIER,
                .is_idle = pod->info.state == POD_AVAILABLE && pod->info.calls.count == 0,
                .is_pinned = pod->is_pinned},
    };
    return 0;
}

static int read_begin(struct operation *operation)
{
    return bulk_pages_begin(operation, plan_add_pod);
}

const struct bulk_phase rebalance_read_pods = {
    .name = "read the pods", .begin = read_begin, .send = bulk_pages_send, .take = bulk_pages_take};

/* The moves */

static int compare_pods(const void *a, const void *b)
{
    return strcmp(((const struct planned_pod *)a)->name, ((const struct planned_pod *)b)->name);
}

static size_t plan_assigned(const void *arg, size_t tier)
{
    const struct plan *plan = arg;

    return plan->counts[tier];
}

static size_t plan_wanted(const void *arg, size_t tier)
{
    const struct plan *plan = arg;

    return plan->wanted[tier];
}

static struct rebalance_pod plan_pod(const void *arg, size_t index)
{
    const struct plan *plan = arg;

    return plan->pods[index].pod;
}

static void plan_move(void *arg, size_t index, size_t to)
{
    struct plan *plan = arg;
    struct planned_pod *pod = &plan->pods[index];
    bool is_removed = pod->pod.tier == REBALANCE_REMOVED_TIER;

    assert(plan->move_count < plan->count); /* no pod moves twice */
    plan->moves[plan->move_count++] =
        (struct planned_move){pod->name, is_removed ? "" : plan->tiers->tiers[to].name};
    if (!is_removed)
        plan->counts[pod->pod.tier]--;
    plan->counts[to]++;
    pod->pod.tier = to;
}

/* 0: the default. After a change of the tiers everything moves at once. */
static size_t move_limit(const struct operation *operation)
{
    return operation->command.type == COMMAND_TIERS_SET ? SIZE_MAX : operation->command.rebalance.limit;
}

/* The answer of tiers_set is the change. */
static bool answers_moves(const struct operation *operation)
{
    return operation->command.type == COMMAND_REBALANCE;
}

static int move_begin(struct operation *operation)
{
    struct plan *plan = operation->bulk->state;
    const struct rebalance_view view = {
        .tiers = plan->tiers,
        .pod_count = plan->count,
        .assigned = plan_assigned,
        .wanted = plan_wanted,
        .pod = plan_pod,
        .arg = plan,
    };
    size_t planned;
    bool has_more;

    plan->counts = calloc(plan->tiers->tier_count + 1, sizeof(*plan->counts));
    plan->moves = calloc(plan->count + 1, sizeof(*plan->moves));
    if (!plan->counts || !plan->moves)
        return -ENOMEM;
    if (plan->count)
        qsort(plan->pods, plan->count, sizeof(*plan->pods), compare_pods);
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->pods[i].pod.tier != REBALANCE_REMOVED_TIER)
            plan->counts[plan->pods[i].pod.tier]++;
    }
    has_more = rebalance(&view, move_limit(operation), plan_move, plan, &planned);
    if (answers_moves(operation))
        operation->result->rebalance.more = has_more;
    return BULK_SEND;
}

static int move_send(struct operation *operation)
{
    struct plan *plan = operation->bulk->state;
    size_t end = (size_t)min_u64(plan->move_count, plan->at + (uint64_t)REDIS_SEEN_BATCH);
    struct args args;

    if (plan->at == plan->move_count)
        return BULK_NEXT;
    args_begin_fenced(&args, operation, &operation->bulk->scratch,
                      SCRIPT_MOVE_PODS_ARGS + SCRIPT_MOVE_PODS_EACH * (end - plan->at));
    for (; plan->at < end; plan->at++) {
        args_add_text(&args, plan->moves[plan->at].pod);
        args_add_text(&args, plan->moves[plan->at].to);
    }
    return bulk_call(&args, operation, SCRIPT_MOVE_PODS);
}

static int move_take(struct operation *operation, const redisReply *reply)
{
    struct answer answer;
    size_t moved = 0;

    answer_init(&answer, reply, &operation->bulk->scratch);
    while (answer_left(&answer) > 0)
        moved += answer_u64(&answer);
    if (answers_moves(operation))
        operation->result->rebalance.moved += moved;
    return answer.err ? operation_checked(operation, answer.err) : BULK_SEND;
}

/* The plan follows from the tiers. The router that changed them moves the pods by its own plan. */
static int move_stale(struct operation *operation UNUSED)
{
    return BULK_DONE;
}

const struct bulk_phase rebalance_move = {
    .name = "move pods", .begin = move_begin, .send = move_send, .take = move_take, .stale = move_stale};

static const struct bulk_phase *const rebalance_phases[] = {
    &bulk_read_tiers, &rebalance_count, &rebalance_remove_strays, &rebalance_read_pods, &rebalance_move, NULL,
};

int operation_rebalance(struct operation *operation)
{
    int err = bulk_new(operation, 0, NULL);

    return err < 0 ? err : bulk_start(operation, rebalance_phases);
}
