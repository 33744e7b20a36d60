/*
 * line_serve.c - the line is served: grants, their taking, and the command serve.
 */
#include "core/page.h"
#include "core/state.h"

void line_mark(struct core *core, struct pool *pool)
{
    if (pool->line.count && pool->free_count && list_is_empty(&pool->in_marked))
        list_append(&core->line.marked, &pool->in_marked);
}

static struct waiter *first_in_line(const struct core *core, const struct pool *pool)
{
    for (size_t i = 0; i < pool->line.count; i++) {
        if (!waiter_is_overdue(core, pool->line.waiters[i]))
            return pool->line.waiters[i];
    }
    return NULL;
}

/* The least loaded pod, or for replays the one that is named for this call, if it is as good. */
static struct pod *pod_for_waiter(const struct core *core, struct pool *pool, const char *call_sid)
{
    struct pod *pod = pool_least_loaded(pool);

    return pod ? pod_chosen(core, pod, call_sid) : NULL;
}

void granted_add(struct core *core, struct call *call)
{
    struct list *before = core->line.granted.prev;

    /* Those of one moment by their names, as in Redis: they may end in one step. */
    while (before != &core->line.granted) {
        const struct call *other = LIST_ENTRY(before, struct call, in_granted);

        if (other->lease.at < call->lease.at ||
            (other->lease.at == call->lease.at && strcmp(other->call_sid, call->call_sid) < 0))
            break;
        before = before->prev;
    }
    list_append(before->next, &call->in_granted);
    core->line.untaken_count++;
}

static int grant(struct core *core, struct waiter *waiter, struct pod *pod)
{
    struct call *call;
    int err =
        call_new(core, waiter->call_sid, waiter->merchant_id, waiter->provider, pod, pod->pool,
                 waiter->is_rescued ? waiter->since_ms : core->now_ms, core->now_ms + WAIT_TAKE_MS, &call);

    if (err < 0)
        return err;
    assert(pod->load <= pod->pool->spec.max_concurrent);
    call->placed_at_ms = core->now_ms;
    call->waited_since_ms = waiter->since_ms;
    call->was_renewed = waiter->was_renewed;
    if (waiter->is_rescued)
        call_unsettle(core, call);
    call->is_granted = true;
    call->is_held = waiter->holder[0] != '\0';
    call->claim = waiter->claim;
    call->resumes = waiter->resumes;
    granted_add(core, call);
    attempts_add(&call->attempts, waiter->attempt);
    grants_count(&core->line.grants, pod->pool->label, core->now_ms);
    core->line.granted_count++;
    waiter_report_gone(core, waiter);
    waiter_tell(core, waiter);
    waiter_set_aside(core, waiter);
    call->waited = waiter;
    pod_place(core, pod);
    call_report(core, call);
    return 0;
}

static int pool_serve(struct core *core, struct pool *pool)
{
    struct waiter *waiter;
    struct pod *pod;

    /* Idle pods of a pool that was removed from the configuration join another one. */
    while (pool->is_configured && (waiter = first_in_line(core, pool)) &&
           (pod = pod_for_waiter(core, pool, waiter->call_sid))) {
        int err = grant(core, waiter, pod);

        if (err < 0)
            return err;
    }
    return 0;
}

static struct pool *first_marked(const struct core *core)
{
    struct pool *first = NULL;

    LIST_FOR_EACH (link, &core->line.marked) {
        struct pool *pool = LIST_ENTRY(link, struct pool, in_marked);

        if (!first || strcmp(pool->spec.name, first->spec.name) < 0)
            first = pool;
    }
    return first;
}

int line_serve(struct core *core)
{
    struct pool *pool;

    while ((pool = first_marked(core))) {
        int err;

        /* A grant could free the pool, which is then in no configuration: it has a reference meanwhile. */
        pool_ref(pool);
        err = pool_serve(core, pool);
        /* A grant places its pod, which marks the pool again. */
        if (err == 0)
            list_remove(&pool->in_marked);
        pool_unref(core, pool);
        if (err < 0)
            return err;
    }
    return 0;
}

void call_take(struct core *core, struct call *call)
{
    if (!call->is_granted)
        return;
    call->is_granted = false;
    list_remove(&call->in_granted);
    core->line.untaken_count--;
    if (call->waited)
        waiter_forget(core, call->waited);
    call->waited = NULL;
}

bool call_waits_again(struct core *core, struct call *call, bool *ret_has_left)
{
    struct waiter *waiter = call->waited;

    if (!waiter || waiter_return(core, waiter) < 0)
        return false;
    call->waited = NULL;
    *ret_has_left = call_leave_pod(core, call);
    waiter_report(core, waiter);
    waiter_tell(core, waiter);
    return true;
}

void call_take_anew(struct core *core, struct call *call)
{
    assert(call->is_granted);
    /* Reported again, as for a move. */
    core_report(core, &(struct record){.type = RECORD_CALL_GONE, .call = {.call_sid = call->call_sid}});
    call_take(core, call);
    heap_set(&core->leases, &call->lease, core->now_ms + first_lease_ms(core));
    call_report(core, call);
}

/* To be called right before the wait is ended. 0 or -ENOMEM. */
static int add_ended(struct result *result, struct arena *arena, const struct ended_wait *wait)
{
    struct ended_wait copy = *wait;

    copy.call_sid = arena_strdup(arena, wait->call_sid);
    copy.merchant_id = arena_strdup(arena, wait->merchant_id);
    copy.provider = arena_strdup(arena, wait->provider);
    if (!copy.call_sid || !copy.merchant_id || !copy.provider)
        return -ENOMEM;
    return ended_waits_add(&result->serve.ended, &result->serve.ended_count, arena, &copy);
}

/* Ends the waiting calls that are silent or past their time. */
static int end_overdue(struct core *core, size_t limit, struct arena *arena, struct result *result)
{
    struct heap_node *node;

    while ((node = heap_first(&core->line.due)) && node->at <= core->now_ms) {
        struct waiter *waiter = CONTAINER_OF(node, struct waiter, due);
        bool is_over = waiter->until_ms <= core->now_ms;
        int err;

        if (result->serve.ended_count >= limit) {
            result->serve.more = true;
            return 0;
        }
        err = add_ended(result, arena,
                        &(struct ended_wait){.call_sid = waiter->call_sid,
                                             .merchant_id = waiter->merchant_id,
                                             .provider = waiter->provider,
                                             .how = is_over ? WAIT_TIMED_OUT : WAIT_ABANDONED,
                                             .waited_ms = waited_ms(core, waiter->since_ms)});
        if (err < 0)
            return err;
        if (is_over)
            waiter_finish(core, waiter, FINISH_TIMED_OUT);
        else
            waiter_leave(core, waiter);
    }
    return 0;
}

/* Ends the granted calls that nobody has taken. */
static int end_untaken(struct core *core, size_t limit, struct arena *arena, struct result *result)
{
    while (!list_is_empty(&core->line.granted)) {
        struct call *call = LIST_ENTRY(core->line.granted.next, struct call, in_granted);
        int err;

        if (!call_is_expired(core, call))
            return 0;
        if (result->serve.ended_count >= limit) {
            result->serve.more = true;
            return 0;
        }
        err = add_ended(result, arena,
                        &(struct ended_wait){.call_sid = call->call_sid,
                                             .merchant_id = call->merchant_id,
                                             .provider = call->provider,
                                             .how = WAIT_ABANDONED,
                                             .waited_ms = waited_ms(core, call->waited_since_ms)});
        if (err < 0)
            return err;
        call_abandon(core, call);
    }
    return 0;
}

int core_serve(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    size_t limit = step_limit(command->serve.limit);
    uint64_t before = core->line.granted_count;
    int err;

    grants_forget_old(&core->line.grants, core->now_ms);
    if (core->line.all.count == 0 && list_is_empty(&core->line.granted))
        return 0;
    MAP_FOR_EACH (node, &core->pools)
        line_mark(core, CONTAINER_OF(node, struct pool, node));
    err = line_serve(core);
    if (err == 0)
        err = end_overdue(core, limit, arena, result);
    if (err == 0)
        err = end_untaken(core, limit, arena, result);
    if (err == 0)
        err = line_serve(core);
    result->serve.granted = (size_t)(core->line.granted_count - before);
    return err;
}
