/*
 * sync.c - the command sync, as a chain of scripts.
 *
 * In order: check the types of the pools' lists; import pods and calls that only the first
 * implementation knows, if that may have led until now; send the observations; remove the pods of
 * this source that were not among them and are not kept; remove calls without a record; put every
 * pod where it belongs, which repairs edits by hand. The functions stand in the opposite order.
 */
#include <stdlib.h>

#include "base/map.h"
#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

/* The names that were observed, to be looked up while all pods go by. */
struct sync_plan {
    struct map seen;
    struct map_node *nodes;
};

static void sync_plan_release(void *arg)
{
    struct sync_plan *plan = arg;

    map_release(&plan->seen);
    free(plan->nodes);
}

static int sync_see(struct operation *operation);
static int sync_remove(struct operation *operation);

static int sync_add_name(struct operation *operation, struct slice name, struct slice record UNUSED)
{
    return bulk_add_name(operation->bulk, name);
}

static int sync_place(struct operation *operation)
{
    return bulk_place(operation, "settle", bulk_done);
}

/* All ghosts and calls without a record are gone: look at everything that is left. */
static int sync_scan_all(struct operation *operation)
{
    operation->bulk->count = 0;
    return bulk_scan_pods(operation, sync_add_name, sync_place);
}

static void sync_take_gone(struct operation *operation, struct answer *answer)
{
    struct bulk *bulk = operation->bulk;
    struct result *result = operation->result;
    uint64_t what = answer_u64(answer);

    answer_ended(answer, answer_u64(answer), &result->sync.ended);
    if (!answer->err && bulk->at == bulk->count)
        answer->err = -EIO; /* it tells of more than it was asked for */
    if (answer->err)
        return;
    result->sync.removed += what == REDIS_GONE_REMOVED;
    if (what == REDIS_GONE_STAYS) {
        struct name_array *absent = &result->sync.absent;
        const char *name = arena_strdup(operation->arena, bulk->names[bulk->at]);

        if (!name || !absent->names)
            answer->err = name ? -EIO : -ENOMEM;
        else
            absent->names[absent->count++] = name;
    }
    bulk->at++;
}

static void sync_removed(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;

    if (err == 0) {
        size_t before = operation->bulk->at;

        answer_init(&answer, reply, operation->arena);
        while (answer_left(&answer) > 0)
            sync_take_gone(operation, &answer);
        err = answer.err;
        if (err == -EIO || (err == 0 && operation->bulk->at == before))
            err = operation_unexpected(operation);
    }
    if (err == 0)
        err = sync_remove(operation);
    if (err)
        operation_finish(operation, err);
}

static int sync_remove(struct operation *operation)
{
    struct bulk *bulk = operation->bulk;
    size_t end = (size_t)min_u64(bulk->count, bulk->at + (uint64_t)REDIS_SEEN_BATCH);
    struct args args;

    if (bulk->at >= bulk->count)
        return bulk_walk(operation, "tidy", "", sync_scan_all);
    arena_reset(&bulk->scratch);
    args_begin_fenced(&args, operation, &bulk->scratch, 2 + end - bulk->at);
    args_add_text(&args, pod_source_name(operation->command.sync.source));
    args_add_text(&args, operation->command.sync.spares_calls ? "absent" : "gone");
    for (size_t i = bulk->at; i < end; i++)
        args_add_text(&args, bulk->names[i]);
    return args_call(&args, operation, "gone", sync_removed);
}

static int sync_remove_start(struct operation *operation)
{
    struct bulk *bulk = operation->bulk;

    bulk_sort(bulk);
    if (operation->command.sync.spares_calls && bulk->count > 0) {
        struct name_array *absent = &operation->result->sync.absent;

        absent->names = arena_alloc(operation->arena, bulk->count * sizeof(*absent->names));
        if (!absent->names)
            return -ENOMEM;
    }
    return sync_remove(operation);
}

/* A pod that this source no longer knows is gone. */
static int sync_find_ghost(struct operation *operation, struct slice name, struct slice text)
{
    const struct sync_plan *plan = operation->bulk->plan;
    struct pod_record record;

    /* Whose it is cannot be told: place.lua, which comes to it, deletes the record. */
    if (pod_record_read(text, &record))
        return 0;
    if (!slice_equals(record.source, pod_source_name(operation->command.sync.source)) ||
        map_get(&plan->seen, name.data, name.len))
        return 0;
    return bulk_add_name(operation->bulk, name);
}

static int sync_plan_new(struct operation *operation)
{
    const struct command *command = &operation->command;
    struct sync_plan *plan = arena_alloc(&operation->bulk->keep, sizeof(*plan));

    if (!plan)
        return -ENOMEM;
    plan->nodes = calloc(command->sync.count + 1, sizeof(*plan->nodes));
    if (!plan->nodes)
        return -ENOMEM;
    map_init(&plan->seen);
    operation->bulk->plan = plan;
    operation->bulk->plan_free = sync_plan_release;
    for (size_t i = 0; i < command->sync.count; i++) {
        const char *name = command->sync.pods[i].name;

        if (map_get(&plan->seen, name, strlen(name)))
            continue;
        if (map_reserve(&plan->seen))
            return -ENOMEM;
        map_put(&plan->seen, &plan->nodes[i], name, strlen(name));
    }
    return 0;
}

static int sync_find_ghosts(struct operation *operation)
{
    int rc;

    if (operation->command.sync.source == POD_SOURCE_API)
        return sync_remove_start(operation); /* nobody lists pods that register themselves: none is missing */
    rc = sync_plan_new(operation);
    return rc ? rc : bulk_scan_pods(operation, sync_find_ghost, sync_remove_start);
}

static int sync_take_seen(struct operation *operation, struct answer *answer)
{
    struct result *result = operation->result;
    struct slice what = answer_slice(answer);

    (void)answer_slice(answer);
    result->sync.added += slice_equals(what, "n");
    result->sync.changed += slice_equals(what, "c") || slice_equals(what, "L");
    result->sync.removed += slice_equals(what, "l") || slice_equals(what, "L");
    answer_ended(answer, answer_u64(answer), &result->sync.ended);
    return answer->err;
}

/* A pod that is kept has no observation that could be sent. */
static void sync_skip_kept(struct operation *operation)
{
    const struct command *command = &operation->command;

    while (operation->at < command->sync.count && command->sync.pods[operation->at].is_kept)
        operation->at++;
}

static void sync_seen(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    size_t before = operation->at;
    struct answer answer;

    if (err == 0) {
        answer_init(&answer, reply, operation->arena);
        while (answer_left(&answer) > 0 && sync_take_seen(operation, &answer) == 0) {
            sync_skip_kept(operation);
            operation->at++;
        }
        err = answer.err;
        if (err == -EIO || (err == 0 && operation->at == before))
            err = operation_unexpected(operation);
    }
    if (err == 0)
        err = sync_see(operation);
    if (err)
        operation_finish(operation, err);
}

static int sync_see(struct operation *operation)
{
    const struct command *command = &operation->command;
    size_t left = REDIS_SEEN_BATCH;
    struct args args;

    sync_skip_kept(operation);
    if (operation->at >= command->sync.count)
        return sync_find_ghosts(operation);
    arena_reset(&operation->bulk->scratch);
    args_begin_fenced(&args, operation, &operation->bulk->scratch, 2 + REDIS_SEEN_TEXTS * left);
    args_add_u64(&args, operation->store->core.heartbeat_ttl_ms);
    args_add_text(&args, "0");
    for (size_t i = operation->at; i < command->sync.count && left > 0; i++) {
        if (command->sync.pods[i].is_kept)
            continue;
        args_add_seen(&args, &command->sync.pods[i]);
        left--;
    }
    return args_call(&args, operation, "seen", sync_seen);
}

static void sync_checked(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0 && reply->type != REDIS_REPLY_INTEGER)
        err = operation_unexpected(operation);
    if (err == 0 && operation->command.sync.imports)
        err = bulk_walk(operation, "import", pod_source_name(operation->command.sync.source), sync_see);
    else if (err == 0)
        err = sync_see(operation);
    if (err)
        operation_finish(operation, err);
}

/* Pools of the wrong type, as a tier configuration that was edited by hand leaves behind, start anew. */
static int sync_check(struct operation *operation)
{
    struct args args;

    args_begin_fenced(&args, operation, &operation->bulk->scratch, 1);
    args_add_text(&args, "check");
    return args_call(&args, operation, "tiers", sync_checked);
}

int operation_sync(struct operation *operation)
{
    return bulk_start(operation, sync_check);
}
