/*
 * rescue.c - a call whose pod breaks goes on: it moves to another pod, or joins the line in front.
 *
 * Only where a live process carries the call and has said that it can connect it to another pod.
 */
#include "core/state.h"

static bool can_be_rescued(const struct core *core, const struct call *call)
{
    return core->settings.rescues && call->can_move && call_has_carrier(core, call);
}

int call_join_line(struct core *core, struct call *call, const char *holder, struct waiter **ret_waiter,
                   bool *ret_has_left)
{
    struct wait_rules rules;
    int err;

    wait_rules_of(core, call->merchant_id, &rules);
    if (rules.max_wait_ms == 0)
        return -EAGAIN;
    err = line_enter(core,
                     &(struct joining){.call_sid = call->call_sid,
                                       .merchant_id = call->merchant_id,
                                       .provider = call->provider,
                                       .holder = holder,
                                       .since_ms = call->allocated_at_ms,
                                       .until_ms = core->now_ms + rules.max_wait_ms,
                                       .claim = call->claim,
                                       .resumes = call->resumes,
                                       .is_rescued = true,
                                       .was_renewed = call->was_renewed},
                     ret_waiter);
    if (err < 0)
        return err;
    (*ret_waiter)->unsettled_at_ms = core->settings.rescues ? core->now_ms : 0;
    *ret_has_left = call_leave_pod(core, call);
    waiter_report(core, *ret_waiter);
    return 0;
}

/* Its carrier should ask where it is now. */
static void tell_carrier(struct core *core, const char *call_sid)
{
    if (core->on_changed)
        core->on_changed(core->on_changed_arg, call_sid);
}

/* True: it goes on. *ret_has_left: its pod was removed with it. */
static bool rescue(struct core *core, struct call *call, bool *ret_has_left)
{
    struct waiter *waiter;
    struct chain chain;
    bool is_unreadable;
    struct pod *to;

    /* Pods that this step has made free are for those who wait, as for an allocation. */
    if (line_serve(core) < 0)
        return false;
    to = pod_for_call(core, call->merchant_id, NULL, &chain, &is_unreadable);
    if (to) {
        *ret_has_left = call_move(core, call, pod_chosen(core, to, call->call_sid));
        tell_carrier(core, call->call_sid);
        return true;
    }
    if (call_join_line(core, call, core->carrier, &waiter, ret_has_left) < 0)
        return false;
    tell_carrier(core, waiter->call_sid);
    return true;
}

/* The place that it would have in line. */
static int64_t place_of(const struct core *core, const struct call *call)
{
    struct wait_rules rules;

    wait_rules_of(core, call->merchant_id, &rules);
    return wait_place(core, call->allocated_at_ms, &rules);
}

bool pod_rescue_calls(struct core *core, struct pod *pod, uint64_t started_at_ms)
{
    char last_sid[CALL_SID_MAX + 1] = "";
    int64_t last_place = INT64_MIN;

    /*
     * In the order of their places, because there may be fewer pods than calls. Without memory, so that none
     * can be missing: each turn looks for the next one. A pod has few calls.
     */
    for (;;) {
        struct call *next = NULL;
        int64_t next_place = INT64_MAX;
        bool has_left;

        LIST_FOR_EACH (link, &pod->calls) {
            struct call *call = LIST_ENTRY(link, struct call, on_pod);
            int64_t place = can_be_rescued(core, call) ? place_of(core, call) : INT64_MIN;

            if (can_be_rescued(core, call) && call_is_older(call, started_at_ms) &&
                places_compare(place, call->call_sid, last_place, last_sid) > 0 &&
                (!next || places_compare(place, call->call_sid, next_place, next->call_sid) < 0)) {
                next = call;
                next_place = place;
            }
        }
        if (!next)
            return false;
        last_place = next_place;
        memcpy(last_sid, next->call_sid, strlen(next->call_sid) + 1);
        if (rescue(core, next, &has_left) && has_left)
            return true;
    }
}
