/*
 * queries.c - the commands that read status and pods, page by page. Calls are in call_queries.c.
 */
#include "core/autoscale.h"
#include "core/page.h"
#include "store/redis/answer.h"
#include "store/redis/bulk.h"

/* STATUS */

int status_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_STATUS_ARGS);
    args_add_u64(args, REDIS_STATUS_LOOK);
    return 0;
}

static void status_read_tier(const struct operation *operation, struct answer *answer,
                             struct tier_status *status)
{
    const struct tier *tier;
    uint64_t available, used;

    *status = (struct tier_status){.max_concurrent = 1, .scaling = {.max_pods = UINT32_MAX}};
    status->name = answer_text(answer);
    tier = tier_config_find(operation->store->tiers->config, status->name);
    if (tier) {
        status->is_configured = true;
        status->is_shared = tier->is_shared;
        status->target = tier->target;
        status->max_concurrent = tier->max_concurrent;
        status->scaling = tier_scaling(tier);
    }
    status->assigned = (uint32_t)answer_u64(answer);
    available = answer_u64(answer);
    used = answer_u64(answer);
    status->calls = answer_u64(answer);
    status->waiting = answer_u64(answer);
    status->by_state[POD_AVAILABLE] = (uint32_t)available;
    status->capacity = (uint64_t)status->assigned * status->max_concurrent;
    status->free = available * status->max_concurrent;
    status->free -= min_u64(status->free, used);
}

/*
 * One pod that the counts do not explain: it carries calls of its own number. Those of a shared pod
 * with too many calls have been counted: it is in its list.
 */
static void status_read_out(struct answer *answer, struct tier_status *tiers, size_t count)
{
    const char *name = answer_text(answer);
    struct slice state = answer_slice(answer);
    uint64_t load = answer_u64(answer);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(tiers[i].name, name) != 0)
            continue;
        if (!tiers[i].is_shared || !slice_equals(state, SCRIPT_POD_IS_BUSY))
            tiers[i].calls += load;
        if (!slice_equals(state, SCRIPT_POD_IS_BUSY))
            tiers[i].held_calls += load;
        tiers[i].leaving += slice_equals(state, SCRIPT_POD_IS_LEAVING);
        if (slice_equals(state, SCRIPT_POD_IS_DRAINING) || slice_equals(state, SCRIPT_POD_IS_LEAVING))
            tiers[i].by_state[POD_DRAINING]++;
        else if (slice_equals(state, SCRIPT_POD_IS_SUSPENDED))
            tiers[i].by_state[POD_SUSPENDED]++;
        else
            tiers[i].by_state[POD_BUSY]++;
        return;
    }
}

/*
 * Whatever is neither available nor held out is just full. The calls of shared pods have been
 * counted.
 */
static void status_add_busy(struct tier_status *status)
{
    uint32_t known = status->by_state[POD_AVAILABLE] + status->by_state[POD_DRAINING] +
                     status->by_state[POD_SUSPENDED] + status->by_state[POD_BUSY];
    uint32_t full = status->assigned > known ? status->assigned - known : 0;

    status->by_state[POD_BUSY] += full;
    if (!status->is_shared)
        status->calls += full;
}

int status_read(const struct operation *operation, const redisReply *reply, struct arena *arena,
                struct result *ret_result)
{
    struct tier_status *tiers;
    struct answer answer;
    size_t count;

    answer_init(&answer, reply, arena);
    ret_result->status.active_calls = answer_u64(&answer);
    ret_result->status.pods = answer_u64(&answer);
    ret_result->status.waiting = answer_u64(&answer);
    count = answer_u64(&answer);
    if (answer.err || count > answer_left(&answer))
        return operation_unexpected(operation);
    tiers = arena_alloc(arena, (count + 1) * sizeof(*tiers));
    if (!tiers)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        status_read_tier(operation, &answer, &tiers[i]);
    while (answer_left(&answer) > 0)
        status_read_out(&answer, tiers, count);
    if (answer.err)
        return operation_checked(operation, answer.err);
    for (size_t i = 0; i < count; i++)
        status_add_busy(&tiers[i]);
    tier_status_sort(tiers, count);
    ret_result->status.tiers = tiers;
    ret_result->status.tier_count = count;
    return 0;
}

int status_decode(struct operation *operation, const redisReply *reply)
{
    return status_read(operation, reply, operation->arena, operation->result);
}

/* A page of pods */

void pods_page_encode(const struct operation *operation, struct args *args, const char *after, size_t limit)
{
    args_begin(args, operation, &operation->bulk->scratch, SCRIPT_PODS_ARGS);
    args_add_text(args, after);
    args_add_u64(args, limit);
}

void pods_page_head(struct answer *answer, struct page_head *ret_head)
{
    ret_head->now_ms = answer_u64(answer);
    ret_head->more = answer_u64(answer) != 0;
    ret_head->looked = answer_u64(answer);
    ret_head->last = answer_text(answer);
}

static enum pod_state pod_state(const struct operation *operation, const struct pod_record *record,
                                const struct pod_info *info, bool is_out, uint64_t now_ms)
{
    const struct tier *tier = tier_config_find(operation->store->tiers->config, info->tier);
    size_t max = tier ? tier->max_concurrent : 1;

    if (info->is_draining)
        return POD_DRAINING;
    /* A pod whose drain or hold is over is put back by the next sweep. */
    if (is_out || !record->is_ready || record->held_until_ms > now_ms)
        return POD_SUSPENDED;
    return info->calls.count >= max ? POD_BUSY : POD_AVAILABLE;
}

static const char *copy_slice(struct answer *answer, struct slice text)
{
    const char *copy = arena_copy(answer->arena, text.data, text.len);

    if (!copy)
        answer->err = -ENOMEM;
    return copy ? copy : "";
}

static void read_calls(struct answer *answer, struct name_array *calls)
{
    size_t count = answer_u64(answer);

    if (answer->err || count > answer_left(answer)) {
        answer->err = answer->err ? answer->err : -EIO;
        return;
    }
    calls->names = arena_alloc(answer->arena, (count + 1) * sizeof(*calls->names));
    if (!calls->names) {
        answer->err = -ENOMEM;
        return;
    }
    while (calls->count < count)
        calls->names[calls->count++] = answer_text(answer);
}

void pods_page_pod(struct answer *answer, const struct operation *operation, uint64_t now_ms,
                   struct page_pod *ret_pod)
{
    struct pod_info info = {.name = answer_text(answer)};
    struct pod_record record = {0};
    uint64_t alive_at_ms;
    bool is_out;

    if (pod_record_read(answer_slice(answer), &record) && !answer->err)
        answer->err = -EIO;
    info.is_draining = answer_u64(answer) != 0;
    info.draining_until_ms = answer_drain_end(answer, &info.is_surplus);
    is_out = answer_u64(answer) != 0;
    alive_at_ms = answer_time(answer);
    info.last_heartbeat_ms = answer_time(answer);
    info.newest_call = answer_text(answer);
    read_calls(answer, &info.calls);
    if (answer->err)
        return;
    info.tier = copy_slice(answer, record.tier);
    info.address = copy_slice(answer, record.address);
    info.incarnation = copy_slice(answer, record.incarnation);
    if (pod_record_source(&record, &info.source))
        answer->err = -EIO;
    if (answer->err)
        return;
    info.is_ready = record.is_ready;
    info.is_terminating = record.is_terminating;
    if (record.is_terminating)
        info.draining_until_ms = DRAIN_WITHOUT_END;
    info.is_heartbeating = alive_at_ms && alive_at_ms + operation->store->core.heartbeat_ttl_ms > now_ms;
    info.state = pod_state(operation, &record, &info, is_out, now_ms);
    if (info.calls.count && !info.newest_call[0])
        info.newest_call = info.calls.names[info.calls.count - 1];
    *ret_pod = (struct page_pod){.info = info, .is_pinned = record.is_pinned};
}

int pod_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, SCRIPT_PODS_ARGS);
    args_add_text(args, operation->command.pod.name);
    args_add_text(args, "");
    return 0;
}

int pod_decode(struct operation *operation, const redisReply *reply)
{
    struct page_head head;
    struct page_pod pod;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    pods_page_head(&answer, &head);
    if (!answer.err && answer_left(&answer) == 0) {
        operation->result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    pods_page_pod(&answer, operation, head.now_ms, &pod);
    if (answer.err)
        return operation_checked(operation, answer.err);
    operation->result->pod = pod.info;
    return 0;
}

/*
 * PODS: the counts first, for the total; then pages until the limit is full or enough was looked at
 */

struct pods_query {
    const char *after; /* pods until this name have been looked at */
    size_t looked;
    size_t calls; /* of the pods in the result */
};

static uint64_t pods_total(const struct result *status, const char *tier, int state)
{
    uint64_t total = 0;

    for (size_t i = 0; i < status->status.tier_count; i++) {
        const struct tier_status *at = &status->status.tiers[i];

        if (!tier || strcmp(at->name, tier) == 0)
            total += state < 0 ? at->assigned : at->by_state[state];
    }
    return total;
}

static int pods_count_send(struct operation *operation)
{
    struct args args;

    (void)status_encode(operation, &args);
    return bulk_call(&args, operation, SCRIPT_STATUS);
}

static int pods_count_take(struct operation *operation, const redisReply *reply)
{
    const struct command *command = &operation->command;
    struct result *result = operation->result;
    struct result status = {0};
    int err = status_read(operation, reply, operation->arena, &status);

    if (err < 0)
        return err;
    result->pods.total = pods_total(&status, command->pods.tier, command->pods.state);
    result->pods.pods =
        arena_alloc(operation->arena, page_limit(command->pods.limit) * sizeof(*result->pods.pods));
    return result->pods.pods ? BULK_NEXT : -ENOMEM;
}

static const struct bulk_phase pods_count = {
    .name = "count the pods", .send = pods_count_send, .take = pods_count_take};

static int pods_page_send(struct operation *operation)
{
    const struct command *command = &operation->command;
    const struct pods_query *query = operation->bulk->state;
    size_t left = page_limit(command->pods.limit) - operation->result->pods.count;
    bool is_filtered = command->pods.tier || command->pods.state >= 0;
    struct args args;

    pods_page_encode(operation, &args, query->after,
                     is_filtered ? REDIS_PAGE_BATCH : (size_t)min_u64(left, REDIS_PAGE_BATCH));
    return bulk_call(&args, operation, SCRIPT_PODS);
}

/*
 * Reads the pods of one page until there are enough; then the next page begins after the last one.
 */
static void pods_read(struct operation *operation, struct answer *answer, struct page_head *head)
{
    struct pods_query *query = operation->bulk->state;
    struct result *result = operation->result;
    size_t limit = page_limit(operation->command.pods.limit);

    while (answer_left(answer) > 0) {
        size_t start = answer->at;
        struct page_pod pod;

        /*
         * Pods that the filters leave out must not fill the arena of the caller: look first, then
         * copy.
         */
        arena_reset(&operation->bulk->scratch);
        answer->arena = &operation->bulk->scratch;
        pods_page_pod(answer, operation, head->now_ms, &pod);
        if (answer->err || !page_wants_pod(&operation->command, pod.info.tier, pod.info.state))
            continue;
        answer->at = start;
        answer->arena = operation->arena;
        pods_page_pod(answer, operation, head->now_ms, &pod);
        if (answer->err)
            return;
        result->pods.pods[result->pods.count++] = pod.info;
        query->calls += pod.info.calls.count;
        if (page_has_enough_pods(result->pods.count, limit, query->calls)) {
            if (answer_left(answer) > 0) {
                head->more = true;
                head->last = pod.info.name;
            }
            return;
        }
    }
}

static int pods_page_take(struct operation *operation, const redisReply *reply)
{
    struct pods_query *query = operation->bulk->state;
    struct result *result = operation->result;
    size_t limit = page_limit(operation->command.pods.limit);
    struct page_head head;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    pods_page_head(&answer, &head);
    pods_read(operation, &answer, &head);
    if (answer.err)
        return operation_checked(operation, answer.err);
    query->looked += head.looked;
    query->after = head.last;
    result->pods.next_cursor = head.more ? head.last : "";
    return head.more && query->looked < PAGE_LOOK_MAX &&
                   !page_has_enough_pods(result->pods.count, limit, query->calls)
               ? BULK_SEND
               : BULK_NEXT;
}

static const struct bulk_phase pods_pages = {
    .name = "read the pods", .send = pods_page_send, .take = pods_page_take};

static const struct bulk_phase *const pods_phases[] = {&pods_count, &pods_pages, NULL};

int operation_pods(struct operation *operation)
{
    const char *cursor = operation->command.pods.cursor;
    int err = bulk_new(operation, sizeof(struct pods_query), NULL);

    if (err < 0)
        return err;
    ((struct pods_query *)operation->bulk->state)->after = cursor ? cursor : "";
    return bulk_start(operation, pods_phases);
}
