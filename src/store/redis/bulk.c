/*
 * bulk.c - the steps that bulk commands share: scan all pods, place them, walk a script page by
 * page.
 */
#include <stdlib.h>

#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

int bulk_new(struct operation *operation)
{
    struct bulk *bulk = calloc(1, sizeof(*bulk));

    if (!bulk)
        return -ENOMEM;
    arena_init(&bulk->keep, REDIS_BULK_ARENA_MAX);
    arena_init(&bulk->scratch, REDIS_BULK_ARENA_MAX);
    bulk->cursor[0] = '0';
    operation->bulk = bulk;
    return 0;
}

void bulk_free(struct bulk *bulk)
{
    if (!bulk)
        return;
    if (bulk->plan_free)
        bulk->plan_free(bulk->plan);
    tier_cache_free(bulk->next_tiers);
    arena_release(&bulk->keep);
    arena_release(&bulk->scratch);
    free(bulk->names);
    free(bulk);
}

int bulk_add_name(struct bulk *bulk, struct slice name)
{
    const char *copy;

    if (bulk->count == bulk->room) {
        size_t room = bulk->room ? bulk->room * 2 : 256;
        const char **names;

        if (room > REDIS_PODS_MAX)
            return -E2BIG;
        names = realloc(bulk->names, room * sizeof(*names));
        if (!names)
            return -ENOMEM;
        bulk->names = names;
        bulk->room = room;
    }
    copy = arena_copy(&bulk->keep, name.data, name.len);
    if (!copy)
        return -ENOMEM;
    bulk->names[bulk->count++] = copy;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void bulk_sort(struct bulk *bulk)
{
    size_t kept = 0;

    if (bulk->count)
        qsort(bulk->names, bulk->count, sizeof(*bulk->names), compare_names);
    for (size_t i = 0; i < bulk->count; i++) {
        if (i == 0 || strcmp(bulk->names[i], bulk->names[i - 1]) != 0)
            bulk->names[kept++] = bulk->names[i];
    }
    bulk->count = kept;
    bulk->at = 0;
}

/* The next pages of the hash of pods; `each` gets every name and record. */

static int scan_next(struct operation *operation);

static int scan_take(struct operation *operation, const redisReply *page)
{
    struct answer answer;

    answer_init(&answer, page, &operation->bulk->scratch);
    while (answer_left(&answer) > 1) {
        struct slice name = answer_slice(&answer);
        struct slice record = answer_slice(&answer);
        int rc = answer.err ? 0 : operation->bulk->each(operation, name, record);

        if (rc)
            return rc;
    }
    return answer.err ? operation_unexpected(operation) : 0;
}

static void scanned(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;
    bool is_last = true;

    if (err == 0) {
        answer_init(&answer, reply, &operation->bulk->scratch);
        is_last = answer_cursor(&answer, operation->bulk->cursor);
        if (answer.err || answer_left(&answer) != 1)
            err = operation_unexpected(operation);
    }
    if (err == 0)
        err = scan_take(operation, reply->element[1]);
    if (err == 0)
        err = is_last ? operation->bulk->next(operation) : scan_next(operation);
    if (err)
        operation_finish(operation, err);
}

static int scan_next(struct operation *operation)
{
    struct args args;

    arena_reset(&operation->bulk->scratch);
    args_init(&args, &operation->bulk->scratch, 5);
    args_add_text(&args, "HSCAN");
    args_add_key(&args, operation->store, "pods");
    args_add_text(&args, operation->bulk->cursor);
    args_add_text(&args, "COUNT");
    args_add_u64(&args, REDIS_PAGE_BATCH);
    return args_command(&args, operation, scanned);
}

int bulk_scan_pods(struct operation *operation, bulk_pod_fn each, bulk_next_fn next)
{
    operation->bulk->each = each;
    operation->bulk->next = next;
    operation->bulk->cursor[0] = '0';
    operation->bulk->cursor[1] = '\0';
    return scan_next(operation);
}

/* place.lua over all names */

static int place_next(struct operation *operation);

static void placed(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0 && reply->type != REDIS_REPLY_INTEGER)
        err = operation_unexpected(operation);
    if (err == 0 && reply->integer > 0 && operation->command.type == COMMAND_SYNC)
        operation->result->sync.look_again_ms = REDIS_MEND_AGAIN_MS;
    if (err == 0)
        err = place_next(operation);
    if (err)
        operation_finish(operation, err);
}

static int place_next(struct operation *operation)
{
    struct bulk *bulk = operation->bulk;
    size_t end = (size_t)min_u64(bulk->count, bulk->at + (uint64_t)REDIS_PLACE_BATCH);
    struct args args;

    if (bulk->at == bulk->count)
        return bulk->next(operation);
    arena_reset(&bulk->scratch);
    args_begin_fenced(&args, operation, &bulk->scratch, 1 + end - bulk->at);
    args_add_text(&args, bulk->mode);
    while (bulk->at < end)
        args_add_text(&args, bulk->names[bulk->at++]);
    return args_call(&args, operation, "place", placed);
}

int bulk_place(struct operation *operation, const char *mode, bulk_next_fn next)
{
    operation->bulk->mode = mode;
    operation->bulk->next = next;
    bulk_sort(operation->bulk);
    return place_next(operation);
}

/* A script that goes through something page by page, from cursor to cursor */

static int walk_next(struct operation *operation);

static void walked(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;
    bool is_last = true;

    if (err == 0) {
        answer_init(&answer, reply, &operation->bulk->scratch);
        is_last = answer_cursor(&answer, operation->bulk->cursor);
        (void)answer_u64(&answer);
        operation->bulk->time_ms = answer_u64(&answer);
        if (answer.err)
            err = operation_unexpected(operation);
    }
    if (err == 0)
        err = is_last ? operation->bulk->next(operation) : walk_next(operation);
    if (err)
        operation_finish(operation, err);
}

static int walk_next(struct operation *operation)
{
    struct bulk *bulk = operation->bulk;
    struct args args;

    arena_reset(&bulk->scratch);
    args_begin_fenced(&args, operation, &bulk->scratch, 4);
    args_add_text(&args, bulk->cursor);
    args_add_u64(&args, REDIS_PAGE_BATCH);
    args_add_u64(&args, operation->store->core.call_max_duration_ms);
    args_add_text(&args, bulk->source);
    return args_call(&args, operation, bulk->mode, walked);
}

int bulk_walk(struct operation *operation, const char *script, const char *source, bulk_next_fn next)
{
    struct bulk *bulk = operation->bulk;

    bulk->mode = script;
    bulk->source = source;
    bulk->next = next;
    bulk->cursor[0] = '0';
    bulk->cursor[1] = '\0';
    return walk_next(operation);
}

int bulk_done(struct operation *operation)
{
    operation_finish(operation, 0);
    return 0;
}

/* Bulk work starts from the stored tiers, not from what this router remembers of them. */

static void fresh_tiers(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0)
        err = tiers_take(operation->store, reply);
    if (err == 0)
        err = operation->bulk->next(operation);
    if (err)
        operation_finish(operation, err);
}

int bulk_start(struct operation *operation, bulk_next_fn next)
{
    int rc = bulk_new(operation);

    if (rc)
        return rc;
    operation->bulk->next = next;
    return tiers_request(operation->store, fresh_tiers, operation);
}
