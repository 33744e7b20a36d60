/*
 * call.c - the life of one call: make, find, renew, adopt, move, end.
 *
 * Every change of a call is reported as a record here.
 */
#include <stdlib.h>

#include "core/state.h"

const char *call_end_name(enum call_end end)
{
    static const char *const names[] = {"lease_expired", "pod_gone", "pod_restarted", "left_out"};

    return names[end];
}

const char *past_end_name(enum past_end end)
{
    static_assert(PAST_UNMENTIONED - PAST_EXPIRED == CALL_END_UNMENTIONED - CALL_END_EXPIRED,
                  "past_end has every call_end");
    assert(end < PAST_ENDS);
    if (end < PAST_UNDONE)
        return finish_reason_name((enum finish_reason)end);
    if (end >= PAST_EXPIRED)
        return call_end_name((enum call_end)(end - PAST_EXPIRED));
    return end == PAST_UNDONE ? "undone" : "moved";
}

struct call *call_find(const struct core *core, const char *call_sid)
{
    struct map_node *node = map_get(&core->calls, call_sid, strlen(call_sid));

    return node ? CONTAINER_OF(node, struct call, node) : NULL;
}

bool call_is_expired(const struct core *core, const struct call *call)
{
    return call->lease.at <= core->now_ms;
}

bool call_ends_before(const struct heap_node *a, const struct heap_node *b)
{
    return strcmp(CONTAINER_OF(a, struct call, lease)->call_sid,
                  CONTAINER_OF(b, struct call, lease)->call_sid) < 0;
}

bool call_is_older(const struct call *call, uint64_t started_at_ms)
{
    /* Redis knows the time of a call in whole seconds only. All stores compare these. */
    uint64_t placed_at_ms = call->placed_at_ms - call->placed_at_ms % 1000;

    return started_at_ms == 0 ||
           (started_at_ms >= RESTART_SKEW_MS && placed_at_ms <= started_at_ms - RESTART_SKEW_MS);
}

static int calls_reserve(struct core *core)
{
    uint32_t room = core->slots_room ? core->slots_room * 2 : 64;
    struct call **slots;
    uint32_t *free_slots;
    int err = map_reserve(&core->calls);

    if (err == 0)
        err = heap_reserve(&core->leases, core->calls.count + 1);
    if (err < 0 || core->free_slot_count || core->slot_count < core->slots_room)
        return err;
    slots = realloc(core->slots, room * sizeof(struct call *));
    if (!slots)
        return -ENOMEM;
    core->slots = slots;
    free_slots = realloc(core->free_slots, room * sizeof(*free_slots));
    if (!free_slots)
        return -ENOMEM;
    core->free_slots = free_slots;
    core->slots_room = room;
    return 0;
}

/* Each call is in the map, has a lease, and has a slot. */
static void assert_call_counts(const struct core *core)
{
    assert(core->leases.count == core->calls.count);
    assert(core->slot_count - core->free_slot_count == core->calls.count);
}

/* The count of a pod's calls and the list of them change together. */
static void assert_load(const struct pod *pod)
{
    assert(list_is_empty(&pod->calls) == (pod->load == 0));
}

int call_new(struct core *core, const char *call_sid, const char *merchant_id, const char *provider,
             struct pod *pod, struct pool *source, uint64_t allocated_at_ms, uint64_t expires_at_ms,
             struct call **ret_call)
{
    size_t sid_len = strlen(call_sid);
    size_t merchant_len = strlen(merchant_id);
    size_t provider_len = strlen(provider);
    /* call_learn_provider may set it later. */
    size_t provider_room = provider_len > 0 ? provider_len : PROVIDER_MAX;
    struct call *call;
    char *text;
    int err = calls_reserve(core);

    assert(sid_len > 0 && sid_len <= CALL_SID_MAX);
    assert(merchant_len <= MERCHANT_ID_MAX);
    assert(provider_len <= PROVIDER_MAX);
    if (err < 0)
        return err;
    assert(core->free_slot_count > 0 || core->slot_count < core->slots_room);
    call = malloc(sizeof(*call) + sid_len + merchant_len + provider_room + 3);
    if (!call)
        return -ENOMEM;
    *call = (struct call){
        .pod = pod, .source = source, .allocated_at_ms = allocated_at_ms, .placed_at_ms = allocated_at_ms};
    list_init(&call->in_granted);
    memcpy(call->call_sid, call_sid, sid_len + 1);
    text = call->call_sid + sid_len + 1;
    call->merchant_id = memcpy(text, merchant_id, merchant_len + 1);
    call->provider = memcpy(text + merchant_len + 1, provider, provider_len + 1);

    if (core->free_slot_count) {
        call->slot = core->free_slots[--core->free_slot_count];
        assert(!core->slots[call->slot]);
    } else {
        call->slot = core->slot_count++;
    }
    core->slots[call->slot] = call;
    map_put(&core->calls, &call->node, call->call_sid, sid_len);
    heap_set(&core->leases, &call->lease, expires_at_ms);
    list_append(&pod->calls, &call->on_pod);
    pod->load++;
    assert(pod->load > 0);
    pool_ref(source);
    assert_call_counts(core);
    *ret_call = call;
    return 0;
}

static void call_report_connected(struct core *core, const struct call *call)
{
    core_report(core, &(struct record){.type = RECORD_CONNECTED, .connected = {.call_sid = call->call_sid}});
}

static void call_report_lease(struct core *core, const struct call *call)
{
    core_report(core, &(struct record){.type = call->renewed_by ? RECORD_RENEWED_BY : RECORD_RENEWED,
                                       .renewed = {.call_sid = call->call_sid,
                                                   .expires_at_ms = call->lease.at,
                                                   .at_ms = call->renewed_at_ms,
                                                   .by = call->renewed_by}});
}

void call_report(struct core *core, const struct call *call)
{
    core_report(core, &(struct record){
                          .type = RECORD_CALL,
                          .call = {.call_sid = call->call_sid,
                                   .pod = call->pod->name,
                                   .pool = call->source->label,
                                   .merchant_id = call->merchant_id,
                                   .provider = call->provider,
                                   .allocated_at_ms = call->allocated_at_ms,
                                   .expires_at_ms = call->lease.at},
                      });
    if (call->placed_at_ms != call->allocated_at_ms)
        core_report(core,
                    &(struct record){.type = RECORD_PLACED,
                                     .placed = {.call_sid = call->call_sid, .at_ms = call->placed_at_ms}});
    if (call->was_renewed)
        call_report_lease(core, call);
    if (call->was_connected)
        call_report_connected(core, call);
    /* Behind the lease: a renewal takes a granted call. */
    if (call->is_granted)
        core_report(core, &(struct record){
                              .type = RECORD_GRANTED,
                              .granted = {.call_sid = call->call_sid, .since_ms = call->waited_since_ms}});
    if (call->waited)
        waiter_report(core, call->waited);
}

void call_set_can_move(struct core *core, struct call *call, bool can_move)
{
    core->movable_count += (size_t)can_move - (size_t)call->can_move;
    call->can_move = can_move;
}

void call_free(struct core *core, struct call *call)
{
    assert(call->pod->load > 0);
    assert(!list_is_empty(&call->on_pod));
    assert(call->lease.place > 0);
    assert(core->slots[call->slot] == call);
    assert(core->free_slot_count < core->slot_count);
    call_take(core, call);
    call_set_can_move(core, call, false);
    call->pod->load--;
    list_remove(&call->on_pod);
    assert_load(call->pod);
    heap_remove(&core->leases, &call->lease);
    map_remove(&core->calls, &call->node);
    core->slots[call->slot] = NULL;
    core->free_slots[core->free_slot_count++] = call->slot;
    assert_call_counts(core);
    pool_unref(core, call->source);
    attempts_release(&call->attempts);
    free(call);
}

bool call_end(struct core *core, struct call *call)
{
    struct pod *pod = call->pod;

    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    call_free(core, call);
    return pod_settle(core, pod);
}

void call_record_end(struct core *core, const char *call_sid, enum finish_reason why)
{
    assert(why < FINISH_REASONS);
    /* Without memory, a late heartbeat can restore the call until its lease ends. */
    if (tombstones_add(&core->tombstones, call_sid, why, core->now_ms))
        return;
    core_report(core,
                &(struct record){.type = RECORD_TOMBSTONE,
                                 .tombstone = {.call_sid = call_sid, .why = why, .at_ms = core->now_ms}});
}

/* For the story of the call: it leaves its pod. */
static void call_remember(struct core *core, const struct call *call, enum past_end how)
{
    past_calls_add(&core->past, call->call_sid,
                   &(struct past_call){.pod = call->pod->name,
                                       .pool = call->source->label,
                                       .merchant_id = call->merchant_id,
                                       .provider = call->provider,
                                       .allocated_at_ms = call->allocated_at_ms,
                                       .renewed_at_ms = call->renewed_at_ms,
                                       .ended_at_ms = core->now_ms,
                                       .renewed_by = call->renewed_by,
                                       .how = how});
}

/* A granted call ends that its holder has not taken: the holder should ask what has become of it. */
static void call_tell_holder(struct core *core, const struct call *call)
{
    if (call->is_granted && call->is_held && core->on_changed)
        core->on_changed(core->on_changed_arg, call->call_sid);
}

bool call_finish(struct core *core, struct call *call, enum past_end how)
{
    struct pod *pod = call->pod;

    assert(how < PAST_UNDONE || (how == PAST_UNDONE && !call->was_renewed));
    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    call_remember(core, call, how);
    /* A granted call counts as renewed, as one that waits does: a late keep must not bring it back. */
    if (call->was_renewed || (call->is_granted && how != PAST_UNDONE))
        call_record_end(core, call->call_sid, (enum finish_reason)how);
    if (call->is_carried && core->on_finished)
        core->on_finished(core->on_finished_arg, call->call_sid);
    call_tell_holder(core, call);
    call_free(core, call);
    return pod_settle(core, pod);
}

bool call_lose(struct core *core, struct call *call, enum call_end why)
{
    assert(why <= CALL_END_UNMENTIONED);
    core->lost_calls++;
    call_remember(core, call, (enum past_end)(PAST_EXPIRED + why));
    if (core->on_ended)
        core->on_ended(core->on_ended_arg, &(struct ended_call){.call_sid = call->call_sid,
                                                                .pod = call->pod->name,
                                                                .pool = call->source->label,
                                                                .merchant_id = call->merchant_id,
                                                                .why = why});
    call_tell_holder(core, call);
    return call_end(core, call);
}

void call_abandon(struct core *core, struct call *call)
{
    assert(call->is_granted);
    call_remember(core, call, PAST_EXPIRED);
    call_tell_holder(core, call);
    (void)call_end(core, call);
}

bool call_leave_pod(struct core *core, struct call *call)
{
    call_remember(core, call, PAST_MOVED);
    return call_end(core, call);
}

void call_note_renewed(struct core *core, struct call *call)
{
    /* It is a new call: the end of the earlier one does not count any more. */
    if (!call->was_renewed)
        tombstones_remove(&core->tombstones, call->call_sid);
    call->was_renewed = true;
}

void call_renew(struct core *core, struct call *call, enum renewer by)
{
    uint64_t expires_at_ms = core->now_ms + core->settings.lease_ttl_ms;

    call->misses = 0;
    assert(by != RENEWED_BY_NOBODY);
    if (call->lease.at == expires_at_ms && call->renewed_at_ms == core->now_ms && call->renewed_by == by &&
        !call->is_granted)
        return;
    call_take(core, call);
    call_note_renewed(core, call);
    call->renewed_at_ms = core->now_ms;
    call->renewed_by = by;
    assert(call->lease.place > 0);
    heap_set(&core->leases, &call->lease, expires_at_ms);
    assert(heap_first(&core->leases)->at <= expires_at_ms);
    call_report_lease(core, call);
}

void call_unsettle(const struct core *core, struct call *call)
{
    if (core->settings.rescues)
        call->unsettled_at_ms = core->now_ms;
}

void call_connect(struct core *core, struct call *call)
{
    assert(call->was_renewed);
    if (!call->was_connected) {
        call->was_connected = true;
        call_report_connected(core, call);
    }
}

void call_depart(struct core *core, struct call *call)
{
    assert(call->is_carried && call->was_renewed);
    call->is_carried = false;
    call_unsettle(core, call);
    heap_set(&core->leases, &call->lease, core->now_ms + RESUME_MS);
    call_report_lease(core, call);
}

void call_revive(struct core *core, struct call *call)
{
    assert(call_is_expired(core, call));
    assert(call->lease.place > 0);
    /* Reported again, as for a move: RECORD_RENEWED would mean that the call was renewed. */
    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    call_take(core, call);
    heap_set(&core->leases, &call->lease, core->now_ms + first_lease_ms(core));
    call_report(core, call);
}

bool call_is_of_others(const char *owner, const char *provider)
{
    return strcmp(owner, provider) != 0;
}

void call_learn_provider(struct core *core, struct call *call, const char *provider)
{
    size_t len = strlen(provider);

    if (call->provider[0] || len == 0 || len > PROVIDER_MAX)
        return;
    memcpy(call->provider, provider, len + 1); /* call_new has reserved the space */
    /* Reported again, as for a move. */
    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    call_report(core, call);
}

int call_adopt(struct core *core, const char *call_sid, const char *provider, struct pod *pod,
               enum renewer by, struct call **ret_call)
{
    struct waiter *waiter = waiter_find(core, call_sid);
    struct call *call;
    int err;

    if (tombstones_has(&core->tombstones, call_sid, core->now_ms))
        return -EALREADY;
    if (pod->load >= pod->pool->spec.max_concurrent)
        return -EAGAIN;
    err = call_new(core, call_sid, "", provider, pod, pod->pool, core->now_ms,
                   core->now_ms + core->settings.lease_ttl_ms, &call);
    if (err < 0)
        return err;
    assert(pod->load <= pod->pool->spec.max_concurrent);
    call->was_renewed = true;
    call->renewed_at_ms = core->now_ms;
    call->renewed_by = by;
    if (waiter)
        waiter_leave(core, waiter); /* it has a pod: the word of those who have its audio counts */
    pod_place(core, pod);
    call_report(core, call);
    *ret_call = call;
    return 0;
}

bool call_move(struct core *core, struct call *call, struct pod *to)
{
    struct pod *from = call->pod;
    struct pool *source = call->source;

    assert(to != from);
    assert(from->load > 0);
    assert(to->state == POD_AVAILABLE && to->load < to->pool->spec.max_concurrent);
    /*
     * As several records, which a store makes durable together: the first alone would lose the
     * call.
     */
    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    call_remember(core, call, PAST_MOVED);
    call_take(core, call);
    call->unsettled_at_ms = 0;
    call_unsettle(core, call);
    list_remove(&call->on_pod);
    from->load--;
    assert_load(from);
    list_append(&to->calls, &call->on_pod);
    to->load++;
    assert_load(to);
    pool_ref(to->pool);
    call->pod = to;
    call->source = to->pool;
    call->placed_at_ms = core->now_ms;
    call->misses = 0;
    heap_set(&core->leases, &call->lease, core->now_ms + first_lease_ms(core));
    pool_unref(core, source);
    pod_place(core, to);
    call_report(core, call);
    return pod_settle(core, from);
}

/* Many calls have no merchant or no provider: an empty text is not copied. */
static const char *copy_text(struct arena *arena, const char *text)
{
    return text[0] ? arena_strdup(arena, text) : "";
}

int call_info(const struct call *call, struct arena *arena, struct call_info *ret_info)
{
    struct call_info info = {
        .call_sid = arena_strdup(arena, call->call_sid),
        .pod = arena_strdup(arena, call->pod->name),
        .address = arena_strdup(arena, call->pod->address),
        .pool = arena_strdup(arena, call->source->label),
        .merchant_id = copy_text(arena, call->merchant_id),
        .provider = copy_text(arena, call->provider),
        .allocated_at_ms = call->allocated_at_ms,
        .expires_at_ms = call->lease.at,
        .pod_source = call->pod->source,
    };

    if (!info.call_sid || !info.pod || !info.address || !info.pool || !info.merchant_id || !info.provider)
        return -ENOMEM;
    *ret_info = info;
    return 0;
}

int call_add_ended(struct ended_array *array, struct arena *arena, const struct call *call, enum call_end why)
{
    const struct ended_call ended = {
        .call_sid = arena_strdup(arena, call->call_sid),
        .pod = arena_strdup(arena, call->pod->name),
        .pool = arena_strdup(arena, call->source->label),
        .merchant_id = arena_strdup(arena, call->merchant_id),
        .why = why,
    };

    if (!ended.call_sid || !ended.pod || !ended.pool || !ended.merchant_id)
        return -ENOMEM;
    return ended_array_add(array, arena, &ended);
}
