/*
 * heartbeat.c - the commands renew, heartbeat and present: signs of life of calls, pods and
 * routers.
 */
#include "core/state.h"

/* One call of a renewal: which list of the answer it belongs to; NULL with *ret_rc if there is no memory. */
static struct name_array *renew_one(struct core *core, const struct command *command, size_t at,
                                    struct result *result, int *ret_rc)
{
    const char *call_sid = command->renew.call_sids[at];
    const char *on_pod = command->renew.pods ? command->renew.pods[at] : NULL;
    const char *provider = command->renew.providers ? command->renew.providers[at] : "";
    const char *pattern = command->renew.pattern;
    struct call *call = call_find(core, call_sid);
    struct name_array *list = &result->renew.renewed;
    struct pod *pod;

    *ret_rc = 0;
    if (!call) {
        pod = on_pod ? pod_find(core, on_pod) : NULL;
        if (!pod)
            return overs_has(&core->overs, call_sid, core->now_ms) ? &result->renew.over
                                                                   : &result->renew.unknown;
        *ret_rc = call_adopt(core, call_sid, provider, pod, &call);
        if (*ret_rc == -EALREADY || *ret_rc == -EAGAIN) {
            list = *ret_rc == -EALREADY ? &result->renew.over : &result->renew.conflicts;
            *ret_rc = 0;
            return list;
        }
        if (*ret_rc)
            return NULL;
        list = &result->renew.adopted;
    } else if ((on_pod && strcmp(call->pod->name, on_pod) != 0) ||
               (pattern && !name_fits_pod(pattern, call->pod->name))) {
        return &result->renew.conflicts;
    }
    call_learn_provider(core, call, provider);
    call_renew(core, call);
    if (command->renew.carrier) {
        call->is_carried = true;
        call->was_connected = true;
    }
    return list;
}

int core_renew(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct name_array *lists[] = {&result->renew.renewed, &result->renew.adopted, &result->renew.unknown,
                                  &result->renew.over, &result->renew.conflicts};
    size_t count = command->renew.count;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(lists); i++)
        rc = name_array_init(lists[i], arena, count);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct name_array *list = renew_one(core, command, i, result, &rc);

        if (list)
            rc = name_array_add(list, arena, command->renew.call_sids[i]);
    }
    result->renew.expires_at_ms = core->now_ms + core->settings.lease_ttl_ms;
    return rc;
}

static int heartbeat_adopt(struct core *core, struct pod *pod, const char *call_sid, struct arena *arena,
                           struct result *result)
{
    struct name_array *list = &result->heartbeat.adopted;
    struct call *call;
    int rc = call_adopt(core, call_sid, "", pod, &call);

    if (rc == -EAGAIN)
        list = &result->heartbeat.conflicts;
    else if (rc == -EALREADY)
        list = &result->heartbeat.over;
    else if (rc)
        return rc;
    return name_array_add(list, arena, call_sid);
}

static int heartbeat_listed(struct core *core, struct pod *pod, const char *call_sid, struct arena *arena,
                            struct result *result)
{
    struct call *call = call_find(core, call_sid);

    if (!call)
        return heartbeat_adopt(core, pod, call_sid, arena, result);
    if (call->pod != pod)
        return name_array_add(&result->heartbeat.conflicts, arena, call_sid);
    call_renew(core, call);
    return name_array_add(&result->heartbeat.renewed, arena, call_sid);
}

static bool is_listed(const struct command *command, const char *call_sid)
{
    for (size_t i = 0; i < command->heartbeat.count; i++) {
        if (strcmp(command->heartbeat.call_sids[i], call_sid) == 0)
            return true;
    }
    return false;
}

/* Ends the calls that the pod no longer speaks of; young ones may simply not have reached it yet. */
static int heartbeat_unlisted(struct core *core, struct pod *pod, const struct command *command,
                              struct arena *arena, struct result *result)
{
    LIST_FOR_EACH (link, &pod->calls) {
        struct call *call = LIST_ENTRY(link, struct call, on_pod);
        int rc;

        if (is_listed(command, call->call_sid))
            continue;
        if (call->misses < HEARTBEAT_MISSES)
            call->misses++;
        if (call->misses < HEARTBEAT_MISSES || core->now_ms - call->allocated_at_ms <= HEARTBEAT_YOUNG_MS)
            continue;
        rc = ended_array_add(&result->heartbeat.ended, arena, call, CALL_END_UNMENTIONED);
        if (rc)
            return rc;
        if (call_lose(core, call, CALL_END_UNMENTIONED))
            break; /* the pod was only waiting for this call, and has left with it */
    }
    return 0;
}

int core_heartbeat(struct core *core, const struct command *command, struct arena *arena,
                   struct result *result)
{
    size_t count = command->heartbeat.count;
    struct pod *pod = pod_find(core, command->heartbeat.pod);
    int rc;

    if (!pod) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    rc = name_array_init(&result->heartbeat.renewed, arena, count);
    if (rc == 0)
        rc = name_array_init(&result->heartbeat.adopted, arena, count);
    if (rc == 0)
        rc = name_array_init(&result->heartbeat.over, arena, count);
    if (rc == 0)
        rc = name_array_init(&result->heartbeat.conflicts, arena, count);
    if (rc)
        return rc;

    pod->heartbeat_at_ms = core->now_ms;
    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = heartbeat_listed(core, pod, command->heartbeat.call_sids[i], arena, result);
    if (pod->held_until_ms > core->now_ms) {
        /* It has spoken: what it carries is known now, so it may get calls again. After that time a sweep
         * sees to it. */
        pod->held_until_ms = 0;
        if (!pod_should_leave(core, pod))
            pod_report(core, pod);
        if (pod_settle(core, pod))
            return rc; /* it was only held here, and carries nothing */
    }
    if (rc == 0)
        rc = heartbeat_unlisted(core, pod, command, arena, result);
    return rc;
}

/* Core has one process: there is nobody to tell, and nothing to remember. */
int core_present(struct core *core UNUSED, const struct command *command UNUSED, struct arena *arena UNUSED,
                 struct result *result)
{
    result->present.others = 0;
    return 0;
}
