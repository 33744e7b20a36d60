/*
 * turn.c - sends all allocations of one turn of the loop in one script, and all releases in
 * another.
 *
 * A script costs Redis much before it begins. Each command has its own answer, and an error of one
 * is not an error of another.
 */
#include <stdlib.h>

#include "store/redis/redis_internal.h"

struct batch {
    struct redis_store *store;
    size_t count;
    struct operation *operations[];
};

bool turn_takes(enum command_type type)
{
    return type == COMMAND_ALLOCATE || type == COMMAND_RELEASE;
}

void turn_add(struct operation *operation)
{
    struct redis_store *store = operation->store;

    list_append(operation->command.type == COMMAND_ALLOCATE ? &store->allocates : &store->releases,
                &operation->turn);
    redis_link_wake(store->link);
}

/* The last one may be the one that the store was waiting for to close: nothing of it is touched afterwards.
 */
static void batch_answered(void *arg, int err, const redisReply *reply)
{
    struct batch *batch = arg;

    if (reply && (reply->type != REDIS_REPLY_ARRAY || reply->elements != batch->count)) {
        err = operation_unexpected(batch->operations[0]);
        reply = NULL;
    }
    for (size_t i = 0; i < batch->count; i++) {
        const redisReply *one = reply ? reply->element[i] : NULL;
        int one_err = err;

        if (one && one->type == REDIS_REPLY_ERROR) {
            one_err = redis_link_report(batch->store->link, one->str);
            one = NULL;
        }
        operation_answered(batch->operations[i], one_err, one);
    }
    free(batch);
}

/* What all allocations of the batch have in common. */
static void batch_begin_allocates(const struct batch *batch, struct args *args)
{
    const struct redis_store *store = batch->store;
    bool has_merchant = false;

    for (size_t i = 0; i < batch->count; i++)
        has_merchant |= batch->operations[i]->command.allocate.merchant_id[0] != '\0';
    args_add_text(args, store->first_lease);
    args_add_text(args, store->first_lease_life);
    args_add_text(args, store->first_record_life);
    args_add(args, has_merchant ? store->tiers->merchants : SLICE(""));
    args_add_u64(args, store->tiers->chain_count);
    for (size_t i = 0; i < store->tiers->chain_count; i++)
        args_add(args, store->tiers->chain[i]);
}

/* Nearly always the names are all there is to say: each argument costs Redis something. */
static void batch_begin_releases(const struct batch *batch, struct args *args)
{
    bool is_detailed = false;

    for (size_t i = 0; i < batch->count; i++) {
        const struct command *command = &batch->operations[i]->command;

        is_detailed |=
            command->release.pod || command->release.provider || command->release.why != CALL_OVER_RELEASED;
    }
    for (size_t i = 0; i < batch->count; i++)
        batch->operations[i]->is_detailed = is_detailed;
    args_add_text(args, is_detailed ? "4" : "1");
}

static int batch_send(struct batch *batch)
{
    struct redis_store *store = batch->store;
    enum command_type type = batch->operations[0]->command.type;
    const struct command_spec *spec = command_spec(type);
    struct args args;
    int rc = 0;

    /* The arena of the first one will do: the arguments are copied when they are sent. */
    args_begin(&args, batch->operations[0], batch->operations[0]->arena,
               5 + store->tiers->chain_count + 5 * batch->count);
    if (type == COMMAND_ALLOCATE)
        batch_begin_allocates(batch, &args);
    else
        batch_begin_releases(batch, &args);
    for (size_t i = 0; i < batch->count && rc == 0; i++) {
        batch->operations[i]->script = spec->script;
        operation_note_version(batch->operations[i]);
        rc = spec->encode(batch->operations[i], &args);
    }
    if (rc == 0 && args.failed)
        rc = -ENOMEM;
    for (size_t i = 0; i < batch->count; i++)
        batch->operations[i]->is_sent = true;
    store->stats.writes++;
    return rc ? rc
              : redis_link_call(store->link, redis_script(spec->script), store->key, args.items, args.count,
                                batch_answered, batch);
}

static size_t batch_size(const struct list *waiting)
{
    size_t size = 0;

    for (const struct list *at = waiting->next; at != waiting && size < REDIS_CALL_BATCH; at = at->next)
        size++;
    return size;
}

static void batch_send_waiting(struct redis_store *store, struct list *waiting)
{
    while (!list_is_empty(waiting)) {
        size_t size = batch_size(waiting);
        struct batch *batch = malloc(sizeof(*batch) + size * sizeof(struct operation *));
        int rc;

        assert(size > 0); /* the list is not empty */
        if (!batch) {
            struct operation *first = LIST_ENTRY(waiting->next, struct operation, turn);

            list_remove(&first->turn);
            operation_finish(first, -ENOMEM);
            continue;
        }
        *batch = (struct batch){.store = store, .count = size};
        for (size_t i = 0; i < size; i++) {
            batch->operations[i] = LIST_ENTRY(waiting->next, struct operation, turn);
            list_remove(waiting->next);
        }
        rc = batch_send(batch);
        if (rc)
            batch_answered(batch, rc, NULL);
    }
}

/* Releases first: what they free is there for the others. */
void turn_send(void *arg)
{
    struct redis_store *store = arg;

    batch_send_waiting(store, &store->releases);
    batch_send_waiting(store, &store->allocates);
}
