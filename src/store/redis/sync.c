/*
 * sync.c - the command sync, phase by phase.
 *
 * It reads the tiers; checks the types of the pools' lists; imports pods and calls that only the
 * first implementation knows, if that may have led until now; finds the pods of this source that were
 * not observed and are not kept, and gives them no call any more; sends the observations; removes these
 * pods; removes calls without a record; lists all pods, and puts each where it belongs, which repairs edits
 * by hand.
 */
#include <stdlib.h>

#include "base/map.h"
#include "store/redis/answer.h"
#include "store/redis/bulk.h"

struct sync {
    size_t observed;  /* observations before it have been sent and answered */
    struct map names; /* of all observations, to be looked up while all pods go by */
    struct map_node *nodes;
};

static void sync_release(void *state)
{
    struct sync *sync = state;

    map_release(&sync->names);
    free(sync->nodes);
}

/*
 * Lists of the wrong type, as a tier configuration that was edited by hand leaves behind, start
 * anew.
 */

static int check_send(struct operation *operation)
{
    struct args args;

    args_begin_fenced(&args, operation, &operation->bulk->scratch, SCRIPT_TIERS_ARGS);
    args_add_text(&args, SCRIPT_TIERS_CHECK);
    return bulk_call(&args, operation, SCRIPT_TIERS);
}

static int check_take(struct operation *operation, const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER ? BULK_NEXT : operation_unexpected(operation);
}

static const struct bulk_phase check_lists = {
    .name = "check the lists", .send = check_send, .take = check_take};

/* Pods and calls that another program has left in the store */

static int import_begin(struct operation *operation)
{
    if (!operation->command.sync.imports)
        return BULK_NEXT;
    return bulk_walk_begin(operation, SCRIPT_IMPORT, pod_source_name(operation->command.sync.source));
}

static const struct bulk_phase import = {
    .name = "import", .begin = import_begin, .send = bulk_walk_send, .take = bulk_walk_take};

/* The observations */

/* A pod that is kept has no observation that could be sent. */
static void skip_kept(const struct command *command, struct sync *sync)
{
    while (sync->observed < command->sync.count && command->sync.pods[sync->observed].is_kept)
        sync->observed++;
}

static int observe_send(struct operation *operation)
{
    const struct command *command = &operation->command;
    struct sync *sync = operation->bulk->state;
    size_t left = REDIS_SEEN_BATCH;
    struct args args;

    skip_kept(command, sync);
    if (sync->observed >= command->sync.count)
        return BULK_NEXT;
    args_begin_fenced(&args, operation, &operation->bulk->scratch,
                      SCRIPT_SEEN_ARGS + args_chain_room(operation->store) + SCRIPT_SEEN_EACH * left);
    args_add_u64(&args, operation->store->core.heartbeat_ttl_ms);
    args_add_text(&args, ""); /* no registrations */
    args_add_rescue(&args, operation->store);
    for (size_t i = sync->observed; i < command->sync.count && left > 0; i++) {
        if (command->sync.pods[i].is_kept)
            continue;
        args_add_seen(&args, &command->sync.pods[i]);
        left--;
    }
    return bulk_call_with_chain(&args, operation, SCRIPT_SEEN);
}

/* False: the same pod must be sent again. */
static bool observe_take_one(struct operation *operation, struct answer *answer)
{
    struct result *result = operation->result;
    struct slice what = answer_slice(answer);

    (void)answer_slice(answer);
    result->sync.added += slice_equals(what, SCRIPT_SEEN_NEW);
    result->sync.changed +=
        slice_equals(what, SCRIPT_SEEN_CHANGED) || slice_equals(what, SCRIPT_SEEN_CHANGED_AND_LEFT);
    result->sync.removed +=
        slice_equals(what, SCRIPT_SEEN_LEFT) || slice_equals(what, SCRIPT_SEEN_CHANGED_AND_LEFT);
    answer_ended(answer, answer_u64(answer), &result->sync.ended);
    return !slice_equals(what, SCRIPT_SEEN_MORE);
}

static int observe_take(struct operation *operation, const redisReply *reply)
{
    struct sync *sync = operation->bulk->state;
    bool is_over = false;
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    while (answer_left(&answer) > 0 && !is_over) {
        is_over = !observe_take_one(operation, &answer);
        if (answer.err || is_over)
            break;
        skip_kept(&operation->command, sync);
        sync->observed++;
    }
    /* It has told of one pod at least, and of no more than it was asked for. */
    if (answer.err == -EIO || (answer.err == 0 && (answer.at == 0 || answer_left(&answer) > 0)) ||
        sync->observed > operation->command.sync.count)
        return operation_unexpected(operation);
    return answer.err ? answer.err : BULK_SEND;
}

static const struct bulk_phase observe = {
    .name = "send the observations", .send = observe_send, .take = observe_take};

/* The pods of this source that were not observed */

static int index_observed(const struct command *command, struct sync *sync)
{
    map_init(&sync->names);
    sync->nodes = calloc(command->sync.count + 1, sizeof(*sync->nodes));
    if (!sync->nodes)
        return -ENOMEM;
    for (size_t i = 0; i < command->sync.count; i++) {
        const char *name = command->sync.pods[i].name;

        if (map_get(&sync->names, name, strlen(name)))
            continue;
        if (map_reserve(&sync->names) < 0)
            return -ENOMEM;
        map_put(&sync->names, &sync->nodes[i], name, strlen(name));
    }
    return 0;
}

static int keep_unobserved(struct operation *operation, struct slice name, struct slice text)
{
    const struct sync *sync = operation->bulk->state;
    struct pod_record record;

    /* A record without a source that can be read is deleted by place.lua, in the last phase. */
    if (pod_record_read(text, &record) < 0)
        return 0;
    if (!slice_equals(record.source, pod_source_name(operation->command.sync.source)) ||
        map_get(&sync->names, name.data, name.len))
        return 0;
    return bulk_add_name(operation->bulk, name);
}

static int find_begin(struct operation *operation)
{
    int err;

    /* Nobody lists pods that register themselves, so that none of them is missing. */
    if (operation->command.sync.source == POD_SOURCE_API)
        return BULK_NEXT;
    err = index_observed(&operation->command, operation->bulk->state);
    return err < 0 ? err : bulk_scan_begin(operation, keep_unobserved);
}

static const struct bulk_phase find_unobserved = {
    .name = "find the pods to remove", .begin = find_begin, .send = bulk_scan_send, .take = bulk_scan_take};

static int gone_send(struct operation *operation, const char *how)
{
    struct bulk *bulk = operation->bulk;
    size_t end = (size_t)min_u64(bulk->names.count, bulk->names.at + (uint64_t)REDIS_SEEN_BATCH);
    struct args args;

    if (bulk->names.at >= bulk->names.count)
        return BULK_NEXT;
    args_begin_fenced(&args, operation, &bulk->scratch,
                      SCRIPT_GONE_ARGS + args_chain_room(operation->store) + end - bulk->names.at);
    args_add_text(&args, pod_source_name(operation->command.sync.source));
    args_add_text(&args, how);
    args_add_rescue(&args, operation->store);
    for (size_t i = bulk->names.at; i < end; i++)
        args_add_text(&args, bulk->names.items[i]);
    return bulk_call_with_chain(&args, operation, SCRIPT_GONE);
}

/*
 * Before the first call looks for another pod: none may go to a pod that is about to be removed.
 */

static int warn_begin(struct operation *operation)
{
    bulk_sort_names(operation->bulk);
    return BULK_SEND;
}

static int warn_send(struct operation *operation)
{
    return gone_send(operation, SCRIPT_GONE_WILL_BE);
}

static int warn_take(struct operation *operation, const redisReply *reply)
{
    struct bulk *bulk = operation->bulk;

    /* Two numbers for each pod: none has lost a call yet. */
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        reply->elements / 2 > bulk->names.count - bulk->names.at)
        return operation_unexpected(operation);
    bulk->names.at += reply->elements / 2;
    return BULK_SEND;
}

static const struct bulk_phase warn_unobserved = {
    .name = "close the pods to remove", .begin = warn_begin, .send = warn_send, .take = warn_take};

static int remove_begin(struct operation *operation)
{
    struct bulk *bulk = operation->bulk;

    bulk->names.at = 0;
    if (operation->command.sync.spares_calls && bulk->names.count > 0 &&
        name_array_init(&operation->result->sync.absent, operation->arena, bulk->names.count) < 0)
        return -ENOMEM;
    return BULK_SEND;
}

static int remove_send(struct operation *operation)
{
    return gone_send(operation,
                     operation->command.sync.spares_calls ? SCRIPT_GONE_IS_ABSENT : SCRIPT_GONE_IS_GONE);
}

static void remove_take_one(struct operation *operation, struct answer *answer)
{
    struct bulk *bulk = operation->bulk;
    struct result *result = operation->result;
    uint64_t what = answer_u64(answer);

    answer_ended(answer, answer_u64(answer), &result->sync.ended);
    if (!answer->err && bulk->names.at == bulk->names.count)
        answer->err = -EIO; /* it tells of more pods than it was asked for */
    if (answer->err)
        return;
    result->sync.removed += what == SCRIPT_GONE_REMOVED;
    if (what == SCRIPT_GONE_STAYS) {
        struct name_array *absent = &result->sync.absent;

        /* Without spares_calls no pod stays. */
        answer->err = absent->names
                          ? name_array_add(absent, operation->arena, bulk->names.items[bulk->names.at])
                          : -EIO;
    }
    bulk->names.at += what != SCRIPT_GONE_MORE;
}

static int remove_take(struct operation *operation, const redisReply *reply)
{
    struct answer answer;

    answer_init(&answer, reply, operation->arena);
    while (answer_left(&answer) > 0)
        remove_take_one(operation, &answer);
    if (answer.err == -EIO || (answer.err == 0 && answer.at == 0))
        return operation_unexpected(operation);
    return answer.err ? answer.err : BULK_SEND;
}

static const struct bulk_phase remove_unobserved = {
    .name = "remove pods", .begin = remove_begin, .send = remove_send, .take = remove_take};

/* Calls without a record */

static int tidy_begin(struct operation *operation)
{
    return bulk_walk_begin(operation, SCRIPT_TIDY, "");
}

static const struct bulk_phase tidy_calls = {
    .name = "tidy the calls", .begin = tidy_begin, .send = bulk_walk_send, .take = bulk_walk_take};

/* All pods that are left: each goes where it belongs */

static int list_begin(struct operation *operation)
{
    operation->bulk->names.count = 0;
    return bulk_scan_begin(operation, bulk_keep_name);
}

static const struct bulk_phase list_pods = {
    .name = "list the pods", .begin = list_begin, .send = bulk_scan_send, .take = bulk_scan_take};

static int settle_begin(struct operation *operation)
{
    return bulk_place_begin(operation, SCRIPT_PLACE_AND_MEND);
}

static int settle_take(struct operation *operation, const redisReply *reply)
{
    int step = bulk_place_take(operation, reply);

    /* Some pods are in doubt: that is certain only a little later. */
    if (step >= 0 && reply->element[0]->integer > 0)
        operation->result->sync.look_again_ms = REDIS_MEND_AGAIN_MS;
    return step;
}

static const struct bulk_phase settle_pods = {
    .name = "settle the pods", .begin = settle_begin, .send = bulk_place_send, .take = settle_take};

static const struct bulk_phase *const sync_phases[] = {
    &bulk_read_tiers,
    &check_lists,
    &import,
    &find_unobserved,
    &warn_unobserved,
    &observe,
    &remove_unobserved,
    &tidy_calls,
    &list_pods,
    &settle_pods,
    NULL,
};

int operation_sync(struct operation *operation)
{
    int err = bulk_new(operation, sizeof(struct sync), sync_release);

    return err < 0 ? err : bulk_start(operation, sync_phases);
}
