/*
 * observe.c - which events follow from an answer. One place for all who use the store.
 */
#include "store/feed.h"

struct observed {
    struct store *store;
    struct command command;
    store_done_fn done;
    void *arg;
};

static void observe_call(struct feed *feed, enum event_kind kind, const struct call_info *call)
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

static void observe_refusal(struct feed *feed, const struct command *command)
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

static void observe_pod(struct feed *feed, enum event_kind kind, const char *pod, const char *tier,
                        const char *reason)
{
    const struct event event = {.kind = kind, .pod = pod, .tier = tier, .reason = reason};

    feed_publish(feed, &event);
}

/* Whether the call found another pod or not: the one that it had is put aside. */
static void observe_move(struct feed *feed, const struct command *command, const struct result *result)
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

    if (result->outcome == OUTCOME_OK && !result->move.was_moved)
        return;
    observe_pod(feed, EVENT_DRAINING, command->move.from_pod, NULL, "put_aside");
    feed_publish(feed, result->outcome == OUTCOME_OK ? &moved : &refused);
}

static void observe_pods(struct feed *feed, const char *reason, size_t count)
{
    const struct event event = {.kind = EVENT_PODS_CHANGED, .reason = reason, .count = count};

    if (count > 0)
        feed_publish(feed, &event);
}

static void observe_adopted(struct feed *feed, const char *pod, const struct name_array *adopted)
{
    for (size_t i = 0; i < adopted->count; i++) {
        const struct event event = {
            .kind = EVENT_ALLOCATED, .call_sid = adopted->names[i], .pod = pod, .reason = "adopted"};

        feed_publish(feed, &event);
    }
}

/* By the router that carries them, which names the pod of each. */
static void observe_readopted(struct feed *feed, const struct command *command,
                              const struct name_array *adopted)
{
    for (size_t i = 0; i < adopted->count; i++) {
        struct name_array one = {.names = &adopted->names[i], .count = 1};
        size_t at = 0;

        while (at < command->renew.count && strcmp(command->renew.call_sids[at], adopted->names[i]) != 0)
            at++;
        observe_adopted(feed, at < command->renew.count ? command->renew.pods[at] : NULL, &one);
    }
}

/* Calls that ended on the way are told by themselves: see feed_ended. */
static void observe(struct feed *feed, const struct command *command, const struct result *result)
{
    if (command->type == COMMAND_ALLOCATE && result->outcome == OUTCOME_NO_PODS)
        observe_refusal(feed, command);
    if (command->type == COMMAND_MOVE_CALL && result->outcome == OUTCOME_NO_PODS)
        observe_move(feed, command, result);
    if (result->outcome != OUTCOME_OK)
        return;
    switch (command->type) {
    case COMMAND_ALLOCATE:
        if (!result->allocate.was_existing)
            observe_call(feed, EVENT_ALLOCATED, &result->allocate.call);
        break;
    case COMMAND_RELEASE:
    case COMMAND_LEAVE:
    case COMMAND_UNDO:
        observe_call(feed, EVENT_RELEASED, &result->release.call);
        break;
    case COMMAND_HEARTBEAT:
        observe_adopted(feed, command->heartbeat.pod, &result->heartbeat.adopted);
        break;
    case COMMAND_RENEW:
        observe_readopted(feed, command, &result->renew.adopted);
        break;
    case COMMAND_DRAIN:
        observe_pod(feed, EVENT_DRAINING, command->drain.pod, NULL, NULL);
        break;
    case COMMAND_UNDRAIN:
        observe_pod(feed, EVENT_UNDRAINED, command->undrain.pod, NULL, NULL);
        break;
    case COMMAND_MOVE_CALL:
        observe_move(feed, command, result);
        break;
    case COMMAND_POD_SEEN:
        if (result->pod_seen.is_new)
            observe_pod(feed, EVENT_POD_JOINED, command->pod_seen.pod.name, result->pod_seen.tier, NULL);
        break;
    case COMMAND_POD_GONE:
        observe_pod(feed, EVENT_POD_LEFT, command->pod_gone.pod, NULL, NULL);
        break;
    case COMMAND_SYNC:
        observe_pods(feed, "added", result->sync.added);
        observe_pods(feed, "removed", result->sync.removed);
        observe_pods(feed, "changed", result->sync.changed);
        break;
    case COMMAND_SWEEP:
        for (size_t i = 0; i < result->sweep.gone.count; i++)
            observe_pod(feed, EVENT_POD_LEFT, result->sweep.gone.names[i], NULL, "silent");
        observe_pods(feed, "recovered", result->sweep.recovered);
        break;
    case COMMAND_REBALANCE:
        observe_pods(feed, "moved", result->rebalance.moved);
        break;
    default:
        break;
    }
}

static void observe_answered(void *arg, int err, const struct result *result)
{
    const struct observed *observed = arg;

    /* The answer is gone when `done` returns, and the feed may be gone already. */
    if (err == 0 && observed->store->feed && feed_is_wanted(observed->store->feed))
        observe(observed->store->feed, &observed->command, result);
    observed->done(observed->arg, err, result);
}

int observe_execute(struct store *store, const struct command *command, struct arena *arena,
                    store_done_fn done, void *arg)
{
    struct observed *observed = NULL;

    if (!command_only_looks(command->type) && command->type != COMMAND_PRESENT && feed_is_wanted(store->feed))
        observed = arena_alloc(arena, sizeof(*observed));
    /* Without memory there is no event, but still an answer. */
    if (!observed)
        return store->ops->execute(store, command, arena, done, arg);
    *observed = (struct observed){store, *command, done, arg};
    return store->ops->execute(store, command, arena, observe_answered, observed);
}
