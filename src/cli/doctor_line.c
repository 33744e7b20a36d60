/*
 * doctor_line.c - what can be wrong with the line, and with what waiting and resuming need.
 */
#include "cli/doctor.h"

#include "cli/text.h"
#include "cli/view.h"

bool doctor_find_stuck_waits(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    unsigned long long stuck = facts->stuck_calls;

    if (stuck == 0)
        return false;
    SAY("%llu call%s for a pod of %s, although one is free: the leader does not serve the line, or somebody "
        "has changed the store by hand.",
        stuck, stuck == 1 ? " waits" : "s wait", facts->stuck_pool);
    HELP("smart-router call %s; smart-router status   # restart the leader if this lasts",
         doctor_word_of(facts->stuck_call ? facts->stuck_call : ""));
    return true;
}

bool doctor_find_full_line(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    unsigned long long waiting = member_u64(facts->status, "waiting"),
                       max = member_u64(facts->settings, "hold_max_calls");

    if (max == 0 || waiting < max)
        return false;
    SAY("The line is full: %llu calls wait, and further ones are refused (HOLD_MAX_CALLS).", waiting);
    HELP("smart-router waiting   # add pods: smart-router autoscale");
    return true;
}

bool doctor_find_waiting(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    unsigned long long waiting = member_u64(facts->status, "waiting");

    if (waiting == 0)
        return false;
    SAY("%llu call%s for a pod, the longest for ", waiting, waiting == 1 ? " waits" : "s wait");
    text_append_age(&finding->sentence, facts->longest_wait_s);
    SAY(" (without the time of rescued ones).");
    HELP("smart-router waiting   # add pods: smart-router autoscale");
    return true;
}

/* Names that are missing for what was asked for: with them, calls of providers wait and resume. */
static bool find_missing_for_waiting(const struct doctor_facts *facts, struct doctor_finding *finding,
                                     bool wants_waits)
{
    const char *names = json_get_string(facts->settings, "missing_for_waiting");
    bool waits = member_u64(facts->settings, "hold_max_wait_seconds") > 0;

    if (!names || !doctor_has_token(facts) || waits != wants_waits)
        return false;
    if (waits)
        SAY("HOLD_MAX_WAIT is set, but callers are refused at once when no pod is free");
    else
        SAY("Callers lose their calls when a router stops");
    SAY(": this needs RESCUE=true, GATEWAY_SECRET, PUBLIC_BASE_URL, and a WS_URL_TEMPLATE with "
        "/ws/pod/{pod}. Look at %s.",
        names);
    HELP("smart-router check-config | grep -E '^(RESCUE|GATEWAY_SECRET|PUBLIC_BASE_URL|WS_URL_TEMPLATE)='");
    return true;
}

bool doctor_find_no_waits(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    return find_missing_for_waiting(facts, finding, true);
}

bool doctor_find_no_resumes(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    return member_is_true(facts->settings, "rescues") && find_missing_for_waiting(facts, finding, false);
}
