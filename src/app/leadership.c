/*
 * leadership.c - takes part in the leader election, and starts and stops the manager with its result.
 */
#include "app/leadership.h"

#include <stdlib.h>

#include "base/log.h"

struct leadership {
    struct leadership_settings settings;
    uv_loop_t *loop;
    struct store *store;
    struct metrics *metrics;
    struct api *api;
    struct redis_leader_lock *lock; /* LEADERSHIP_BY_REDIS */
    struct k8s_lease *lease;        /* LEADERSHIP_BY_LEASE */
    struct redis_fence *fence;      /* with a lease */
    struct manager *manager;        /* while we lead, and until it has stopped after that */
    bool is_wanted;                 /* do we lead? */
    bool is_manager_stopping;
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

int leadership_new(uv_loop_t *loop, const struct leadership_settings *settings, struct store *store,
                   struct metrics *metrics, struct api *api, struct leadership **ret_leadership)
{
    struct leadership *leadership = calloc(1, sizeof(*leadership));

    if (!leadership)
        return -ENOMEM;
    leadership->settings = *settings;
    leadership->loop = loop;
    leadership->store = store;
    leadership->metrics = metrics;
    leadership->api = api;
    *ret_leadership = leadership;
    return 0;
}

static void leadership_finish(void *arg)
{
    struct leadership *leadership = arg;
    void (*stopped)(void *arg) = leadership->stopped;
    void *stopped_arg = leadership->stopped_arg;

    if (leadership->settings.has_redis)
        redis_store_set_guard(leadership->store, NULL, NULL);
    free(leadership);
    stopped(stopped_arg);
}

static void leadership_lease_stopped(void *arg)
{
    struct leadership *leadership = arg;

    redis_fence_stop(TAKE(leadership->fence), leadership_finish, leadership);
}

static int leadership_settle(struct leadership *leadership);

static void leadership_settle_or_say(struct leadership *leadership)
{
    int err = leadership_settle(leadership);

    if (err < 0)
        log_error("the pool manager cannot be started: calls are served, but changes of pods and expired "
                  "leases are not noticed; restart this router",
                  log_str("error", strerror(-err)));
}

static void leadership_manager_stopped(void *arg)
{
    struct leadership *leadership = arg;

    leadership->manager = NULL;
    leadership->is_manager_stopping = false;
    /* Leadership may have come back while the manager was on its way out. */
    leadership_settle_or_say(leadership);
}

/* Without its number a manager could only fail. The lock in Redis comes with one. */
static bool leadership_can_begin(const struct leadership *leadership)
{
    return leadership->is_wanted && (!leadership->fence || redis_fence_number(leadership->fence));
}

/* Makes what runs what should run: a manager if and only if we lead. */
static int leadership_settle(struct leadership *leadership)
{
    if (leadership->is_manager_stopping)
        return 0;
    if (leadership->manager && (!leadership->is_wanted || leadership->is_stopping)) {
        leadership->is_manager_stopping = true;
        manager_stop(leadership->manager, leadership_manager_stopped, leadership);
        return 0;
    }
    if (leadership->is_stopping) {
        if (leadership->lock)
            redis_leader_lock_stop(TAKE(leadership->lock), leadership_finish, leadership);
        else if (leadership->lease)
            k8s_lease_stop(TAKE(leadership->lease), leadership_lease_stopped, leadership);
        else if (leadership->fence)
            redis_fence_stop(TAKE(leadership->fence), leadership_finish, leadership);
        else
            leadership_finish(leadership);
        return 0;
    }
    if (leadership_can_begin(leadership) && !leadership->manager) {
        int err = manager_new(leadership->loop, &leadership->settings.manager, leadership->store,
                              leadership->metrics, &leadership->manager);

        return err < 0 ? err : manager_start(leadership->manager);
    }
    return 0;
}

/* Only who gains or loses the lead tells it: all the others see the same change. */
static void leadership_set_wanted(struct leadership *leadership, bool is_wanted)
{
    const struct event event = {.kind = is_wanted ? EVENT_LEADER_ELECTED : EVENT_LEADER_LOST};

    if (leadership->is_wanted != is_wanted)
        store_publish(leadership->store, &event);
    leadership->is_wanted = is_wanted;
}

static void leadership_changed(void *arg, bool is_leader, const char *leader)
{
    struct leadership *leadership = arg;

    if (leadership->fence && !is_leader)
        redis_fence_forget(leadership->fence);
    leadership_set_wanted(leadership, is_leader);
    api_set_leader(leadership->api, is_leader, leader);
    leadership_settle_or_say(leadership);
}

static bool leadership_may_act(void *arg, uint64_t *ret_fence)
{
    const struct leadership *leadership = arg;

    if (leadership->lock) {
        *ret_fence = redis_leader_lock_fence(leadership->lock);
        return redis_leader_lock_leads(leadership->lock);
    }
    *ret_fence = leadership->fence ? redis_fence_number(leadership->fence) : 0;
    return *ret_fence && leadership->lease && k8s_lease_leads(leadership->lease);
}

static int leadership_by_redis(struct leadership *leadership)
{
    const struct redis_leader_lock_settings settings = {
        .key_prefix = leadership->settings.key_prefix,
        .identity = leadership->settings.identity,
        .duration_ms = leadership->settings.duration_ms,
        .renew_deadline_ms = leadership->settings.renew_deadline_ms,
        .retry_ms = leadership->settings.retry_ms,
        .on_change = leadership_changed,
        .on_change_arg = leadership,
    };

    return redis_leader_lock_new(leadership->loop, &settings, redis_store_link(leadership->store),
                                 &leadership->lock);
}

static void leadership_lease_written(void *arg)
{
    struct leadership *leadership = arg;

    redis_fence_claim(leadership->fence);
}

static void leadership_lease_is_others(void *arg, const char *holder)
{
    struct leadership *leadership = arg;

    redis_fence_see(leadership->fence, holder);
}

static void leadership_fence_changed(void *arg)
{
    struct leadership *leadership = arg;

    if (!leadership->is_stopping)
        leadership_settle_or_say(leadership);
}

static int leadership_by_lease(struct leadership *leadership)
{
    const struct redis_fence_settings fence_settings = {
        .key_prefix = leadership->settings.key_prefix,
        .identity = leadership->settings.identity,
        .duration_ms = leadership->settings.duration_ms,
        .patience_ms = leadership->settings.retry_ms,
        .on_change = leadership_fence_changed,
        .on_change_arg = leadership,
    };
    const struct k8s_lease_settings settings = {
        .namespace_name = leadership->settings.lease_namespace,
        .name = leadership->settings.lease_name,
        .identity = leadership->settings.identity,
        .duration_ms = leadership->settings.duration_ms,
        .renew_deadline_ms = leadership->settings.renew_deadline_ms,
        .retry_ms = leadership->settings.retry_ms,
        .on_change = leadership_changed,
        .on_change_arg = leadership,
        .on_written = leadership_lease_written,
        .on_written_arg = leadership,
        .on_others = leadership_lease_is_others,
        .on_others_arg = leadership,
    };
    int err = redis_fence_new(leadership->loop, &fence_settings, redis_store_link(leadership->store),
                              &leadership->fence);

    if (err < 0)
        return err;
    return k8s_lease_new(leadership->loop, &settings, leadership->settings.manager.kube.client,
                         &leadership->lease);
}

int leadership_start(struct leadership *leadership)
{
    if (leadership->settings.election == LEADERSHIP_ALWAYS) {
        leadership_set_wanted(leadership, true);
        api_set_leader(leadership->api, true, leadership->settings.identity);
        return leadership_settle(leadership);
    }
    if (leadership->settings.has_redis)
        redis_store_set_guard(leadership->store, leadership_may_act, leadership);
    return leadership->settings.election == LEADERSHIP_BY_REDIS ? leadership_by_redis(leadership)
                                                                : leadership_by_lease(leadership);
}

bool leadership_sync_age(const struct leadership *leadership, uint64_t *ret_ms)
{
    return leadership->manager && manager_sync_age(leadership->manager, ret_ms);
}

void leadership_stop(struct leadership *leadership, void (*stopped)(void *arg), void *arg)
{
    leadership->stopped = stopped;
    leadership->stopped_arg = arg;
    leadership->is_stopping = true;
    leadership_set_wanted(leadership, false);
    (void)leadership_settle(leadership);
}
