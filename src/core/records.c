/*
 * records.c - records in and out: applies the records of a log to a core, and dumps a core as
 * records.
 *
 * A record that does not fit the state is refused with -EBADMSG.
 */
#include <stdlib.h>

#include "core/state.h"

static int apply_tiers(struct core *core, const struct record *record)
{
    CLEANUP(tier_config_freep) struct tier_config *config = NULL;
    char error[256];
    int err = tier_config_parse_stored(record->tiers.text, strlen(record->tiers.text), &config, error,
                                       sizeof(error));

    if (err == 0)
        err = pools_configure(core, config);
    if (err < 0)
        return err == -EINVAL ? -EBADMSG : err;
    (void)TAKE(config);
    return 0;
}

static int apply_pod(struct core *core, const struct record *record)
{
    struct pod *pod = pod_find(core, record->pod.name);
    struct pool *pool;
    int err;

    if (!name_is_pod(record->pod.name, strlen(record->pod.name)) ||
        !name_is_pool(record->pod.tier, strlen(record->pod.tier)) ||
        record->pod.source > POD_SOURCE_KUBERNETES ||
        (record->pod.is_surplus && record->pod.draining_until_ms != DRAIN_WITHOUT_END) ||
        strlen(record->pod.address) > ADDRESS_MAX || strlen(record->pod.incarnation) > INCARNATION_MAX)
        return -EBADMSG;
    err = pool_get(core, record->pod.tier, &pool);
    if (err < 0)
        return err;
    if (!pod)
        err = pod_new(core, record->pod.name, pool, record->pod.source, &pod);
    else if (pod->pool != pool)
        pod_move(core, pod, pool);
    if (err == 0)
        err = pod_set_texts(pod, record->pod.address, record->pod.incarnation);
    if (err < 0)
        return err;
    pod->source = record->pod.source;
    pod->is_ready = record->pod.is_ready;
    pod->is_terminating = record->pod.is_terminating;
    pod->is_pinned = record->pod.is_pinned;
    pod->is_surplus = record->pod.is_surplus;
    pod->draining_until_ms = record->pod.draining_until_ms;
    pod->held_until_ms = record->pod.held_until_ms;
    pod->tolerated_load = pod->load;
    pod_place(core, pod);
    return 0;
}

static int apply_pod_gone(struct core *core, const struct record *record)
{
    struct pod *pod = pod_find(core, record->pod.name);

    if (!pod || pod->load)
        return -EBADMSG;
    pod_free(core, pod);
    return 0;
}

static int apply_call(struct core *core, const struct record *record)
{
    struct pod *pod = pod_find(core, record->call.pod);
    const char *label = record->call.pool;
    struct pool *source;
    struct call *call;
    int err;

    if (!pod || !name_is_call_sid(record->call.call_sid, strlen(record->call.call_sid)) ||
        call_find(core, record->call.call_sid) || strlen(record->call.merchant_id) > MERCHANT_ID_MAX ||
        strlen(record->call.provider) > PROVIDER_MAX)
        return -EBADMSG;
    if (!name_is_pool(name_of_pool_label(label), strlen(name_of_pool_label(label))))
        return -EBADMSG;
    err = pool_get_by_label(core, label, &source);
    if (err < 0)
        return err;
    err = call_new(core, record->call.call_sid, record->call.merchant_id, record->call.provider, pod, source,
                   record->call.allocated_at_ms, record->call.expires_at_ms, &call);
    if (err < 0)
        return err;
    call->attempts.are_lost = true;  /* its attempts are not in the log */
    pod->tolerated_load = pod->load; /* it was allowed when it was recorded */
    pod_place(core, pod);
    return 0;
}

static int apply_call_gone(struct core *core, const struct record *record)
{
    struct call *call = call_find(core, record->call.call_sid);
    struct pod *pod;

    if (!call)
        return -EBADMSG;
    pod = call->pod;
    call_free(core, call);
    pod_place(core, pod);
    return 0;
}

static int apply_placed(struct core *core, const struct record *record)
{
    struct call *call = call_find(core, record->placed.call_sid);

    if (!call)
        return -EBADMSG;
    call->placed_at_ms = record->placed.at_ms;
    return 0;
}

static int apply_renewed(struct core *core, const struct record *record)
{
    struct call *call = call_find(core, record->renewed.call_sid);

    if (!call || record->renewed.by >= RENEWERS)
        return -EBADMSG;
    call_note_renewed(core, call);
    call_take(core, call);
    /* Neither is known of RECORD_RENEWED. */
    call->renewed_at_ms = record->renewed.at_ms;
    call->renewed_by = (enum renewer)record->renewed.by;
    heap_set(&core->leases, &call->lease, record->renewed.expires_at_ms);
    return 0;
}

static int apply_connected(struct core *core, const struct record *record)
{
    struct call *call = call_find(core, record->connected.call_sid);

    if (!call || !call->was_renewed)
        return -EBADMSG;
    call->was_connected = true;
    return 0;
}

static int apply_tombstone(struct core *core, const struct record *record)
{
    const char *call_sid = record->tombstone.call_sid;
    const struct call *call = call_find(core, call_sid);

    if (!name_is_call_sid(call_sid, strlen(call_sid)) || (call && call->was_renewed) ||
        record->tombstone.why >= FINISH_REASONS)
        return -EBADMSG;
    return tombstones_add(&core->tombstones, call_sid, (enum finish_reason)record->tombstone.why,
                          record->tombstone.at_ms);
}

/* Reads the labels of pools. 0; -ENOMEM; -EBADMSG. */
static int apply_labels(struct core *core, const char *text, struct pool *ret_pools[CHAIN_MAX],
                        size_t *ret_count)
{
    *ret_count = 0;
    while (*text) {
        char label[POOL_LABEL_MAX + 1];
        size_t len = strcspn(text, " ");
        const char *name;
        int err;

        if (len > POOL_LABEL_MAX || *ret_count == CHAIN_MAX)
            return -EBADMSG;
        memcpy(label, text, len);
        label[len] = '\0';
        name = name_of_pool_label(label);
        if (!name_is_pool(name, strlen(name)))
            return -EBADMSG;
        err = pool_get(core, name, &ret_pools[*ret_count]);
        if (err < 0)
            return err;
        for (size_t i = 0; i < *ret_count; i++) {
            if (ret_pools[i] == ret_pools[*ret_count])
                return -EBADMSG;
        }
        ++*ret_count;
        text += len + (text[len] == ' ');
    }
    return 0;
}

static int apply_waiting(struct core *core, const struct record *record)
{
    const struct joining joining = {
        .call_sid = record->waiting.call_sid,
        .merchant_id = record->waiting.merchant_id,
        .provider = record->waiting.provider,
        .since_ms = record->waiting.since_ms,
        .until_ms = record->waiting.until_ms,
        .is_rescued = record->waiting.flags & RECORD_IS_RESCUED,
        .was_renewed = record->waiting.flags & RECORD_WAS_RENEWED,
    };
    struct waiter *before = waiter_find(core, joining.call_sid);
    struct call *call = call_find(core, joining.call_sid);
    struct pool *pools[CHAIN_MAX];
    struct waiter *waiter;
    size_t count;
    int err;

    if (!name_is_call_sid(joining.call_sid, strlen(joining.call_sid)) ||
        (call && (!call->is_granted || call->waited)) || strlen(joining.merchant_id) > MERCHANT_ID_MAX ||
        strlen(joining.provider) > PROVIDER_MAX || joining.since_ms > INT64_MAX ||
        record->waiting.ahead_ms > INT64_MAX || record->waiting.priority > MERCHANT_PRIORITY_MAX ||
        record->waiting.flags & ~RECORD_WAITING_FLAGS)
        return -EBADMSG;
    err = apply_labels(core, record->waiting.pools, pools, &count);
    if (err < 0)
        return err;
    for (size_t i = 0; i < count; i++)
        pool_ref(pools[i]); /* the one before may have been the last to refer to it */
    if (before)
        waiter_free(core, before);
    err = line_put(core, &joining, (uint32_t)record->waiting.priority,
                   (int64_t)joining.since_ms - (int64_t)record->waiting.ahead_ms, pools, count, &waiter);
    for (size_t i = 0; i < count; i++)
        pool_unref(core, pools[i]);
    if (err == 0 && call) {
        waiter_set_aside(core, waiter);
        call->waited = waiter;
    }
    return err;
}

static int apply_waiting_gone(struct core *core, const struct record *record)
{
    struct waiter *waiter = waiter_find(core, record->waiting.call_sid);

    if (!waiter)
        return -EBADMSG;
    waiter_free(core, waiter);
    return 0;
}

static int apply_granted(struct core *core, const struct record *record)
{
    struct call *call = call_find(core, record->granted.call_sid);

    if (!call || call->is_granted)
        return -EBADMSG;
    call->is_granted = true;
    call->waited_since_ms = record->granted.since_ms;
    granted_add(core, call);
    return 0;
}

static int apply_merchant(struct core *core, const struct record *record)
{
    if (!name_is_merchant_id(record->merchant.id, strlen(record->merchant.id)))
        return -EBADMSG;
    return merchant_put(core, record->merchant.id, record->merchant.text);
}

static int apply_merchant_gone(struct core *core, const struct record *record)
{
    struct merchant *merchant = merchant_find(core, record->merchant.id);

    if (!merchant)
        return -EBADMSG;
    merchant_free(core, merchant);
    return 0;
}

static int apply_version(struct core *core, const struct record *record)
{
    const char *id = record->version.merchant_id;
    const char *text = record->version.text;
    struct history *history;
    struct version *version;
    int err;

    if ((id[0] && !name_is_merchant_id(id, strlen(id))) || (!id[0] && !text[0]))
        return -EBADMSG;
    history = history_find(&core->histories, id);
    if (record->version.number <= (history ? history_newest(history)->number : 0))
        return -EBADMSG;
    version = version_new(record->version.number, record->version.at_ms, record->version.by, text);
    if (!version)
        return -ENOMEM;
    err = history_get(&core->histories, id, &history);
    if (err < 0) {
        free(version);
        return err;
    }
    history_add(&core->histories, history, version);
    return 0;
}

int core_apply(struct core *core, const struct record *record)
{
    record_fn on_record = core->on_record;
    int err = -EBADMSG;

    core->on_record = NULL; /* records of the log are not written again */
    switch (record->type) {
    case RECORD_TIERS:
        err = apply_tiers(core, record);
        break;
    case RECORD_MERCHANT:
        err = apply_merchant(core, record);
        break;
    case RECORD_MERCHANT_GONE:
        err = apply_merchant_gone(core, record);
        break;
    case RECORD_POD:
        err = apply_pod(core, record);
        break;
    case RECORD_POD_GONE:
        err = apply_pod_gone(core, record);
        break;
    case RECORD_CALL:
        err = apply_call(core, record);
        break;
    case RECORD_CALL_GONE:
        err = apply_call_gone(core, record);
        break;
    case RECORD_RENEWED:
    case RECORD_RENEWED_BY:
        err = apply_renewed(core, record);
        break;
    case RECORD_PLACED:
        err = apply_placed(core, record);
        break;
    case RECORD_TOMBSTONE:
        err = apply_tombstone(core, record);
        break;
    case RECORD_VERSION:
        err = apply_version(core, record);
        break;
    case RECORD_WAITING:
        err = apply_waiting(core, record);
        break;
    case RECORD_WAITING_GONE:
        err = apply_waiting_gone(core, record);
        break;
    case RECORD_GRANTED:
        err = apply_granted(core, record);
        break;
    case RECORD_CONNECTED:
        err = apply_connected(core, record);
        break;
    }
    assert(!core->on_record);
    core->on_record = on_record;
    return err;
}

void core_loaded(struct core *core, uint64_t now_ms)
{
    core->now_ms = max_u64(core->now_ms, now_ms);
    for (size_t i = 0; i < core->pods.count; i++) {
        struct pod *pod = core->pods_by_name[i];

        pod_place(core, pod);
    }
    core_after_outage(core, core->now_ms);
    /*
     * The process that carried these calls has gone: their streams have RESUME_MS to come back. Without
     * records, for the same reason.
     */
    for (uint32_t i = 0; core->settings.rescues && i < core->slot_count; i++) {
        struct call *call = core->slots[i];

        if (call && call->renewed_by == RENEWED_BY_GATEWAY && !call->is_granted) {
            heap_set(&core->leases, &call->lease, core->now_ms + RESUME_MS);
            call_unsettle(core, call);
        }
    }
    for (size_t i = 0; core->settings.rescues && i < core->line.all.count; i++) {
        struct waiter *waiter = core->line.all.waiters[i];

        if (waiter->is_rescued)
            waiter->unsettled_at_ms = core->now_ms;
    }
}

static void dump_history(const struct history *history, record_fn fn, void *arg)
{
    LIST_FOR_EACH (link, &history->versions) {
        const struct version *version = LIST_ENTRY(link, struct version, in_history);

        fn(arg, &(struct record){.type = RECORD_VERSION,
                                 .version = {.merchant_id = history->merchant_id,
                                             .by = version->by,
                                             .text = version->text,
                                             .number = version->number,
                                             .at_ms = version->at_ms}});
    }
}

/* Those of removed merchants in the order of their removal: the oldest is forgotten first. */
static void dump_histories(const struct histories *histories, record_fn fn, void *arg)
{
    MAP_FOR_EACH (node, &histories->by_merchant) {
        const struct history *history = CONTAINER_OF(node, struct history, node);

        if (list_is_empty(&history->in_removed))
            dump_history(history, fn, arg);
    }
    LIST_FOR_EACH (link, &histories->removed)
        dump_history(LIST_ENTRY(link, struct history, in_removed), fn, arg);
}

void core_dump(const struct core *core, record_fn fn, void *arg)
{
    /* core_report uses only the callback and the counter of a core: these are of our own. */
    struct core reporter = {.on_record = fn, .on_record_arg = arg};
    size_t calls = 0;

    fn(arg, &(struct record){.type = RECORD_TIERS, .tiers = {.text = core->tiers->text}});
    MAP_FOR_EACH (node, &core->merchants) {
        const struct merchant *merchant = CONTAINER_OF(node, struct merchant, node);

        fn(arg, &(struct record){.type = RECORD_MERCHANT,
                                 .merchant = {.id = merchant->id, .text = merchant->text}});
    }
    for (size_t i = 0; i < core->pods.count; i++) {
        pod_report(&reporter, core->pods_by_name[i]);
        /* Oldest first, so that the newest call of a pod is still its newest afterwards. */
        LIST_FOR_EACH (link, &core->pods_by_name[i]->calls) {
            call_report(&reporter, LIST_ENTRY(link, struct call, on_pod));
            calls++;
        }
    }
    assert(calls == core->calls.count);
    for (size_t i = 0; i < core->line.all.count; i++)
        waiter_report(&reporter, core->line.all.waiters[i]);
    LIST_FOR_EACH (link, &core->tombstones.by_age) {
        const struct tombstone *tombstone = LIST_ENTRY(link, struct tombstone, by_age);

        fn(arg, &(struct record){.type = RECORD_TOMBSTONE,
                                 .tombstone = {.call_sid = tombstone->call_sid,
                                               .why = tombstone->why,
                                               .at_ms = tombstone->at_ms}});
    }
    dump_histories(&core->histories, fn, arg);
}
