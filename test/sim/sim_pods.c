/* sim_pods.c - steps about pods, their tiers and the merchants. */
#include "sim.h"

void sim_drain(struct sim *sim)
{
    const char *pod = sim->pod_names[pick(sim, PODS)];

    if (pick(sim, 3))
        sim->command =
            (struct command){.type = COMMAND_DRAIN, .drain = {.pod = pod, .ttl_ms = pick(sim, 200000)}};
    else
        sim->command = (struct command){.type = COMMAND_UNDRAIN, .undrain = {.pod = pod}};
    execute(sim);
}

/* One observation of pod number `at`, of whatever has become of it. */
static struct pod_seen random_seen(struct sim *sim, unsigned at, char incarnation[16])
{
    struct shadow_pod *pod = &sim->pods[at];

    if (pick(sim, 40) == 0)
        pod->incarnation++;
    snprintf(incarnation, 16, "uid-%u", pod->incarnation);
    return (struct pod_seen){
        .name = sim->pod_names[at],
        .address = pick(sim, 2) ? "10.0.0.1:8000" : "",
        .incarnation = pod->source == POD_SOURCE_STATIC ? NULL : incarnation,
        .tier = pick(sim, 30) == 0 ? "standard" : NULL,
        .source = pod->source,
        .is_ready = pick(sim, 5) != 0,
        .is_terminating = pick(sim, 20) == 0,
        .hold_back = pick(sim, 6) == 0,
    };
}

void sim_pod_seen(struct sim *sim)
{
    unsigned at = pick(sim, PODS);
    char incarnation[16];
    struct pod_seen seen = random_seen(sim, at, incarnation);
    bool is_registration = seen.source == POD_SOURCE_API;

    if (is_registration) {
        seen.is_ready = true;
        seen.is_terminating = false;
    }
    sim->command = (struct command){.type = COMMAND_POD_SEEN,
                                    .pod_seen = {.pod = seen, .is_registration = is_registration}};
    execute(sim);
    /* A readiness blip, a drain, a new address: none of them ends a call. */
    if (sim->result.outcome != OUTCOME_OK)
        return;
    SIM_CHECK(sim,
              sim->pods[at].accepted != sim->pods[at].incarnation || sim->result.pod_seen.ended.count == 0,
              "an observation of the same incarnation ended a call");
    sim->pods[at].accepted = sim->pods[at].incarnation;
    check_ended(sim, &sim->result.pod_seen.ended);
}

void sim_pod_gone(struct sim *sim)
{
    unsigned at = pick(sim, PODS);

    sim->command = (struct command){.type = COMMAND_POD_GONE,
                                    .pod_gone = {.pod = sim->pod_names[at], .source = sim->pods[at].source}};
    execute(sim);
    SIM_CHECK(sim, sim->result.outcome != OUTCOME_CONFLICT, "pod %s has an unexpected source",
              sim->pod_names[at]);
    if (sim->result.outcome == OUTCOME_OK)
        check_ended(sim, &sim->result.pod_gone.ended);
}

void sim_sync(struct sim *sim)
{
    enum pod_source source = pick(sim, 2) ? POD_SOURCE_KUBERNETES : POD_SOURCE_STATIC;
    struct pod_seen seen[PODS];
    char incarnations[PODS][16];
    size_t count = 0;

    for (unsigned i = 0; i < PODS; i++) {
        if (sim->pods[i].source == source && pick(sim, 8))
            seen[count++] = random_seen(sim, i, incarnations[i]);
    }
    sim->command =
        (struct command){.type = COMMAND_SYNC, .sync = {.source = source, .pods = seen, .count = count}};
    execute(sim);
    if (sim->result.outcome != OUTCOME_OK)
        return;
    for (size_t i = 0; i < count; i++) {
        struct shadow_pod *pod = &sim->pods[pod_index(sim, seen[i].name)];

        pod->accepted = pod->incarnation;
    }
    check_ended(sim, &sim->result.sync.ended);
}

static void check_nothing_lost(struct sim *sim)
{
    struct result pods;

    look(sim, (struct command){.type = COMMAND_PODS, .pods = {.state = -1, .limit = PAGE_MAX}}, &pods);
    for (size_t i = 0; i < pods.pods.count; i++) {
        const struct pod_info *pod = &pods.pods.pods[i];

        SIM_CHECK(sim, pod->state != POD_DRAINING || pod->is_draining, "%s is lost in a drain that has ended",
                  pod->name);
        SIM_CHECK(sim, pod->state != POD_SUSPENDED || pod->is_ready || pod->calls.count,
                  "%s is suspended for nothing", pod->name);
    }
}

void sim_sweep(struct sim *sim)
{
    do {
        sim->command = (struct command){.type = COMMAND_SWEEP, .sweep = {.limit = 1 + pick(sim, 20)}};
        execute(sim);
        check_ended(sim, &sim->result.sweep.ended);
    } while (sim->result.sweep.more);
    for (int i = 0; i < SIDS; i++)
        SIM_CHECK(sim, !sim->calls[i].is_known || is_live(sim, &sim->calls[i]), "the sweep left a dead call");
    check_nothing_lost(sim);
}

void sim_rebalance(struct sim *sim)
{
    sim->command = (struct command){.type = COMMAND_REBALANCE, .rebalance = {.limit = pick(sim, 5)}};
    execute(sim);
}

void sim_tiers(struct sim *sim)
{
    static const char *const configs[] = {
        "{}",
        "{\"gold\":2,\"standard\":3,\"basic\":{\"type\":\"shared\",\"target\":2,\"max_concurrent\":4}}",
        "{\"standard\":{\"type\":\"shared\",\"max_concurrent\":2,\"target\":4}}",
        "{\"tiers\":{\"standard\":2,\"vip\":{\"target\":2,\"reserved\":true},\"merchant:m1\":{\"target\":2}},"
        "\"default_chain\":[\"standard\"]}",
        "{\"basic\":{\"type\":\"exclusive\",\"target\":3},\"gold\":{\"type\":\"shared\",\"max_concurrent\":2,"
        "\"target\":2}}",
        "{\"a\":1,\"b\":{\"type\":\"shared\",\"target\":3,\"max_concurrent\":1}}",
        "{\"a\":-1}",
        "nonsense",
    };

    sim->command = (struct command){.type = COMMAND_TIERS_SET,
                                    .tiers_set = {.text = configs[pick(sim, (unsigned)ARRAY_LEN(configs))]}};
    execute(sim);
}

void sim_merchant(struct sim *sim)
{
    static const char *const configs[] = {
        "{\"tier\":\"gold\"}",       "{\"tier\":\"standard\"}",
        "{\"pool\":\"m1\"}",         "{\"fallback\":[\"basic\",\"a\"]}",
        "{\"tier\":\"vip\"}",        "{}",
        "{\"pool\":\"nobody\"}",     "{\"tier\":\"b\"}",
        "{\"fallback\":[\"none\"]}", "{\"tier\":7}",
    };
    char id[16];

    snprintf(id, sizeof(id), "m%u", pick(sim, MERCHANTS));
    if (pick(sim, 4))
        sim->command = (struct command){
            .type = COMMAND_MERCHANT_SET,
            .merchant_set = {.merchant_id = id, .text = configs[pick(sim, (unsigned)ARRAY_LEN(configs))]}};
    else
        sim->command = (struct command){.type = COMMAND_MERCHANT_REMOVE, .merchant = {.merchant_id = id}};
    execute(sim);
}
