/*
 * call.c - the life of one call: make, find, renew, adopt, move, end; also arrays of names for
 * results.
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

struct call *call_find(const struct core *core, const char *call_sid)
{
    struct map_node *node = map_get(&core->calls, call_sid, strlen(call_sid));

    return node ? CONTAINER_OF(node, struct call, node) : NULL;
}

bool call_is_expired(const struct core *core, const struct call *call)
{
    return call->lease.at <= core->now_ms;
}

bool call_is_older(const struct call *call, uint64_t started_at_ms)
{
    /* A store may know the time of a call in whole seconds only: all of them compare these. */
    uint64_t placed_at_ms = call->placed_at_ms - call->placed_at_ms % 1000;

    return started_at_ms == 0 ||
           (started_at_ms >= RESTART_SKEW_MS && placed_at_ms <= started_at_ms - RESTART_SKEW_MS);
}

static int calls_reserve(struct core *core)
{
    uint32_t room = core->slots_room ? core->slots_room * 2 : 64;
    struct call **slots;
    uint32_t *free_slots;
    int rc = map_reserve(&core->calls);

    if (rc == 0)
        rc = heap_reserve(&core->leases, core->calls.count + 1);
    if (rc || core->free_slot_count || core->slot_count < core->slots_room)
        return rc;
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

int call_new(struct core *core, const char *call_sid, const char *merchant_id, const char *provider,
             struct pod *pod, struct pool *source, uint64_t allocated_at_ms, uint64_t expires_at_ms,
             struct call **ret_call)
{
    size_t sid_len = strlen(call_sid);
    size_t merchant_len = strlen(merchant_id);
    size_t provider_len = strlen(provider);
    /* One that is not known may be learnt: see call_learn_provider. */
    size_t provider_room = provider_len > 0 ? provider_len : PROVIDER_MAX;
    struct call *call;
    char *text;
    int rc = calls_reserve(core);

    if (rc)
        return rc;
    call = malloc(sizeof(*call) + sid_len + merchant_len + provider_room + 3);
    if (!call)
        return -ENOMEM;
    *call = (struct call){
        .pod = pod, .source = source, .allocated_at_ms = allocated_at_ms, .placed_at_ms = allocated_at_ms};
    memcpy(call->call_sid, call_sid, sid_len + 1);
    text = call->call_sid + sid_len + 1;
    call->merchant_id = memcpy(text, merchant_id, merchant_len + 1);
    call->provider = memcpy(text + merchant_len + 1, provider, provider_len + 1);

    call->slot = core->free_slot_count ? core->free_slots[--core->free_slot_count] : core->slot_count++;
    core->slots[call->slot] = call;
    map_put(&core->calls, &call->node, call->call_sid, sid_len);
    heap_set(&core->leases, &call->lease, expires_at_ms);
    list_append(&pod->calls, &call->on_pod);
    pod->load++;
    pool_ref(source);
    *ret_call = call;
    return 0;
}

static void call_report_lease(struct core *core, const struct call *call)
{
    core_report(core,
                &(struct record){.type = RECORD_RENEWED,
                                 .renewed = {.call_sid = call->call_sid, .expires_at_ms = call->lease.at}});
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
}

void call_free(struct core *core, struct call *call)
{
    assert(call->pod->load > 0);
    call->pod->load--;
    list_remove(&call->on_pod);
    heap_remove(&core->leases, &call->lease);
    map_remove(&core->calls, &call->node);
    core->slots[call->slot] = NULL;
    core->free_slots[core->free_slot_count++] = call->slot;
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

static void call_record_over(struct core *core, const struct call *call, enum call_over why)
{
    /* Without memory a late word of its pod may bring it back, until its lease ends. */
    if (overs_add(&core->overs, call->call_sid, why, core->now_ms))
        return;
    core_report(core,
                &(struct record){.type = RECORD_OVER,
                                 .over = {.call_sid = call->call_sid, .why = why, .at_ms = core->now_ms}});
}

bool call_finish(struct core *core, struct call *call, enum call_over why)
{
    struct pod *pod = call->pod;

    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    if (call->was_renewed)
        call_record_over(core, call, why);
    if (call->is_carried && core->on_over)
        core->on_over(core->on_over_arg, call->call_sid);
    call_free(core, call);
    return pod_settle(core, pod);
}

bool call_lose(struct core *core, struct call *call, enum call_end why)
{
    if (core->on_ended)
        core->on_ended(core->on_ended_arg, &(struct ended_call){.call_sid = call->call_sid,
                                                                .pod = call->pod->name,
                                                                .pool = call->source->label,
                                                                .merchant_id = call->merchant_id,
                                                                .why = why});
    return call_end(core, call);
}

void call_note_renewed(struct core *core, struct call *call)
{
    /* It has begun anew: the end of the one before it counts no more. */
    if (!call->was_renewed)
        overs_remove(&core->overs, call->call_sid);
    call->was_renewed = true;
}

void call_renew(struct core *core, struct call *call)
{
    uint64_t expires_at_ms = core->now_ms + core->settings.lease_ttl_ms;

    call->misses = 0;
    if (call->lease.at == expires_at_ms && call->was_renewed)
        return;
    call_note_renewed(core, call);
    heap_set(&core->leases, &call->lease, expires_at_ms);
    call_report_lease(core, call);
}

void call_revive(struct core *core, struct call *call)
{
    /* Told anew, as for a move: a renewal would say more than happened. */
    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    heap_set(&core->leases, &call->lease, core->now_ms + first_lease_ms(core));
    call_report(core, call);
}

bool call_is_of_others(const struct call *call, const char *provider)
{
    return strcmp(call->provider, provider) != 0;
}

void call_forbid(struct result *result)
{
    result->outcome = OUTCOME_FORBIDDEN;
    result->error = "the call is not this provider's";
}

void call_learn_provider(struct core *core, struct call *call, const char *provider)
{
    size_t len = strlen(provider);

    if (call->provider[0] || len == 0 || len > PROVIDER_MAX)
        return;
    memcpy(call->provider, provider, len + 1); /* call_new has left room */
    /* Told anew, as for a move. */
    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    call_report(core, call);
}

int call_adopt(struct core *core, const char *call_sid, const char *provider, struct pod *pod,
               struct call **ret_call)
{
    struct call *call;
    int rc;

    if (overs_has(&core->overs, call_sid, core->now_ms))
        return -EALREADY;
    if (pod->load >= pod->pool->spec.max_concurrent)
        return -EAGAIN;
    rc = call_new(core, call_sid, "", provider, pod, pod->pool, core->now_ms,
                  core->now_ms + core->settings.lease_ttl_ms, &call);
    if (rc)
        return rc;
    call->was_renewed = true;
    pod_place(core, pod);
    call_report(core, call);
    *ret_call = call;
    return 0;
}

void call_move(struct core *core, struct call *call, struct pod *to)
{
    struct pod *from = call->pod;
    struct pool *source = call->source;

    /* As several records, which a store makes durable together: the first alone would lose the call. */
    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    list_remove(&call->on_pod);
    from->load--;
    list_append(&to->calls, &call->on_pod);
    to->load++;
    pool_ref(to->pool);
    call->pod = to;
    call->source = to->pool;
    call->placed_at_ms = core->now_ms;
    call->misses = 0;
    heap_set(&core->leases, &call->lease, core->now_ms + first_lease_ms(core));
    pool_unref(core, source);
    pod_place(core, to);
    call_report(core, call);
    (void)pod_settle(core, from);
}

int call_info(const struct call *call, struct arena *arena, struct call_info *ret_info)
{
    struct call_info info = {
        .call_sid = arena_strdup(arena, call->call_sid),
        .pod = arena_strdup(arena, call->pod->name),
        .address = arena_strdup(arena, call->pod->address),
        .pool = arena_strdup(arena, call->source->label),
        .merchant_id = arena_strdup(arena, call->merchant_id),
        .provider = arena_strdup(arena, call->provider),
        .allocated_at_ms = call->allocated_at_ms,
        .expires_at_ms = call->lease.at,
        .pod_source = call->pod->source,
    };

    if (!info.call_sid || !info.pod || !info.address || !info.pool || !info.merchant_id || !info.provider)
        return -ENOMEM;
    *ret_info = info;
    return 0;
}

int name_array_init(struct name_array *array, struct arena *arena, size_t max)
{
    *array = (struct name_array){0};
    array->names = arena_alloc(arena, (max + 1) * sizeof(*array->names));
    return array->names ? 0 : -ENOMEM;
}

int name_array_add(struct name_array *array, struct arena *arena, const char *name)
{
    const char *copy = arena_strdup(arena, name);

    if (!copy)
        return -ENOMEM;
    array->names[array->count++] = copy;
    return 0;
}

int ended_array_add(struct ended_array *array, struct arena *arena, const struct call *call,
                    enum call_end why)
{
    struct ended_call *at;

    /* Grows when the count reaches a power of two; what it leaves behind in the arena is as much again. */
    if ((array->count & (array->count - 1)) == 0) {
        size_t room = array->count ? array->count * 2 : 1;
        struct ended_call *calls = arena_alloc(arena, room * sizeof(*calls));

        if (!calls)
            return -ENOMEM;
        if (array->count)
            memcpy(calls, array->calls, array->count * sizeof(*calls));
        array->calls = calls;
    }
    at = &array->calls[array->count];
    at->call_sid = arena_strdup(arena, call->call_sid);
    at->pod = arena_strdup(arena, call->pod->name);
    at->pool = arena_strdup(arena, call->source->label);
    at->merchant_id = arena_strdup(arena, call->merchant_id);
    at->why = why;
    if (!at->call_sid || !at->pod || !at->pool || !at->merchant_id)
        return -ENOMEM;
    array->count++;
    return 0;
}
