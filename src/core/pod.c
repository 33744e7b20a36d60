/*
 * pod.c - the life of one pod: make, find, place, move, remove; pod_place alone changes its state.
 */
#include <stdlib.h>

#include "core/state.h"

const char *pod_state_name(enum pod_state state)
{
    static const char *const names[POD_STATES] = {"available", "busy", "draining", "suspended"};

    return names[state];
}

const char *pod_source_name(enum pod_source source)
{
    static const char *const names[] = {"api", "static", "kubernetes"};

    return names[source];
}

struct pod *pod_find(const struct core *core, const char *name)
{
    struct map_node *node = map_get(&core->pods, name, strlen(name));

    return node ? CONTAINER_OF(node, struct pod, node) : NULL;
}

int pod_set_texts(struct pod *pod, const char *address, const char *incarnation)
{
    char *new_address = NULL;
    char *new_incarnation = NULL;

    /* Most syncs bring nothing new. */
    if (strcmp(pod->address, address) == 0 && strcmp(pod->incarnation, incarnation) == 0)
        return 0;
    new_address = strdup(address);
    new_incarnation = strdup(incarnation);
    if (!new_address || !new_incarnation) {
        free(new_address);
        free(new_incarnation);
        return -ENOMEM;
    }
    free(pod->address);
    free(pod->incarnation);
    pod->address = new_address;
    pod->incarnation = new_incarnation;
    return 0;
}

/* The first position in pods_by_name whose name is not smaller. */
static size_t pod_position(const struct core *core, const char *name)
{
    size_t low = 0;
    size_t high = core->pods.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(core->pods_by_name[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int pods_reserve(struct core *core)
{
    size_t room = core->pods_room ? core->pods_room * 2 : 64;
    struct pod **sorted;
    int err = map_reserve(&core->pods);

    if (err == 0)
        err = heap_reserve(&core->pods_due, core->pods.count + 1);
    if (err < 0 || core->pods.count < core->pods_room)
        return err;
    sorted = realloc(core->pods_by_name, room * sizeof(struct pod *));
    if (!sorted)
        return -ENOMEM;
    core->pods_by_name = sorted;
    core->pods_room = room;
    assert(core->pods.count < core->pods_room);
    return 0;
}

int pod_new(struct core *core, const char *name, struct pool *pool, enum pod_source source,
            struct pod **ret_pod)
{
    size_t at = pod_position(core, name);
    struct pod *pod;
    int err = pods_reserve(core);

    assert(at == core->pods.count || strcmp(core->pods_by_name[at]->name, name) != 0); /* it is new */
    if (err < 0)
        return err;
    pod = calloc(1, sizeof(*pod));
    if (!pod)
        return -ENOMEM;
    pod->address = strdup("");
    pod->incarnation = strdup("");
    if (!pod->address || !pod->incarnation) {
        free(pod->address);
        free(pod->incarnation);
        free(pod);
        return -ENOMEM;
    }
    assert(strlen(name) <= POD_NAME_MAX);
    memcpy(pod->name, name, strlen(name) + 1);
    list_init(&pod->in_pool);
    list_init(&pod->calls);
    list_init(&pod->in_closed);
    pod->source = source;
    pod->pool = pool;
    pool_ref(pool);
    pool->pod_count++;
    assert(pool->pod_count <= pool->refs);

    memmove(&core->pods_by_name[at + 1], &core->pods_by_name[at],
            (core->pods.count - at) * sizeof(struct pod *));
    core->pods_by_name[at] = pod;
    map_put(&core->pods, &pod->node, pod->name, strlen(pod->name));
    *ret_pod = pod;
    return 0;
}

/* It takes no calls, whether it has room or not. */
static bool pod_is_held(enum pod_state state)
{
    return state == POD_DRAINING || state == POD_SUSPENDED;
}

void pod_unplace(struct pod *pod)
{
    struct pool *pool = pod->pool;

    if (!pod->is_placed)
        return;
    assert(pod->state < POD_STATES);
    assert(list_is_empty(&pod->in_pool) == (pod->state != POD_AVAILABLE));
    assert(pool->by_state[pod->state] > 0);
    assert(pool->call_count >= pod->placed_load);
    list_remove(&pod->in_pool);
    pool->by_state[pod->state]--;
    pool->call_count -= pod->placed_load;
    if (pod_is_held(pod->state)) {
        assert(pool->held_calls >= pod->placed_load);
        pool->held_calls -= pod->placed_load;
    }
    if (pod->placed_leaving) {
        assert(pool->leaving_count > 0);
        pool->leaving_count--;
    }
    if (pod->state == POD_AVAILABLE) {
        assert(pod->placed_load < pool->spec.max_concurrent);
        assert(pool->free_count >= pool->spec.max_concurrent - pod->placed_load);
        pool->free_count -= pool->spec.max_concurrent - pod->placed_load;
    }
    pod->is_placed = false;
}

void pod_free(struct core *core, struct pod *pod)
{
    size_t at = pod_position(core, pod->name);
    struct pool *pool = pod->pool;

    assert(pod->load == 0);
    assert(list_is_empty(&pod->calls));
    assert(core->pods_by_name[at] == pod);
    assert(pool->pod_count > 0);
    pod_unplace(pod);
    list_remove(&pod->in_closed);
    heap_remove(&core->pods_due, &pod->due);
    memmove(&core->pods_by_name[at], &core->pods_by_name[at + 1],
            (core->pods.count - at - 1) * sizeof(struct pod *));
    map_remove(&core->pods, &pod->node);
    pool->pod_count--;
    pool_unref(core, pool);
    free(pod->address);
    free(pod->incarnation);
    free(pod);
}

void pod_report(struct core *core, const struct pod *pod)
{
    core_report(core, &(struct record){
                          .type = RECORD_POD,
                          .pod = {.name = pod->name,
                                  .address = pod->address,
                                  .incarnation = pod->incarnation,
                                  .tier = pod->pool->spec.name,
                                  .source = pod->source,
                                  .is_ready = pod->is_ready,
                                  .is_terminating = pod->is_terminating,
                                  .is_pinned = pod->is_pinned,
                                  .is_surplus = pod->is_surplus,
                                  .draining_until_ms = pod->draining_until_ms,
                                  .held_until_ms = pod->held_until_ms},
                      });
}

void pod_leave(struct core *core, struct pod *pod)
{
    core_report(core, &(struct record){.type = RECORD_POD_GONE, .pod = {.name = pod->name}});
    pod_free(core, pod);
}

bool pod_is_draining(const struct core *core, const struct pod *pod)
{
    return pod->is_terminating || pod->draining_until_ms > core->now_ms;
}

bool pod_is_heartbeating(const struct core *core, const struct pod *pod)
{
    return pod->heartbeat_at_ms && pod->heartbeat_at_ms + core->settings.heartbeat_ttl_ms > core->now_ms;
}

uint64_t pod_silent_at(const struct core *core, const struct pod *pod)
{
    return pod->heartbeat_at_ms + core->settings.heartbeat_ttl_ms;
}

bool pod_should_leave(const struct core *core, const struct pod *pod)
{
    return !pod->is_ready && pod->load == 0 && !pod_is_draining(core, pod);
}

static enum pod_state pod_state_now(const struct core *core, const struct pod *pod)
{
    if (pod_is_draining(core, pod))
        return POD_DRAINING;
    if (!pod->is_ready || pod->held_until_ms > core->now_ms || pod->is_closed)
        return POD_SUSPENDED;
    return pod->load >= pod->pool->spec.max_concurrent ? POD_BUSY : POD_AVAILABLE;
}

/*
 * Sets when a sweep must check the pod: at the end of its drain, if it has one, or of its hold, when
 * its heartbeats are overdue, or now if it should leave. It may be too early, because heartbeats do not
 * change it, but never too late.
 */
static void pod_set_due(struct core *core, struct pod *pod)
{
    const uint64_t never = UINT64_MAX;
    uint64_t due = never;

    if (pod_should_leave(core, pod))
        due = core->now_ms;
    if (!pod->is_terminating && pod->draining_until_ms > core->now_ms)
        due = min_u64(due, pod->draining_until_ms); /* DRAIN_WITHOUT_END is never */
    if (pod->held_until_ms > core->now_ms)
        due = min_u64(due, min_u64(never - 1, pod->held_until_ms));
    if (pod->source == POD_SOURCE_API)
        due = min_u64(due, pod_silent_at(core, pod));
    if (due == never)
        heap_remove(&core->pods_due, &pod->due);
    else if (pod->due.place == 0 || pod->due.at > due || pod->due.at <= core->now_ms)
        heap_set(&core->pods_due, &pod->due, due);
    assert(due == never || (pod->due.place > 0 && pod->due.at <= due));
}

void pod_place(struct core *core, struct pod *pod)
{
    struct pool *pool = pod->pool;
    enum pod_state state = pod_state_now(core, pod);

    assert(pool->spec.max_concurrent > 0);
    assert(list_is_empty(&pod->calls) == (pod->load == 0));
    pod_unplace(pod);
    assert(list_is_empty(&pod->in_pool));
    pod->state = state;
    /* Only the calls from before a change of tiers may be more than allowed. */
    if (pod->load < pod->tolerated_load)
        pod->tolerated_load = pod->load;
    pod->placed_load = pod->load;
    pod->is_placed = true;
    pool->by_state[state]++;
    assert(pool->by_state[state] <= pool->pod_count);
    pool->call_count += pod->load;
    if (pod_is_held(state))
        pool->held_calls += pod->load;
    pod->placed_leaving = pod->is_terminating || pod->is_surplus;
    pool->leaving_count += pod->placed_leaving;
    assert(state != POD_BUSY || pod->load > 0);
    if (state == POD_AVAILABLE) {
        assert(pod->load < pool->spec.max_concurrent);
        pool->free_count += pool->spec.max_concurrent - pod->load;
        list_append(&pool->by_load[pod->load], &pod->in_pool);
        if (pod->load < pool->lowest_load)
            pool->lowest_load = pod->load;
        assert(pool->free_count <= pool_capacity(pool));
        line_mark(core, pool);
    }
    pod_set_due(core, pod);
}

void pod_close(struct core *core, struct pod *pod)
{
    if (pod->is_closed)
        return;
    pod->is_closed = true;
    list_append(&core->closed, &pod->in_closed);
    pod_place(core, pod);
    assert(pod->state != POD_AVAILABLE);
}

void pod_open(struct core *core, struct pod *pod)
{
    pod->is_closed = false;
    list_remove(&pod->in_closed);
    pod_place(core, pod);
}

void pods_open(struct core *core)
{
    LIST_FOR_EACH (link, &core->closed) {
        struct pod *pod = LIST_ENTRY(link, struct pod, in_closed);

        pod->is_closed = false;
        list_remove(link);
        (void)pod_settle(core, pod);
    }
}

void pod_move(struct core *core, struct pod *pod, struct pool *pool)
{
    struct pool *old = pod->pool;

    assert(pool != old);
    assert(old->pod_count > 0);
    pod_unplace(pod);
    pool_ref(pool);
    pool->pod_count++;
    pod->pool = pool;
    old->pod_count--;
    pool_unref(core, old);
    pod_place(core, pod);
    pod_report(core, pod);
}

bool pod_settle(struct core *core, struct pod *pod)
{
    if (pod_should_leave(core, pod)) {
        pod_leave(core, pod);
        return true;
    }
    pod_place(core, pod);
    if (!pod->pool->is_configured && pod->load == 0 && pod->state == POD_AVAILABLE)
        pod_move(core, pod, pool_for_new_pod(core));
    assert(pod->is_placed && pod->placed_load == pod->load);
    return false;
}
