/*
 * bulk_phases.c - the phases that bulk commands share: read the tiers, scan all pods, count
 * them, read them page by page, place them, walk a script page by page.
 */
#include <stdio.h>

#include "store/redis/answer.h"
#include "store/redis/bulk.h"

/* The stored tiers */

static int read_tiers_send(struct operation *operation)
{
    return tiers_request(operation->store, bulk_answered, operation);
}

static int read_tiers_take(struct operation *operation, const redisReply *reply)
{
    int err = tiers_take(operation->store, reply);

    return err < 0 ? err : BULK_NEXT;
}

const struct bulk_phase bulk_read_tiers = {
    .name = "read the tiers", .send = read_tiers_send, .take = read_tiers_take};

/* One hash, page by page */

int bulk_hscan_send(struct operation *operation, const char *key, const char *cursor)
{
    struct args args;

    args_init(&args, &operation->bulk->scratch, 5);
    args_add_text(&args, "HSCAN");
    args_add_key(&args, operation->store, key);
    args_add_text(&args, cursor);
    args_add_text(&args, "COUNT");
    args_add_u64(&args, REDIS_PAGE_BATCH);
    return bulk_command(&args, operation);
}

int bulk_hscan_take(struct operation *operation, const redisReply *reply, char cursor[REDIS_CURSOR_MAX])
{
    struct answer answer;
    bool is_last;

    answer_init(&answer, reply, &operation->bulk->scratch);
    is_last = answer_cursor(&answer, cursor);
    if (answer.err || answer_left(&answer) != 1)
        return operation_unexpected(operation);
    return is_last ? BULK_NEXT : BULK_SEND;
}

/* All pods, from the hash that has their records */

int bulk_scan_begin(struct operation *operation, bulk_pod_fn each)
{
    struct bulk *bulk = operation->bulk;

    bulk->scan.each = each;
    snprintf(bulk->scan.cursor, sizeof(bulk->scan.cursor), "0");
    return BULK_SEND;
}

int bulk_scan_send(struct operation *operation)
{
    return bulk_hscan_send(operation, SCRIPT_KEY_PODS, operation->bulk->scan.cursor);
}

static int scan_take_pods(struct operation *operation, const redisReply *page)
{
    struct bulk *bulk = operation->bulk;
    struct answer answer;

    answer_init(&answer, page, &bulk->scratch);
    while (answer_left(&answer) > 1) {
        struct slice name = answer_slice(&answer);
        struct slice record = answer_slice(&answer);
        int err = answer.err ? 0 : bulk->scan.each(operation, name, record);

        if (err < 0)
            return err;
    }
    return answer.err ? operation_unexpected(operation) : 0;
}

int bulk_scan_take(struct operation *operation, const redisReply *reply)
{
    int step = bulk_hscan_take(operation, reply, operation->bulk->scan.cursor);
    int err = step < 0 ? step : scan_take_pods(operation, reply->element[1]);

    return err < 0 ? err : step;
}

int bulk_keep_name(struct operation *operation, struct slice name, struct slice record UNUSED)
{
    return bulk_add_name(operation->bulk, name);
}

/* place.lua for all names */

int bulk_place_begin(struct operation *operation, const char *mode)
{
    operation->bulk->place.mode = mode;
    bulk_sort_names(operation->bulk);
    return BULK_SEND;
}

int bulk_place_send(struct operation *operation)
{
    struct bulk *bulk = operation->bulk;
    size_t at = bulk->names.at;
    size_t end = (size_t)min_u64(bulk->names.count, at + (uint64_t)REDIS_PLACE_BATCH);
    struct args args;

    if (at == bulk->names.count)
        return BULK_NEXT;
    args_begin_fenced(&args, operation, &bulk->scratch, SCRIPT_PLACE_ARGS + end - at);
    args_add_text(&args, bulk->place.mode);
    for (; at < end; at++)
        args_add_text(&args, bulk->names.items[at]);
    bulk->names.at = end;
    return bulk_call(&args, operation, SCRIPT_PLACE);
}

int bulk_place_take(struct operation *operation, const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 &&
                   reply->element[0]->type == REDIS_REPLY_INTEGER
               ? BULK_SEND
               : operation_unexpected(operation);
}

/* The counts of all tiers: status_read() reads the answer */

int bulk_status_send(struct operation *operation)
{
    struct args args;

    args_begin(&args, operation, &operation->bulk->scratch, SCRIPT_STATUS_ARGS);
    args_add_u64(&args, REDIS_STATUS_LOOK);
    return bulk_call(&args, operation, SCRIPT_STATUS);
}

/* All pods, in the order of names */

int bulk_pages_begin(struct operation *operation, bulk_page_pod_fn each)
{
    struct bulk *bulk = operation->bulk;

    bulk->pages.after = "";
    bulk->pages.each = each;
    return BULK_SEND;
}

int bulk_pages_send(struct operation *operation)
{
    struct args args;

    pods_page_encode(operation, &args, operation->bulk->pages.after, REDIS_PAGE_BATCH);
    return bulk_call(&args, operation, SCRIPT_PODS);
}

int bulk_pages_take(struct operation *operation, const redisReply *reply)
{
    struct bulk *bulk = operation->bulk;
    struct page_head head;
    struct answer answer;

    answer_init(&answer, reply, &bulk->scratch);
    pods_page_head(&answer, &head);
    while (answer_left(&answer) > 0) {
        struct page_pod pod;
        int err;

        pods_page_pod(&answer, operation, head.now_ms, &pod);
        err = answer.err ? 0 : bulk->pages.each(operation, &pod);
        if (err < 0)
            return err;
    }
    if (answer.err)
        return operation_checked(operation, answer.err);
    bulk->pages.after = arena_strdup(&bulk->keep, head.last);
    if (!bulk->pages.after)
        return -ENOMEM;
    return head.more ? BULK_SEND : BULK_NEXT;
}

/* A script that goes through everything page by page */

int bulk_walk_begin(struct operation *operation, const char *script, const char *source)
{
    struct bulk *bulk = operation->bulk;

    bulk->walk.script = script;
    bulk->walk.source = source;
    snprintf(bulk->walk.cursor, sizeof(bulk->walk.cursor), "0");
    return BULK_SEND;
}

int bulk_walk_send(struct operation *operation)
{
    struct bulk *bulk = operation->bulk;
    struct args args;

    args_begin_fenced(&args, operation, &bulk->scratch, SCRIPT_IMPORT_ARGS);
    args_add_text(&args, bulk->walk.cursor);
    args_add_u64(&args, REDIS_PAGE_BATCH);
    if (strcmp(bulk->walk.script, SCRIPT_IMPORT) == 0) {
        args_add_u64(&args, operation->store->core.call_max_duration_ms);
        args_add_text(&args, bulk->walk.source);
    }
    return bulk_call(&args, operation, bulk->walk.script);
}

int bulk_walk_take(struct operation *operation, const redisReply *reply)
{
    struct bulk *bulk = operation->bulk;
    struct answer answer;
    bool is_last;

    answer_init(&answer, reply, &bulk->scratch);
    is_last = answer_cursor(&answer, bulk->walk.cursor);
    (void)answer_u64(&answer);
    bulk->walk.time_ms = answer_u64(&answer);
    if (answer.err)
        return operation_unexpected(operation);
    return is_last ? BULK_NEXT : BULK_SEND;
}
