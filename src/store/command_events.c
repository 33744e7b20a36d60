/*
 * command_events.c - makes the events of a command from its result.
 */
#include "store/feed.h"

enum { AWAITED_MAGIC = 0x61776169 };

/* A command whose answer makes events. */
struct awaited {
    unsigned magic; /* until it is answered */
    struct store *store;
    struct command command;
    store_done_fn done;
    void *arg;
};

static void publish_call(struct feed *feed, enum event_kind kind, const struct call_info *call)
{
    const struct event event = {
        .kind = kind,
        .call_sid = call->call_sid,
        .pod = call->pod,
        .pool = call->pool,
        .merchant_id = call->merchant_id,
        .provider = call->provider,
    };

    feed_publish(feed, &event);
}

static void publish_refusal(struct feed *feed, const struct command *command)
{
    const struct event event = {
        .kind = EVENT_REFUSED,
        .call_sid = command->allocate.call_sid,
        .merchant_id = command->allocate.merchant_id,
        .provider = command->allocate.provider,
        .reason = "no_pods",
    };

    feed_publish(feed, &event);
}

static void publish_waiting(struct feed *feed, const struct waiting_call *call, const char *from_pod)
{
    const struct event event = {
        .kind = EVENT_WAITING,
        .call_sid = call->call_sid,
        .from_pod = from_pod,
        .merchant_id = call->merchant_id,
        .provider = call->provider,
    };

    feed_publish(feed, &event);
}

static void publish_wait_ended(struct feed *feed, const char *call_sid, const char *merchant_id,
                               const char *provider, enum wait_end how)
{
    const struct event event = {
        .kind = EVENT_WAIT_ENDED,
        .call_sid = call_sid,
        .merchant_id = merchant_id,
        .provider = provider,
        .reason = wait_end_name(how),
    };

    feed_publish(feed, &event);
}

static void publish_pod(struct feed *feed, enum event_kind kind, const char *pod, const char *tier,
                        const char *reason)
{
    const struct event event = {.kind = kind, .pod = pod, .tier = tier, .reason = reason};

    feed_publish(feed, &event);
}

static void publish_pods(struct feed *feed, const char *reason, size_t count)
{
    const struct event event = {.kind = EVENT_PODS_CHANGED, .reason = reason, .count = count};

    if (count > 0)
        feed_publish(feed, &event);
}

static void publish_adopted(struct feed *feed, const char *pod, const struct name_array *adopted)
{
    for (size_t i = 0; i < adopted->count; i++) {
        const struct event event = {
            .kind = EVENT_ALLOCATED, .call_sid = adopted->names[i], .pod = pod, .reason = "adopted"};

        feed_publish(feed, &event);
    }
}

static void events_nothing(struct feed *feed UNUSED, const struct command *command UNUSED,
                           const struct result *result UNUSED)
{
}

static void events_allocate(struct feed *feed, const struct command *command, const struct result *result)
{
    if (result->outcome == OUTCOME_NO_PODS && result->allocate.has_ended)
        publish_wait_ended(feed, command->allocate.call_sid, result->allocate.refusal->merchant_id,
                           result->allocate.refusal->provider, WAIT_TIMED_OUT);
    else if (result->outcome == OUTCOME_NO_PODS)
        publish_refusal(feed, command);
    else if (result->outcome == OUTCOME_WAITING && result->allocate.has_joined)
        publish_waiting(feed, &result->allocate.waiting, NULL);
    else if (result->outcome == OUTCOME_OK && !result->allocate.was_existing)
        publish_call(feed, EVENT_ALLOCATED, &result->allocate.call);
}

static void events_hold(struct feed *feed, const struct command *command UNUSED, const struct result *result)
{
    if (result->outcome == OUTCOME_OK && result->hold.was_taken)
        publish_call(feed, EVENT_ALLOCATED, &result->hold.call);
}

static void events_release(struct feed *feed, const struct command *command UNUSED,
                           const struct result *result)
{
    const struct call_info *call = &result->release.call;

    if (release_ends_wait(result))
        publish_wait_ended(feed, call->call_sid, call->merchant_id, call->provider, WAIT_ABANDONED);
    else if (!result->release.is_kept)
        publish_call(feed, EVENT_RELEASED, call);
}

static void events_heartbeat(struct feed *feed, const struct command *command, const struct result *result)
{
    publish_adopted(feed, command->heartbeat.pod, &result->heartbeat.adopted);
}

static void events_keep(struct feed *feed, const struct command *command UNUSED, const struct result *result)
{
    for (size_t i = 0; i < result->keep.count; i++) {
        const struct kept_call *kept = &result->keep.calls[i];

        if (kept->answer == KEEP_TIMED_OUT && kept->ended_now)
            publish_wait_ended(feed, kept->call.call_sid, kept->call.merchant_id, kept->call.provider,
                               WAIT_TIMED_OUT);
    }
}

static void events_serve(struct feed *feed, const struct command *command UNUSED, const struct result *result)
{
    for (size_t i = 0; i < result->serve.ended_count; i++) {
        const struct ended_wait *wait = &result->serve.ended[i];

        publish_wait_ended(feed, wait->call_sid, wait->merchant_id, wait->provider, wait->how);
    }
}

/* The router that carries the calls names the pod of each. */
static void events_renew(struct feed *feed, const struct command *command, const struct result *result)
{
    const struct name_array *adopted = &result->renew.adopted;

    for (size_t i = 0; i < adopted->count; i++) {
        struct name_array one = {.names = &adopted->names[i], .count = 1};
        size_t at = 0;

        while (at < command->renew.count && strcmp(command->renew.call_sids[at], adopted->names[i]) != 0)
            at++;
        publish_adopted(feed, at < command->renew.count ? command->renew.pods[at] : NULL, &one);
    }
}

static void events_drain(struct feed *feed, const struct command *command, const struct result *result UNUSED)
{
    publish_pod(feed, EVENT_DRAINING, command->drain.pod, NULL, NULL);
}

static void events_undrain(struct feed *feed, const struct command *command,
                           const struct result *result UNUSED)
{
    publish_pod(feed, EVENT_UNDRAINED, command->undrain.pod, NULL, NULL);
}

static void events_scale(struct feed *feed, const struct command *command UNUSED, const struct result *result)
{
    for (size_t i = 0; i < result->scale.drained.count; i++)
        publish_pod(feed, EVENT_DRAINING, result->scale.drained.names[i], NULL, "surplus");
    for (size_t i = 0; i < result->scale.undrained.count; i++)
        publish_pod(feed, EVENT_UNDRAINED, result->scale.undrained.names[i], NULL, NULL);
}

/* The call's old pod is put aside, whether the call found another pod or not, unless only the call leaves. */
static void events_move_call(struct feed *feed, const struct command *command, const struct result *result)
{
    const struct call_info *call = &result->move.call;
    const struct event moved = {
        .kind = EVENT_MOVED,
        .call_sid = call->call_sid,
        .pod = call->pod,
        .from_pod = command->move.from_pod,
        .pool = call->pool,
        .merchant_id = call->merchant_id,
        .provider = call->provider,
    };
    const struct event refused = {
        .kind = EVENT_REFUSED,
        .call_sid = command->move.call_sid,
        .from_pod = command->move.from_pod,
        .reason = "no_pods",
    };

    if (result->outcome != OUTCOME_NO_PODS && !result->move.was_moved)
        return;
    if (!command->move.spares_pod)
        publish_pod(feed, EVENT_DRAINING, command->move.from_pod, NULL, "put_aside");
    if (result->outcome == OUTCOME_WAITING)
        publish_waiting(feed, &result->move.waiting, command->move.from_pod);
    else
        feed_publish(feed, result->outcome == OUTCOME_OK ? &moved : &refused);
}

static void events_pod_seen(struct feed *feed, const struct command *command, const struct result *result)
{
    if (result->pod_seen.is_new)
        publish_pod(feed, EVENT_POD_JOINED, command->pod_seen.pod.name, result->pod_seen.tier, NULL);
}

static void events_pod_gone(struct feed *feed, const struct command *command,
                            const struct result *result UNUSED)
{
    publish_pod(feed, EVENT_POD_LEFT, command->pod_gone.pod, NULL, NULL);
}

static void events_sync(struct feed *feed, const struct command *command UNUSED, const struct result *result)
{
    publish_pods(feed, "added", result->sync.added);
    publish_pods(feed, "removed", result->sync.removed);
    publish_pods(feed, "changed", result->sync.changed);
}

static void events_sweep(struct feed *feed, const struct command *command UNUSED, const struct result *result)
{
    for (size_t i = 0; i < result->sweep.gone.count; i++)
        publish_pod(feed, EVENT_POD_LEFT, result->sweep.gone.names[i], NULL, "silent");
    publish_pods(feed, "recovered", result->sweep.recovered);
}

static void events_rebalance(struct feed *feed, const struct command *command UNUSED,
                             const struct result *result)
{
    publish_pods(feed, "moved", result->rebalance.moved);
}

typedef void (*events_fn)(struct feed *feed, const struct command *command, const struct result *result);

static events_fn events_of(enum command_type type)
{
#define EVENTS(TYPE, name, kind, leader, check, records, ends, events, ...)                                  \
    [COMMAND_##TYPE] = events_##events,
    static const events_fn functions[COMMAND_TYPES] = {COMMAND_TABLE(EVENTS)};

    assert(type < COMMAND_TYPES);
    return functions[type];
}

/* Publishes what a command has done. feed_ended publishes the calls that it ended. */
static void publish_events(struct feed *feed, const struct command *command, const struct result *result)
{
    if (result->outcome == OUTCOME_OK || result->outcome == OUTCOME_NO_PODS ||
        result->outcome == OUTCOME_WAITING)
        events_of(command->type)(feed, command, result);
}

static void publish_answered(void *arg, int err, const struct result *result)
{
    struct awaited *awaited = arg;

    MAGIC_CHECK(awaited, AWAITED_MAGIC);
    awaited->magic = 0; /* a command is answered once */
    /* The result is invalid after `done`, and the feed may be closed by now. */
    if (err == 0 && awaited->store->feed && feed_is_wanted(awaited->store->feed))
        publish_events(awaited->store->feed, &awaited->command, result);
    awaited->done(awaited->arg, err, result);
}

int feed_execute(struct store *store, const struct command *command, struct arena *arena, store_done_fn done,
                 void *arg)
{
    struct awaited *awaited = NULL;

    if (events_of(command->type) != events_nothing && feed_is_wanted(store->feed))
        awaited = arena_alloc(arena, sizeof(*awaited));
    /* Without memory there is no event, but still an answer. */
    if (!awaited)
        return store->ops->execute(store, command, arena, done, arg);
    *awaited = (struct awaited){AWAITED_MAGIC, store, *command, done, arg};
    return store->ops->execute(store, command, arena, publish_answered, awaited);
}
