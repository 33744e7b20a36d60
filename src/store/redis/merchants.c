/*
 * merchants.c - the commands for merchants: set, remove, show, list.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/page.h"
#include "store/redis/answer.h"
#include "store/redis/bulk.h"

static void merchant_args(struct operation *operation, struct args *args, const char *verb, size_t room)
{
    args_init(args, operation->arena, room + 2);
    args_add_text(args, verb);
    args_add_key(args, operation->store, SCRIPT_KEY_MERCHANT_CONFIG);
}

/* MERCHANT_SET, MERCHANT_REMOVE: merchant.lua */

static const char *merchant_new_text(const struct operation *operation)
{
    return operation->command.type == COMMAND_MERCHANT_SET ? operation->command.merchant_set.text : "";
}

static int merchant_take(struct operation *operation, const redisReply *reply)
{
    struct answer answer;
    uint64_t what, version;
    const char *old_text;

    answer_init(&answer, reply, operation->arena);
    what = answer_u64(&answer);
    if (answer.err)
        return operation_checked(operation, answer.err);
    switch (what) {
    case SCRIPT_MERCHANT_UNKNOWN:
        operation->result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    case SCRIPT_MERCHANT_TOO_MANY:
        return operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_FULL_OF_MERCHANTS);
    case SCRIPT_MERCHANT_CHANGED:
        return operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_CHANGED);
    default:
        version = answer_u64(&answer);
        old_text = answer_text(&answer);
        return answer.err ? operation_checked(operation, answer.err)
                          : change_answer(operation, version, old_text, merchant_new_text(operation));
    }
}

static void merchant_changed(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    if (err == 0)
        err = merchant_take(operation, reply);
    operation_finish(operation, err);
}

/* `text` NULL: it is removed. */
static int merchant_change(struct operation *operation, const char *merchant_id, const char *text,
                           const struct change *change)
{
    struct args args;

    args_begin(&args, operation, operation->arena, SCRIPT_MERCHANT_ARGS);
    args_add_text(&args, merchant_id);
    args_add_u64(&args, MERCHANTS_MAX);
    change_add(&args, change);
    if (text)
        args_add_text(&args, text);
    return args_call(&args, operation, SCRIPT_MERCHANT, merchant_changed);
}

int operation_merchant_set(struct operation *operation)
{
    const struct change *change = &operation->command.merchant_set.change;
    const char *text = operation->command.merchant_set.text;
    struct merchant_config config = {0};
    char error[256] = "";
    int err = (change->is_stored ? merchant_config_parse : merchant_config_check)(
        operation->arena, text, strlen(text), &config, error, sizeof(error));

    if (err == -EINVAL) {
        err = operation_refuse(operation, OUTCOME_INVALID, error);
        return err < 0 ? err : 1;
    }
    if (err == 0)
        err = result_warn_of_names(operation->result, operation->arena, &config,
                                   operation->store->tiers->config);
    return err < 0 ? err
                   : merchant_change(operation, operation->command.merchant_set.merchant_id, text, change);
}

int operation_merchant_remove(struct operation *operation)
{
    return merchant_change(operation, operation->command.merchant_remove.merchant_id, NULL,
                           &operation->command.merchant_remove.change);
}

/* MERCHANT */

int operation_merchant(struct operation *operation)
{
    struct args args;

    merchant_args(operation, &args, "HGET", 1);
    args_add_text(&args, operation->command.merchant.merchant_id);
    return args_command(&args, operation, operation_take_text);
}

/*
 * MERCHANTS: the count; then all of the hash, sorted, and each id once: a hash that grows may show
 * one twice
 */

struct merchant_entry {
    const char *id;
    const char *text;
};

struct merchant_list {
    struct merchant_entry *entries;
    size_t count;
    size_t room;
    char cursor[REDIS_CURSOR_MAX];
};

static int merchants_count_send(struct operation *operation)
{
    struct args args;

    merchant_args(operation, &args, "HLEN", 0);
    return bulk_command(&args, operation);
}

static int merchants_count_take(struct operation *operation, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_INTEGER)
        return operation_unexpected(operation);
    operation->result->merchants.total = (uint64_t)reply->integer;
    return BULK_NEXT;
}

static const struct bulk_phase merchants_count = {
    .name = "count the merchants", .send = merchants_count_send, .take = merchants_count_take};

static int merchants_scan_begin(struct operation *operation)
{
    struct merchant_list *list = operation->bulk->state;

    snprintf(list->cursor, sizeof(list->cursor), "0");
    return BULK_SEND;
}

static int merchants_scan_send(struct operation *operation)
{
    const struct merchant_list *list = operation->bulk->state;

    return bulk_hscan_send(operation, SCRIPT_KEY_MERCHANT_CONFIG, list->cursor);
}

static int merchants_grow(struct arena *arena, struct merchant_list *list)
{
    size_t room = list->room ? list->room * 2 : 256;
    struct merchant_entry *entries;

    if (list->count < list->room)
        return 0;
    entries = arena_alloc(arena, room * sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    if (list->count)
        memcpy(entries, list->entries, list->count * sizeof(*entries));
    list->entries = entries;
    list->room = room;
    return 0;
}

static int merchants_read(struct operation *operation, const redisReply *page)
{
    const char *cursor = operation->command.merchants.cursor;
    struct merchant_list *list = operation->bulk->state;
    struct answer answer;

    answer_init(&answer, page, &operation->bulk->keep);
    while (answer_left(&answer) > 1) {
        struct merchant_entry *entry;
        int err = merchants_grow(&operation->bulk->keep, list);

        if (err < 0)
            return err;
        entry = &list->entries[list->count];
        entry->id = answer_text(&answer);
        entry->text = answer_text(&answer);
        if (!cursor || strcmp(entry->id, cursor) > 0)
            list->count++;
    }
    return operation_checked(operation, answer.err);
}

static int merchant_compare(const void *a, const void *b)
{
    return strcmp(((const struct merchant_entry *)a)->id, ((const struct merchant_entry *)b)->id);
}

/* The first of them, as many as a page has. */
static int merchants_end(struct operation *operation)
{
    struct merchant_list *list = operation->bulk->state;
    struct result *result = operation->result;
    struct name_array *ids = &result->merchants.ids;
    struct name_array *texts = &result->merchants.texts;
    size_t limit = page_limit_of_merchants(operation->command.merchants.limit);
    size_t bytes = 0;

    if (name_array_init(ids, operation->arena, limit) < 0 ||
        name_array_init(texts, operation->arena, limit) < 0)
        return -ENOMEM;
    result->merchants.next_cursor = "";
    if (list->count)
        qsort(list->entries, list->count, sizeof(*list->entries), merchant_compare);
    for (size_t i = 0; i < list->count; i++) {
        const struct merchant_entry *entry = &list->entries[i];

        if (i > 0 && strcmp(list->entries[i - 1].id, entry->id) == 0)
            continue;
        if (page_has_enough_merchants(ids->count, limit, bytes)) {
            result->merchants.next_cursor = ids->names[ids->count - 1];
            break;
        }
        if (name_array_add(ids, operation->arena, entry->id) < 0 ||
            name_array_add(texts, operation->arena, entry->text) < 0)
            return -ENOMEM;
        bytes += strlen(entry->text);
    }
    return BULK_NEXT;
}

static int merchants_scan_take(struct operation *operation, const redisReply *reply)
{
    struct merchant_list *list = operation->bulk->state;
    int step = bulk_hscan_take(operation, reply, list->cursor);
    int err = step < 0 ? step : merchants_read(operation, reply->element[1]);

    if (err < 0)
        return err;
    return step == BULK_NEXT ? merchants_end(operation) : step;
}

static const struct bulk_phase merchants_scan = {.name = "read the merchants",
                                                 .begin = merchants_scan_begin,
                                                 .send = merchants_scan_send,
                                                 .take = merchants_scan_take};

static const struct bulk_phase *const merchants_phases[] = {&merchants_count, &merchants_scan, NULL};

int operation_merchants(struct operation *operation)
{
    int err = bulk_new(operation, sizeof(struct merchant_list), NULL);

    return err < 0 ? err : bulk_start(operation, merchants_phases);
}
