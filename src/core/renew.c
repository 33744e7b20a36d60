/*
 * renew.c - the command renew: calls are alive.
 */
#include "core/state.h"

/*
 * The store does not know the call: adopts it on the pod that it is connected to, if that is known.
 */
static int renew_unknown(struct core *core, const char *call_sid, const char *provider, const char *on_pod,
                         enum renewer by, struct result *result, struct call **ret_call,
                         struct name_array **ret_list)
{
    struct pod *pod = on_pod ? pod_find(core, on_pod) : NULL;
    int err;

    *ret_call = NULL;
    if (!pod) {
        bool has_ended = tombstones_has(&core->tombstones, call_sid, core->now_ms);

        *ret_list = has_ended ? &result->renew.finished : &result->renew.unknown;
        return 0;
    }
    err = call_adopt(core, call_sid, provider, pod, by, ret_call);
    switch (err) {
    case 0:
        *ret_list = &result->renew.adopted;
        return 0;
    case -EALREADY:
        *ret_list = &result->renew.finished;
        return 0;
    case -EAGAIN:
        *ret_list = &result->renew.conflicts;
        return 0;
    default:
        return err;
    }
}

/* Renews one call. *ret_list: the list of the answer that it belongs to. 0 or -ENOMEM. */
static int renew_one(struct core *core, const struct command *command, size_t at, struct result *result,
                     struct name_array **ret_list)
{
    const char *call_sid = command->renew.call_sids[at];
    const char *on_pod = command->renew.pods ? command->renew.pods[at] : NULL;
    const char *provider = command->renew.providers ? command->renew.providers[at] : "";
    const char *pattern = command->renew.pattern;
    enum renewer by = command->renew.carrier ? RENEWED_BY_GATEWAY : RENEWED_BY_CLIENT;
    struct call *call = call_find(core, call_sid);

    if (!call) {
        int err = renew_unknown(core, call_sid, provider, on_pod, by, result, &call, ret_list);

        if (err < 0 || !call)
            return err;
    } else if ((on_pod && strcmp(call->pod->name, on_pod) != 0) ||
               (pattern && !name_fits_pod(pattern, call->pod->name))) {
        *ret_list = &result->renew.conflicts;
        return 0;
    } else {
        *ret_list = &result->renew.renewed;
    }
    call_learn_provider(core, call, provider);
    call_renew(core, call, by);
    assert(call->was_renewed && call->misses == 0);
    if (command->renew.carrier) {
        call->is_carried = true;
        call_connect(core, call);
        call_set_can_move(core, call, on_pod && command->renew.can_move && command->renew.can_move[at]);
    }
    return 0;
}

int core_renew(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    struct name_array *lists[] = {&result->renew.renewed, &result->renew.adopted, &result->renew.unknown,
                                  &result->renew.finished, &result->renew.conflicts};
    size_t count = command->renew.count;
    int err = 0;

    carrier_note(core, command->renew.carrier);
    for (size_t i = 0; err == 0 && i < ARRAY_LEN(lists); i++)
        err = name_array_init(lists[i], arena, count);
    for (size_t i = 0; err == 0 && i < count; i++) {
        struct name_array *list = NULL;

        err = renew_one(core, command, i, result, &list);
        if (err == 0)
            err = name_array_add(list, arena, command->renew.call_sids[i]);
    }
    /* Each call is in exactly one list. */
    assert(err < 0 || result->renew.renewed.count + result->renew.adopted.count +
                              result->renew.unknown.count + result->renew.finished.count +
                              result->renew.conflicts.count ==
                          count);
    result->renew.expires_at_ms = core->now_ms + core->settings.lease_ttl_ms;
    return err;
}
