/*
 * lead.c - takes part in the leader election, and starts and stops the manager with its result.
 */
#include "app/lead.h"

#include <stdlib.h>

#include "base/log.h"

struct lead {
    struct lead_settings settings;
    uv_loop_t *loop;
    struct store *store;
    struct metrics *metrics;
    struct api *api;
    struct redis_leader *lock; /* LEAD_BY_REDIS */
    struct k8s_lease *lease;   /* LEAD_BY_LEASE */
    struct redis_fence *fence; /* with a lease */
    struct manager *manager;   /* while we lead, and until it has stopped after that */
    bool is_wanted;            /* do we lead? */
    bool is_manager_stopping;
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

int lead_new(uv_loop_t *loop, const struct lead_settings *settings, struct store *store,
             struct metrics *metrics, struct api *api, struct lead **ret_lead)
{
    struct lead *lead = calloc(1, sizeof(*lead));

    if (!lead)
        return -ENOMEM;
    lead->settings = *settings;
    lead->loop = loop;
    lead->store = store;
    lead->metrics = metrics;
    lead->api = api;
    *ret_lead = lead;
    return 0;
}

static void lead_finish(void *arg)
{
    struct lead *lead = arg;
    void (*stopped)(void *arg) = lead->stopped;
    void *stopped_arg = lead->stopped_arg;

    if (lead->settings.has_redis)
        redis_store_set_guard(lead->store, NULL, NULL);
    free(lead);
    stopped(stopped_arg);
}

static void lead_lease_stopped(void *arg)
{
    struct lead *lead = arg;

    redis_fence_stop(TAKE(lead->fence), lead_finish, lead);
}

static int lead_settle(struct lead *lead);

static void lead_manager_stopped(void *arg)
{
    struct lead *lead = arg;

    lead->manager = NULL;
    lead->is_manager_stopping = false;
    /* Leadership may have come back while the manager was on its way out. */
    if (lead_settle(lead) < 0)
        log_error("the pool manager cannot be started");
}

/* Without its number a manager could only fail. The lock in Redis comes with one. */
static bool lead_can_begin(const struct lead *lead)
{
    return lead->is_wanted && (!lead->fence || redis_fence_number(lead->fence));
}

/* Makes what runs what should run: a manager if and only if we lead. */
static int lead_settle(struct lead *lead)
{
    if (lead->is_manager_stopping)
        return 0;
    if (lead->manager && (!lead->is_wanted || lead->is_stopping)) {
        lead->is_manager_stopping = true;
        manager_stop(lead->manager, lead_manager_stopped, lead);
        return 0;
    }
    if (lead->is_stopping) {
        if (lead->lock)
            redis_leader_stop(TAKE(lead->lock), lead_finish, lead);
        else if (lead->lease)
            k8s_lease_stop(TAKE(lead->lease), lead_lease_stopped, lead);
        else if (lead->fence)
            redis_fence_stop(TAKE(lead->fence), lead_finish, lead);
        else
            lead_finish(lead);
        return 0;
    }
    if (lead_can_begin(lead) && !lead->manager) {
        int err =
            manager_new(lead->loop, &lead->settings.manager, lead->store, lead->metrics, &lead->manager);

        return err < 0 ? err : manager_start(lead->manager);
    }
    return 0;
}

/* Only who gains or loses the lead tells it: all the others see the same change. */
static void lead_set_wanted(struct lead *lead, bool is_wanted)
{
    const struct event event = {.kind = is_wanted ? EVENT_LEADER_ELECTED : EVENT_LEADER_LOST};

    if (lead->is_wanted != is_wanted)
        store_publish(lead->store, &event);
    lead->is_wanted = is_wanted;
}

static void lead_changed(void *arg, bool is_leader, const char *leader)
{
    struct lead *lead = arg;

    if (lead->fence && !is_leader)
        redis_fence_forget(lead->fence);
    lead_set_wanted(lead, is_leader);
    api_set_leader(lead->api, is_leader, leader);
    if (lead_settle(lead) < 0)
        log_error("the pool manager cannot be started");
}

static bool lead_may_act(void *arg, uint64_t *ret_fence)
{
    const struct lead *lead = arg;

    if (lead->lock) {
        *ret_fence = redis_leader_fence(lead->lock);
        return redis_leader_leads(lead->lock);
    }
    *ret_fence = lead->fence ? redis_fence_number(lead->fence) : 0;
    return *ret_fence && lead->lease && k8s_lease_leads(lead->lease);
}

static int lead_by_redis(struct lead *lead)
{
    const struct redis_leader_settings settings = {
        .key_prefix = lead->settings.key_prefix,
        .identity = lead->settings.identity,
        .duration_ms = lead->settings.duration_ms,
        .renew_deadline_ms = lead->settings.renew_deadline_ms,
        .retry_ms = lead->settings.retry_ms,
        .on_change = lead_changed,
        .on_change_arg = lead,
    };

    return redis_leader_new(lead->loop, &settings, redis_store_link(lead->store), &lead->lock);
}

static void lead_lease_written(void *arg)
{
    struct lead *lead = arg;

    redis_fence_claim(lead->fence);
}

static void lead_lease_is_others(void *arg, const char *holder)
{
    struct lead *lead = arg;

    redis_fence_see(lead->fence, holder);
}

static void lead_fence_changed(void *arg)
{
    struct lead *lead = arg;

    if (!lead->is_stopping && lead_settle(lead) < 0)
        log_error("the pool manager cannot be started");
}

static int lead_by_lease(struct lead *lead)
{
    const struct redis_fence_settings fence_settings = {
        .key_prefix = lead->settings.key_prefix,
        .identity = lead->settings.identity,
        .duration_ms = lead->settings.duration_ms,
        .patience_ms = lead->settings.retry_ms,
        .on_change = lead_fence_changed,
        .on_change_arg = lead,
    };
    const struct k8s_lease_settings settings = {
        .namespace_name = lead->settings.lease_namespace,
        .name = lead->settings.lease_name,
        .identity = lead->settings.identity,
        .duration_ms = lead->settings.duration_ms,
        .renew_deadline_ms = lead->settings.renew_deadline_ms,
        .retry_ms = lead->settings.retry_ms,
        .on_change = lead_changed,
        .on_change_arg = lead,
        .on_written = lead_lease_written,
        .on_written_arg = lead,
        .on_others = lead_lease_is_others,
        .on_others_arg = lead,
    };
    int err = redis_fence_new(lead->loop, &fence_settings, redis_store_link(lead->store), &lead->fence);

    if (err < 0)
        return err;
    return k8s_lease_new(lead->loop, &settings, lead->settings.manager.kube.client, &lead->lease);
}

int lead_start(struct lead *lead)
{
    if (lead->settings.election == LEAD_ALWAYS) {
        lead_set_wanted(lead, true);
        api_set_leader(lead->api, true, lead->settings.identity);
        return lead_settle(lead);
    }
    if (lead->settings.has_redis)
        redis_store_set_guard(lead->store, lead_may_act, lead);
    return lead->settings.election == LEAD_BY_REDIS ? lead_by_redis(lead) : lead_by_lease(lead);
}

void lead_stop(struct lead *lead, void (*stopped)(void *arg), void *arg)
{
    lead->stopped = stopped;
    lead->stopped_arg = arg;
    lead->is_stopping = true;
    lead_set_wanted(lead, false);
    (void)lead_settle(lead);
}
