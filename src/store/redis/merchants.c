/*
 * merchants.c - the commands for merchants: set, remove, show, list; and the command that shows
 * the tiers.
 */
#include <stdlib.h>

#include "store/redis/answer.h"
#include "store/redis/redis_internal.h"

static void merchant_args(struct operation *operation, struct args *args, const char *verb, size_t room)
{
    args_init(args, operation->arena, room + 2);
    args_add_text(args, verb);
    args_add_key(args, operation->store, "merchant:config");
}

/* An integer, or -EIO. */
static int integer_of(const struct operation *operation, const redisReply *reply, long long *ret_number)
{
    if (reply->type != REDIS_REPLY_INTEGER)
        return operation_unexpected(operation);
    *ret_number = reply->integer;
    return 0;
}

/* MERCHANT_SET, MERCHANT_REMOVE: merchant.lua */

static void merchant_changed(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    long long number = 0;

    if (err == 0)
        err = integer_of(operation, reply, &number);
    if (err == 0 && number == 0)
        operation->result->outcome = OUTCOME_NOT_FOUND;
    if (err == 0 && number == 2)
        err = operation_invalid(operation, OUTCOME_CONFLICT, "there are too many merchants");
    operation_finish(operation, err);
}

/* `text` NULL: it is removed. */
static int merchant_change(struct operation *operation, const char *merchant_id, const char *text)
{
    struct args args;

    args_begin(&args, operation, operation->arena, 3);
    args_add_text(&args, merchant_id);
    args_add_u64(&args, MERCHANTS_MAX);
    if (text)
        args_add_text(&args, text);
    return args_call(&args, operation, "merchant", merchant_changed);
}

int operation_merchant_set(struct operation *operation)
{
    const char *text = operation->command.merchant_set.text;
    struct merchant_config config;
    char error[128] = "";
    int rc = merchant_config_parse(operation->arena, text, strlen(text), &config, error, sizeof(error));

    if (rc == -EINVAL) {
        rc = operation_invalid(operation, OUTCOME_INVALID, error);
        return rc ? rc : 1;
    }
    return rc ? rc : merchant_change(operation, operation->command.merchant_set.merchant_id, text);
}

int operation_merchant_remove(struct operation *operation)
{
    return merchant_change(operation, operation->command.merchant.merchant_id, NULL);
}

/* MERCHANT and TIERS: one text, as stored */

static void text_read(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0 && reply->type == REDIS_REPLY_NIL) {
        operation->result->outcome = OUTCOME_NOT_FOUND;
    } else if (err == 0 && reply->type == REDIS_REPLY_STRING) {
        operation->result->merchant.text = arena_copy(operation->arena, reply->str, reply->len);
        err = operation->result->merchant.text ? 0 : -ENOMEM;
    } else if (err == 0) {
        err = operation_unexpected(operation);
    }
    operation_finish(operation, err);
}

int operation_merchant(struct operation *operation)
{
    struct args args;

    merchant_args(operation, &args, "HGET", 1);
    args_add_text(&args, operation->command.merchant.merchant_id);
    return args_command(&args, operation, text_read);
}

int operation_tiers(struct operation *operation)
{
    struct args args;

    args_init(&args, operation->arena, 2);
    args_add_text(&args, "GET");
    args_add_key(&args, operation->store, "tier:config");
    return args_command(&args, operation, text_read);
}

/* MERCHANTS: the count; then all of the hash, sorted and each id once, as a hash that grows may show one
 * twice */

struct merchant_entry {
    const char *id;
    const char *text;
};

struct merchant_list {
    struct merchant_entry *entries;
    size_t count;
    size_t room;
};

static int merchants_next(struct operation *operation);

static int merchant_compare(const void *a, const void *b)
{
    return strcmp(((const struct merchant_entry *)a)->id, ((const struct merchant_entry *)b)->id);
}

static int merchants_grow(struct bulk *bulk, struct merchant_list *list)
{
    size_t room = list->room ? list->room * 2 : 256;
    struct merchant_entry *entries;

    if (list->count < list->room)
        return 0;
    entries = arena_alloc(&bulk->keep, room * sizeof(*entries));
    if (!entries)
        return -ENOMEM;
    if (list->count)
        memcpy(entries, list->entries, list->count * sizeof(*entries));
    list->entries = entries;
    list->room = room;
    return 0;
}

static int merchants_take(struct operation *operation, const redisReply *page)
{
    const char *cursor = operation->command.merchants.cursor;
    struct bulk *bulk = operation->bulk;
    struct merchant_list *list = bulk->plan;
    struct answer answer;

    answer_init(&answer, page, &bulk->keep);
    while (answer_left(&answer) > 1) {
        struct merchant_entry *entry;
        int rc = merchants_grow(bulk, list);

        if (rc)
            return rc;
        entry = &list->entries[list->count];
        entry->id = answer_text(&answer);
        entry->text = answer_text(&answer);
        if (!cursor || strcmp(entry->id, cursor) > 0)
            list->count++;
    }
    return answer.err == -EIO ? operation_unexpected(operation) : answer.err;
}

static int merchants_end(struct operation *operation)
{
    const struct command *command = &operation->command;
    struct merchant_list *list = operation->bulk->plan;
    struct result *result = operation->result;
    struct name_array *ids = &result->merchants.ids;
    struct name_array *texts = &result->merchants.texts;
    size_t limit = command->merchants.limit ? (size_t)min_u64(command->merchants.limit, PAGE_MAX) : PAGE_MAX;
    size_t bytes = 0;

    ids->names = arena_alloc(operation->arena, limit * sizeof(*ids->names));
    texts->names = arena_alloc(operation->arena, limit * sizeof(*texts->names));
    if (!ids->names || !texts->names)
        return -ENOMEM;
    result->merchants.next_cursor = "";
    if (list->count)
        qsort(list->entries, list->count, sizeof(*list->entries), merchant_compare);
    for (size_t i = 0; i < list->count; i++) {
        const struct merchant_entry *entry = &list->entries[i];

        if (i > 0 && strcmp(list->entries[i - 1].id, entry->id) == 0)
            continue;
        if (ids->count == limit || bytes > PAGE_TEXTS_MAX) {
            result->merchants.next_cursor = ids->names[ids->count - 1];
            break;
        }
        ids->names[ids->count] = arena_strdup(operation->arena, entry->id);
        texts->names[texts->count] = arena_strdup(operation->arena, entry->text);
        if (!ids->names[ids->count++] || !texts->names[texts->count++])
            return -ENOMEM;
        bytes += strlen(entry->text);
    }
    return 0;
}

static void merchants_paged(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    struct answer answer;
    bool is_last = true;

    if (err == 0) {
        answer_init(&answer, reply, operation->arena);
        is_last = answer_cursor(&answer, operation->bulk->cursor);
        if (answer.err || answer_left(&answer) != 1)
            err = operation_unexpected(operation);
    }
    if (err == 0)
        err = merchants_take(operation, reply->element[1]);
    if (err == 0 && !is_last) {
        err = merchants_next(operation);
        if (err == 0)
            return;
    }
    if (err == 0)
        err = merchants_end(operation);
    operation_finish(operation, err);
}

static int merchants_next(struct operation *operation)
{
    struct args args;

    arena_reset(&operation->bulk->scratch);
    args_init(&args, &operation->bulk->scratch, 5);
    args_add_text(&args, "HSCAN");
    args_add_key(&args, operation->store, "merchant:config");
    args_add_text(&args, operation->bulk->cursor);
    args_add_text(&args, "COUNT");
    args_add_u64(&args, REDIS_PAGE_BATCH);
    return args_command(&args, operation, merchants_paged);
}

static void merchants_totalled(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    long long total = 0;

    if (err == 0)
        err = integer_of(operation, reply, &total);
    operation->result->merchants.total = (uint64_t)total;
    if (err == 0)
        err = merchants_next(operation);
    if (err)
        operation_finish(operation, err);
}

int operation_merchants(struct operation *operation)
{
    struct merchant_list *list;
    struct args args;
    int rc = bulk_new(operation);

    if (rc)
        return rc;
    list = arena_alloc(&operation->bulk->keep, sizeof(*list));
    if (!list)
        return -ENOMEM;
    *list = (struct merchant_list){0};
    operation->bulk->plan = list;
    merchant_args(operation, &args, "HLEN", 0);
    return args_command(&args, operation, merchants_totalled);
}
