/*
 * load.c - records in and out: applies the records of a log to a core, and dumps a core as
 * records.
 *
 * A record that does not fit the state is refused with -EBADMSG.
 */
#include "core/state.h"

static int apply_tiers(struct core *core, const struct record *record)
{
    CLEANUP(tier_config_freep) struct tier_config *config = NULL;
    char error[256];
    int rc = tier_config_parse_stored(record->tiers.text, strlen(record->tiers.text), &config, error,
                                      sizeof(error));

    if (rc == 0)
        rc = pools_configure(core, config);
    if (rc)
        return rc == -EINVAL ? -EBADMSG : rc;
    (void)TAKE(config);
    return 0;
}

static int apply_pod(struct core *core, const struct record *record)
{
    struct pod *pod = pod_find(core, record->pod.name);
    struct pool *pool;
    int rc;

    if (!name_is_pod(record->pod.name, strlen(record->pod.name)) ||
        !name_is_pool(record->pod.tier, strlen(record->pod.tier)) ||
        record->pod.source > POD_SOURCE_KUBERNETES || strlen(record->pod.address) > ADDRESS_MAX ||
        strlen(record->pod.incarnation) > INCARNATION_MAX)
        return -EBADMSG;
    rc = pool_get(core, record->pod.tier, &pool);
    if (rc)
        return rc;
    if (!pod)
        rc = pod_new(core, record->pod.name, pool, record->pod.source, &pod);
    else if (pod->pool != pool)
        pod_move(core, pod, pool);
    if (rc == 0)
        rc = pod_set_texts(pod, record->pod.address, record->pod.incarnation);
    if (rc)
        return rc;
    pod->source = record->pod.source;
    pod->is_ready = record->pod.is_ready;
    pod->is_terminating = record->pod.is_terminating;
    pod->is_pinned = record->pod.is_pinned;
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
    int rc;

    if (!pod || !name_is_call_sid(record->call.call_sid, strlen(record->call.call_sid)) ||
        call_find(core, record->call.call_sid) || strlen(record->call.merchant_id) > MERCHANT_ID_MAX ||
        strlen(record->call.provider) > PROVIDER_MAX)
        return -EBADMSG;
    if (!name_is_pool(name_of_pool_label(label), strlen(name_of_pool_label(label))))
        return -EBADMSG;
    rc = pool_get_by_label(core, label, &source);
    if (rc == 0)
        rc = call_new(core, record->call.call_sid, record->call.merchant_id, record->call.provider, pod,
                      source, record->call.allocated_at_ms, record->call.expires_at_ms, &call);
    if (rc)
        return rc;
    call->attempts.are_lost = true;  /* whoever asked for it, nobody knows any more */
    pod->tolerated_load = pod->load; /* it was allowed when it was written down */
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

    if (!call)
        return -EBADMSG;
    call_note_renewed(core, call);
    heap_set(&core->leases, &call->lease, record->renewed.expires_at_ms);
    return 0;
}

static int apply_over(struct core *core, const struct record *record)
{
    const char *call_sid = record->over.call_sid;
    const struct call *call = call_find(core, call_sid);

    if (!name_is_call_sid(call_sid, strlen(call_sid)) || (call && call->was_renewed) ||
        record->over.why >= CALL_OVERS)
        return -EBADMSG;
    return overs_add(&core->overs, call_sid, (enum call_over)record->over.why, record->over.at_ms);
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

int core_apply(struct core *core, const struct record *record)
{
    record_fn on_record = core->on_record;
    int rc = -EBADMSG;

    core->on_record = NULL; /* what comes from the log does not go there again */
    switch (record->type) {
    case RECORD_TIERS:
        rc = apply_tiers(core, record);
        break;
    case RECORD_MERCHANT:
        rc = apply_merchant(core, record);
        break;
    case RECORD_MERCHANT_GONE:
        rc = apply_merchant_gone(core, record);
        break;
    case RECORD_POD:
        rc = apply_pod(core, record);
        break;
    case RECORD_POD_GONE:
        rc = apply_pod_gone(core, record);
        break;
    case RECORD_CALL:
        rc = apply_call(core, record);
        break;
    case RECORD_CALL_GONE:
        rc = apply_call_gone(core, record);
        break;
    case RECORD_RENEWED:
        rc = apply_renewed(core, record);
        break;
    case RECORD_PLACED:
        rc = apply_placed(core, record);
        break;
    case RECORD_OVER:
        rc = apply_over(core, record);
        break;
    }
    core->on_record = on_record;
    return rc;
}

void core_loaded(struct core *core, uint64_t now_ms)
{
    core->now_ms = max_u64(core->now_ms, now_ms);
    for (size_t i = 0; i < core->pods.count; i++) {
        struct pod *pod = core->pods_by_name[i];

        pod_place(core, pod);
    }
    core_listens_again(core, core->now_ms);
}

void core_dump(const struct core *core, record_fn fn, void *arg)
{
    /* core_report only reads from a core but for the callback, which is ours for the duration. */
    struct core reporter = {.on_record = fn, .on_record_arg = arg};

    fn(arg, &(struct record){.type = RECORD_TIERS, .tiers = {.text = core->tiers->text}});
    MAP_FOR_EACH (node, &core->merchants) {
        const struct merchant *merchant = CONTAINER_OF(node, struct merchant, node);

        fn(arg, &(struct record){.type = RECORD_MERCHANT,
                                 .merchant = {.id = merchant->id, .text = merchant->text}});
    }
    for (size_t i = 0; i < core->pods.count; i++) {
        pod_report(&reporter, core->pods_by_name[i]);
        /* Oldest first, so that the newest call of a pod is still its newest afterwards. */
        LIST_FOR_EACH (link, &core->pods_by_name[i]->calls)
            call_report(&reporter, LIST_ENTRY(link, struct call, on_pod));
    }
    LIST_FOR_EACH (link, &core->overs.by_age) {
        const struct over *over = LIST_ENTRY(link, struct over, by_age);

        fn(arg,
           &(struct record){.type = RECORD_OVER,
                            .over = {.call_sid = over->call_sid, .why = over->why, .at_ms = over->at_ms}});
    }
}
