/*
 * queries.c - the commands that read status, pods and calls, page by page.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

static size_t page_limit(size_t limit)
{
    return limit == 0 ? PAGE_DEFAULT : limit > PAGE_MAX ? PAGE_MAX : limit;
}

/* STATUS */

int status_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, 1);
    args_add_u64(args, REDIS_STATUS_LOOK);
    return 0;
}

static int compare_status(const void *a, const void *b)
{
    return strcmp(((const struct tier_status *)a)->name, ((const struct tier_status *)b)->name);
}

static void status_read_tier(const struct operation *operation, struct answer *answer,
                             struct tier_status *status)
{
    const struct tier *tier;
    uint64_t available, used;

    *status = (struct tier_status){.max_concurrent = 1};
    status->name = answer_text(answer);
    tier = tier_config_find(operation->store->tiers->config, status->name);
    if (tier) {
        status->is_configured = true;
        status->is_shared = tier->is_shared;
        status->target = tier->target;
        status->max_concurrent = tier->max_concurrent;
    }
    status->assigned = (uint32_t)answer_u64(answer);
    available = answer_u64(answer);
    used = answer_u64(answer);
    status->calls = answer_u64(answer);
    status->by_state[POD_AVAILABLE] = (uint32_t)available;
    status->capacity = (uint64_t)status->assigned * status->max_concurrent;
    status->free = available * status->max_concurrent;
    status->free -= min_u64(status->free, used);
}

/*
 * One pod that the counts do not explain: it carries calls of its own number. Those of a shared pod with too
 * many calls have been counted: it is in its list.
 */
static void status_read_out(struct answer *answer, struct tier_status *tiers, size_t count)
{
    const char *name = answer_text(answer);
    struct slice state = answer_slice(answer);
    uint64_t load = answer_u64(answer);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(tiers[i].name, name) != 0)
            continue;
        if (!tiers[i].is_shared || !slice_equals(state, "b"))
            tiers[i].calls += load;
        if (slice_equals(state, "d"))
            tiers[i].by_state[POD_DRAINING]++;
        else if (slice_equals(state, "s"))
            tiers[i].by_state[POD_SUSPENDED]++;
        else
            tiers[i].by_state[POD_BUSY]++;
        return;
    }
}

/* Whatever is neither available nor held out is just full. The calls of shared pods have been counted. */
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
    count = answer_u64(&answer);
    if (answer.err || count > answer_left(&answer) / 5)
        return operation_unexpected(operation);
    tiers = arena_alloc(arena, (count + 1) * sizeof(*tiers));
    if (!tiers)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        status_read_tier(operation, &answer, &tiers[i]);
    while (answer_left(&answer) > 0)
        status_read_out(&answer, tiers, count);
    if (answer.err)
        return answer.err == -EIO ? operation_unexpected(operation) : answer.err;
    for (size_t i = 0; i < count; i++)
        status_add_busy(&tiers[i]);
    qsort(tiers, count, sizeof(*tiers), compare_status);
    ret_result->status.tiers = tiers;
    ret_result->status.tier_count = count;
    return 0;
}

int status_decode(struct operation *operation, const redisReply *reply)
{
    return status_read(operation, reply, operation->arena, operation->result);
}

/* A page of pods */

int pods_page_send(struct operation *operation, const char *after, size_t limit, struct arena *arena,
                   redis_reply_fn done)
{
    struct args args;

    args_begin(&args, operation, arena, 2);
    args_add_text(&args, after);
    args_add_u64(&args, limit);
    return args_call(&args, operation, "pods", done);
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
    struct slice heartbeat;
    uint64_t heartbeat_at_ms = 0;
    bool is_out;

    if (pod_record_read(answer_slice(answer), &record) && !answer->err)
        answer->err = -EIO;
    info.is_draining = answer_u64(answer) != 0;
    is_out = answer_u64(answer) != 0;
    heartbeat = answer_slice(answer);
    for (size_t i = 0; i < heartbeat.len && heartbeat.data[i] >= '0' && heartbeat.data[i] <= '9'; i++)
        heartbeat_at_ms = heartbeat_at_ms * 10 + (uint64_t)(heartbeat.data[i] - '0');
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
    info.is_heartbeating =
        heartbeat_at_ms && heartbeat_at_ms + operation->store->core.heartbeat_ttl_ms > now_ms;
    info.state = pod_state(operation, &record, &info, is_out, now_ms);
    if (info.calls.count && !info.newest_call[0])
        info.newest_call = info.calls.names[info.calls.count - 1];
    *ret_pod = (struct page_pod){.info = info, .is_pinned = record.is_pinned};
}

int pod_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, 2);
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
        return answer.err == -EIO ? operation_unexpected(operation) : answer.err;
    operation->result->pod = pod.info;
    return 0;
}

/* PODS: the counts first, for the total; then pages until the limit is full or enough was looked at */

static int pods_next(struct operation *operation, const char *after);

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

static bool pod_matches(const struct command *command, const struct pod_info *pod)
{
    if (command->pods.tier && strcmp(pod->tier, command->pods.tier) != 0)
        return false;
    return command->pods.state < 0 || pod->state == (enum pod_state)command->pods.state;
}

/* 0: the page is complete. 1: there is more to look at. */
static int pods_take(struct operation *operation, const redisReply *reply, struct page_head *head)
{
    struct result *result = operation->result;
    size_t limit = page_limit(operation->command.pods.limit);
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    pods_page_head(&answer, head);
    while (answer_left(&answer) > 0) {
        size_t start = answer.at;
        struct page_pod pod;

        /* What the filters leave out must not fill the arena of the caller: look first, then copy. */
        arena_reset(&operation->bulk->scratch);
        answer.arena = &operation->bulk->scratch;
        pods_page_pod(&answer, operation, head->now_ms, &pod);
        if (answer.err || !pod_matches(&operation->command, &pod.info))
            continue;
        answer.at = start;
        answer.arena = operation->arena;
        pods_page_pod(&answer, operation, head->now_ms, &pod);
        if (answer.err)
            break;
        result->pods.pods[result->pods.count++] = pod.info;
        operation->bulk->at += pod.info.calls.count;
        if (result->pods.count == limit || operation->bulk->at >= PAGE_CALLS_MAX) {
            if (answer_left(&answer) > 0) {
                head->more = true;
                head->last = pod.info.name;
            }
            break;
        }
    }
    if (answer.err)
        return answer.err == -EIO ? operation_unexpected(operation) : answer.err;
    operation->at += head->looked;
    result->pods.next_cursor = head->more ? head->last : "";
    return head->more && result->pods.count < limit && operation->at < REDIS_QUERY_LOOK &&
           operation->bulk->at < PAGE_CALLS_MAX;
}

static void pods_paged(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct page_head head = {0};

    if (err == 0)
        err = pods_take(operation, reply, &head);
    if (err == 1) {
        err = pods_next(operation, head.last);
        if (err == 0)
            return;
    }
    operation_finish(operation, err);
}

static int pods_next(struct operation *operation, const char *after)
{
    const struct command *command = &operation->command;
    size_t left = page_limit(command->pods.limit) - operation->result->pods.count;
    bool is_filtered = command->pods.tier || command->pods.state >= 0;

    return pods_page_send(operation, after,
                          is_filtered ? REDIS_PAGE_BATCH : (size_t)min_u64(left, REDIS_PAGE_BATCH),
                          operation->arena, pods_paged);
}

static void pods_counted(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    const struct command *command = &operation->command;
    struct result status = {0};

    if (err == 0)
        err = status_read(operation, reply, operation->arena, &status);
    if (err == 0) {
        operation->result->pods.total = pods_total(&status, command->pods.tier, command->pods.state);
        operation->result->pods.pods = arena_alloc(
            operation->arena, page_limit(command->pods.limit) * sizeof(*operation->result->pods.pods));
        err = operation->result->pods.pods ? 0 : -ENOMEM;
    }
    if (err == 0)
        err = pods_next(operation, command->pods.cursor ? command->pods.cursor : "");
    if (err)
        operation_finish(operation, err);
}

int operation_pods(struct operation *operation)
{
    struct args args;
    int rc = bulk_new(operation);

    if (rc == 0)
        rc = status_encode(operation, &args);
    return rc ? rc : args_call(&args, operation, "status", pods_counted);
}

/* CALL */

int call_encode(struct operation *operation, struct args *args)
{
    args_begin(args, operation, operation->arena, 2);
    args_add_text(args, "");
    args_add_text(args, operation->command.call.call_sid);
    return 0;
}

static void call_read(struct answer *answer, struct call_info *call)
{
    call->call_sid = answer_text(answer);
    answer_call(answer, call);
}

int call_decode(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct call_info call;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    (void)answer_u64(&answer);
    (void)answer_u64(&answer);
    call_read(&answer, &call);
    if (answer.err)
        return answer.err == -EIO ? operation_unexpected(operation) : answer.err;
    /* Without an end it has no claim on its pod. One whose lease has run out has it until a sweep ends it. */
    if (call.pod[0] && call.expires_at_ms > 0) {
        result->call.call = call;
        return 0;
    }
    result->outcome = OUTCOME_NOT_FOUND;
    return refusals_find(&operation->store->refusals, operation->command.call.call_sid, operation->arena,
                         &result->call.refusal);
}

/* CALLS: in the order in which leases end; the cursor is that end, and how many with just that end were seen
 */

struct calls_cursor {
    uint64_t end_ms;
    uint64_t skip;
};

static int calls_next(struct operation *operation);

static int calls_cursor_parse(const char *text, struct calls_cursor *ret_cursor)
{
    char *end = NULL;

    *ret_cursor = (struct calls_cursor){0};
    if (!text || !text[0])
        return 0;
    if (strlen(text) > 40 || text[0] < '0' || text[0] > '9')
        return -EINVAL;
    ret_cursor->end_ms = strtoull(text, &end, 10);
    if (*end != ':' || end[1] < '0' || end[1] > '9')
        return -EINVAL;
    ret_cursor->skip = strtoull(end + 1, &end, 10);
    return *end ? -EINVAL : 0;
}

static int calls_take(struct operation *operation, const redisReply *reply)
{
    struct result *result = operation->result;
    struct calls_cursor *cursor = operation->bulk->plan;
    size_t wanted =
        (size_t)min_u64(page_limit(operation->command.calls.limit) - result->calls.count, REDIS_PAGE_BATCH);
    struct answer answer;
    size_t taken = 0;

    answer_init(&answer, reply, operation->arena);
    result->calls.total = answer_u64(&answer);
    (void)answer_u64(&answer);
    for (; answer_left(&answer) > 0 && taken < wanted; taken++) {
        struct call_info *call = &result->calls.calls[result->calls.count];

        call_read(&answer, call);
        if (answer.err)
            break;
        cursor->skip = call->expires_at_ms == cursor->end_ms ? cursor->skip + 1 : 1;
        cursor->end_ms = call->expires_at_ms;
        /* Without a record it was deleted by hand. */
        if (call->pod[0])
            result->calls.count++;
    }
    operation->bulk->more = answer_left(&answer) > 0;
    return answer.err == -EIO ? operation_unexpected(operation) : answer.err;
}

static int calls_end(struct operation *operation)
{
    const struct calls_cursor *cursor = operation->bulk->plan;
    char text[48];

    operation->result->calls.next_cursor = "";
    if (operation->bulk->more) {
        snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)cursor->end_ms,
                 (unsigned long long)cursor->skip);
        operation->result->calls.next_cursor = arena_strdup(operation->arena, text);
    }
    return operation->result->calls.next_cursor ? 0 : -ENOMEM;
}

static void calls_paged(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0)
        err = calls_take(operation, reply);
    if (err == 0 && operation->bulk->more &&
        operation->result->calls.count < page_limit(operation->command.calls.limit)) {
        err = calls_next(operation);
        if (err == 0)
            return;
    }
    if (err == 0)
        err = calls_end(operation);
    operation_finish(operation, err);
}

static int calls_next(struct operation *operation)
{
    const struct calls_cursor *cursor = operation->bulk->plan;
    size_t left = page_limit(operation->command.calls.limit) - operation->result->calls.count;
    struct args args;

    arena_reset(&operation->bulk->scratch);
    args_begin(&args, operation, &operation->bulk->scratch, 3);
    args_add_u64(&args, cursor->end_ms);
    args_add_u64(&args, cursor->skip);
    args_add_u64(&args, min_u64(left, REDIS_PAGE_BATCH) + 1); /* one more says whether there is more */
    return args_call(&args, operation, "calls", calls_paged);
}

int operation_calls(struct operation *operation)
{
    size_t limit = page_limit(operation->command.calls.limit);
    struct calls_cursor *cursor;
    int rc = bulk_new(operation);

    if (rc)
        return rc;
    cursor = arena_alloc(&operation->bulk->keep, sizeof(*cursor));
    operation->result->calls.calls =
        arena_alloc(operation->arena, limit * sizeof(*operation->result->calls.calls));
    if (!cursor || !operation->result->calls.calls)
        return -ENOMEM;
    if (calls_cursor_parse(operation->command.calls.cursor, cursor)) {
        rc = operation_invalid(operation, OUTCOME_INVALID, "cursor is not one that was given out here");
        return rc ? rc : 1;
    }
    operation->bulk->plan = cursor;
    return calls_next(operation);
}
