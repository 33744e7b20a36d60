/*
 * scale.c - the command scale, and status with its sets: both count, and then look at every pod.
 *
 * Which pods are drained is decided by core/autoscale_sets.c. A script drains those that still may be.
 */
#include <stdlib.h>

#include "core/autoscale.h"
#include "core/page.h"
#include "store/redis/answer.h"
#include "store/redis/bulk.h"

struct scale {
    struct result status;
    struct set_tally tally;
    struct scale_pod *pods; /* only of the command scale; by name */
    size_t count;
    size_t room;
    enum scale_action *actions; /* parallel to the pods */
    size_t at;                  /* actions before it have been sent */
    size_t sent_from;           /* those of the script under way */
};

static void scale_release(void *state)
{
    struct scale *scale = state;

    free(scale->pods);
    free(scale->actions);
}

static bool is_status(const struct operation *operation)
{
    return operation->command.type == COMMAND_STATUS;
}

/* The counts */

static int count_begin(struct operation *operation)
{
    struct scale *scale;
    int err = bulk_replace_state(operation, sizeof(*scale), scale_release);

    if (err < 0)
        return err;
    scale = operation->bulk->state;
    scale->tally.arena = is_status(operation) ? operation->arena : &operation->bulk->keep;
    return BULK_SEND;
}

static int count_take(struct operation *operation, const redisReply *reply)
{
    struct scale *scale = operation->bulk->state;
    int err = status_read(operation, reply, scale->tally.arena, &scale->status);

    return err < 0 ? err : BULK_NEXT;
}

static const struct bulk_phase scale_count = {
    .name = "count the pods", .begin = count_begin, .send = bulk_status_send, .take = count_take};

/* All pods */

static int keep_pod(struct operation *operation, const struct scale_pod *pod)
{
    struct scale *scale = operation->bulk->state;
    const char *name = arena_strdup(&operation->bulk->keep, pod->name);

    if (!name)
        return -ENOMEM;
    if (scale->count == scale->room) {
        size_t room = scale->room ? scale->room * 2 : 256;
        struct scale_pod *pods = room > REDIS_PODS_MAX ? NULL : realloc(scale->pods, room * sizeof(*pods));

        if (!pods)
            return -ENOMEM;
        scale->pods = pods;
        scale->room = room;
    }
    scale->pods[scale->count] = *pod;
    scale->pods[scale->count].name = name;
    scale->pods[scale->count++].tier = NULL; /* it is in the scratch arena, and nobody needs it */
    return 0;
}

static int read_pod(struct operation *operation, const struct page_pod *page_pod)
{
    struct scale *scale = operation->bulk->state;
    const struct pod_info *info = &page_pod->info;
    const struct scale_pod pod = {.name = info->name,
                                  .tier = info->tier,
                                  .state = info->state,
                                  .has_calls = info->calls.count > 0,
                                  .is_terminating = info->is_terminating,
                                  .is_surplus = info->is_surplus};
    int err = set_tally_add(&scale->tally, &pod);

    return err < 0 || is_status(operation) ? err : keep_pod(operation, &pod);
}

static int read_begin(struct operation *operation)
{
    return bulk_pages_begin(operation, read_pod);
}

static int read_take(struct operation *operation, const redisReply *reply)
{
    struct scale *scale = operation->bulk->state;
    int step = bulk_pages_take(operation, reply);

    if (step != BULK_NEXT)
        return step;
    set_tally_finish(&scale->tally, &scale->status);
    if (is_status(operation))
        *operation->result = scale->status;
    return BULK_NEXT;
}

static const struct bulk_phase scale_read_pods = {
    .name = "read the pods", .begin = read_begin, .send = bulk_pages_send, .take = read_take};

/* The drains */

static int drain_begin(struct operation *operation)
{
    struct scale *scale = operation->bulk->state;
    struct result *result = operation->result;
    size_t limit = (size_t)min_u64(step_limit(operation->command.scale.limit), scale->count);
    size_t planned = 0;
    int err = name_array_init(&result->scale.drained, operation->arena, limit);

    if (err == 0)
        err = name_array_init(&result->scale.undrained, operation->arena, limit);
    scale->actions = calloc(scale->count + 1, sizeof(*scale->actions));
    if (err < 0 || !scale->actions)
        return -ENOMEM;
    for (size_t i = 0; i < scale->count && !result->scale.more; i++) {
        enum scale_action action =
            autoscale_action(&scale->status, &scale->pods[i], operation->command.scale.by_set);

        result->scale.more = action != SCALE_NOTHING && planned == limit;
        if (action == SCALE_NOTHING || planned == limit)
            continue;
        scale->actions[i] = action;
        planned++;
    }
    return BULK_SEND;
}

/* The next pod with something to do, from `at`; count: there is none. */
static size_t next_action(const struct scale *scale, size_t at)
{
    while (at < scale->count && scale->actions[at] == SCALE_NOTHING)
        at++;
    return at;
}

static int drain_send(struct operation *operation)
{
    struct scale *scale = operation->bulk->state;
    size_t at = next_action(scale, scale->at);
    struct args args;

    scale->sent_from = at;
    if (at == scale->count)
        return BULK_NEXT;
    args_begin_fenced(&args, operation, &operation->bulk->scratch,
                      SCRIPT_SCALE_ARGS + SCRIPT_SCALE_EACH * REDIS_SEEN_BATCH);
    for (size_t sent = 0; sent < REDIS_SEEN_BATCH && at < scale->count; sent++) {
        args_add_text(&args, scale->pods[at].name);
        args_add_text(&args, scale->actions[at] == SCALE_DRAIN ? SCRIPT_SCALE_DRAIN : SCRIPT_SCALE_UNDRAIN);
        at = next_action(scale, at + 1);
    }
    scale->at = at;
    return bulk_call(&args, operation, SCRIPT_SCALE);
}

static int drain_take(struct operation *operation, const redisReply *reply)
{
    struct scale *scale = operation->bulk->state;
    struct result *result = operation->result;
    size_t at = scale->sent_from;
    struct answer answer;

    answer_init(&answer, reply, &operation->bulk->scratch);
    for (; answer_left(&answer) > 0 && at < scale->at; at = next_action(scale, at + 1)) {
        struct name_array *names =
            scale->actions[at] == SCALE_DRAIN ? &result->scale.drained : &result->scale.undrained;

        if (answer_u64(&answer) && name_array_add(names, operation->arena, scale->pods[at].name) < 0)
            return -ENOMEM;
    }
    return answer.err ? operation_checked(operation, answer.err) : BULK_SEND;
}

/* Other tiers want other numbers: the next run of the leader begins with these. */
static int drain_stale(struct operation *operation UNUSED)
{
    return BULK_DONE;
}

static const struct bulk_phase scale_drain = {
    .name = "drain pods", .begin = drain_begin, .send = drain_send, .take = drain_take, .stale = drain_stale};

int operation_scale(struct operation *operation)
{
    static const struct bulk_phase *const phases[] = {&bulk_read_tiers, &scale_count, &scale_read_pods,
                                                      &scale_drain, NULL};
    int err = bulk_new(operation, 0, NULL);

    return err < 0 ? err : bulk_start(operation, phases);
}

int operation_status(struct operation *operation)
{
    static const struct bulk_phase *const phases[] = {&scale_count, &scale_read_pods, NULL};
    int err;

    if (!operation->command.status.with_sets)
        return operation_send(operation);
    err = bulk_new(operation, 0, NULL);
    return err < 0 ? err : bulk_start(operation, phases);
}
