/*
 * bulk.c - runs the phases of a bulk command, one after the other, and keeps its memory.
 */
#include "store/redis/bulk.h"

#include <stdlib.h>

#include "base/log.h"

void bulk_free(struct bulk *bulk)
{
    if (!bulk)
        return;
    if (bulk->state_release)
        bulk->state_release(bulk->state);
    arena_release(&bulk->keep);
    arena_release(&bulk->scratch);
    free(bulk->names.items);
    free(bulk);
}

int bulk_replace_state(struct operation *operation, size_t state_size, void (*release)(void *state))
{
    struct bulk *bulk = operation->bulk;
    void *state = arena_alloc(&bulk->keep, state_size);

    if (!state)
        return -ENOMEM;
    memset(state, 0, state_size);
    if (bulk->state_release)
        bulk->state_release(bulk->state);
    bulk->state = state;
    bulk->state_release = release;
    return 0;
}

int bulk_new(struct operation *operation, size_t state_size, void (*release)(void *state))
{
    struct bulk *bulk = calloc(1, sizeof(*bulk));

    if (!bulk)
        return -ENOMEM;
    arena_init(&bulk->keep, REDIS_BULK_ARENA_MAX);
    arena_init(&bulk->scratch, REDIS_BULK_ARENA_MAX);
    operation->bulk = bulk;
    return state_size ? bulk_replace_state(operation, state_size, release) : 0;
}

static const struct bulk_phase *bulk_phase(const struct operation *operation)
{
    return operation->bulk->phases[operation->bulk->phase];
}

static int bulk_enter(struct operation *operation, size_t phase)
{
    const struct bulk_phase *entered = operation->bulk->phases[phase];

    if (!entered)
        return BULK_DONE;
    operation->bulk->phase = phase;
    return entered->begin ? entered->begin(operation) : BULK_SEND;
}

static int bulk_send(struct operation *operation)
{
    arena_reset(&operation->bulk->scratch);
    return bulk_phase(operation)->send(operation);
}

/*
 * 0: a request is under way, or the operation has been answered. A negative errno: it has failed.
 */
static int bulk_run(struct operation *operation, int step)
{
    while (step != BULK_SENT) {
        switch (step) {
        case BULK_SEND:
            step = bulk_send(operation);
            break;
        case BULK_NEXT:
            step = bulk_enter(operation, operation->bulk->phase + 1);
            break;
        case BULK_RESTART:
            step = bulk_enter(operation, 0);
            break;
        case BULK_DONE:
            operation_finish(operation, 0);
            return 0;
        default:
            assert(step < 0);
            log_debug("a bulk command failed", log_str("command", command_name(operation->command.type)),
                      log_str("phase", bulk_phase(operation)->name),
                      log_str("error", store_error_text(step)));
            return step;
        }
    }
    return 0;
}

void bulk_answered(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;
    const struct bulk_phase *phase;
    int step = err;

    MAGIC_CHECK(operation, OPERATION_MAGIC);
    phase = bulk_phase(operation);
    if (err == 0)
        step = phase->take(operation, reply);
    else if (err == -ESTALE && phase->stale)
        step = phase->stale(operation);
    assert(step != BULK_SENT);
    err = bulk_run(operation, step);
    if (err < 0)
        operation_finish(operation, err);
}

int bulk_start(struct operation *operation, const struct bulk_phase *const *phases)
{
    int step;

    operation->bulk->phases = phases;
    step = bulk_enter(operation, 0);
    if (step == BULK_SEND)
        step = bulk_send(operation);
    assert(step <= BULK_SENT); /* an operation is never answered inside its start */
    return step;
}

int bulk_call(const struct args *args, struct operation *operation, const char *script)
{
    return args_call(args, operation, script, bulk_answered);
}

/* Nothing has changed since it was sent but the tiers. */
static int bulk_send_again(struct operation *operation)
{
    int step = bulk_send(operation);

    assert(step <= BULK_SENT);
    return step;
}

int bulk_call_with_chain(const struct args *args, struct operation *operation, const char *script)
{
    return args_call_with_chain(args, operation, script, bulk_answered, bulk_send_again);
}

int bulk_command(const struct args *args, struct operation *operation)
{
    return args_command(args, operation, bulk_answered);
}

bool bulk_decides_stale(const struct operation *operation)
{
    return operation->bulk && bulk_phase(operation)->stale;
}

int bulk_add_name(struct bulk *bulk, struct slice name)
{
    const char *copy;

    if (bulk->names.count == bulk->names.room) {
        size_t room = bulk->names.room ? bulk->names.room * 2 : 256;
        const char **items;

        if (room > REDIS_PODS_MAX)
            return -E2BIG;
        items = realloc(bulk->names.items, room * sizeof(*items));
        if (!items)
            return -ENOMEM;
        bulk->names.items = items;
        bulk->names.room = room;
    }
    copy = arena_copy(&bulk->keep, name.data, name.len);
    if (!copy)
        return -ENOMEM;
    bulk->names.items[bulk->names.count++] = copy;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void bulk_sort_names(struct bulk *bulk)
{
    const char **items = bulk->names.items;
    size_t kept = 0;

    if (bulk->names.count)
        qsort(items, bulk->names.count, sizeof(*items), compare_names);
    for (size_t i = 0; i < bulk->names.count; i++) {
        if (i == 0 || strcmp(items[i], items[i - 1]) != 0)
            items[kept++] = items[i];
    }
    bulk->names.count = kept;
    bulk->names.at = 0;
}
