/*
 * cases_owner.c - what every store answers to those who may speak for some calls only: the webhooks of a
 * provider, and agents whose pods fit a pattern.
 */
#include "../support/world.h"

#define POD0 "voice-agent-0"
#define POD1 "voice-agent-1"

static const char one_pod[] = "{\"standard\":1}";
static const char two_pods[] = "{\"standard\":2}";

/* A webhook of the provider asks for a pod. */
static struct result *webhook(struct world *world, const char *sid, const char *provider)
{
    return run(
        world,
        &(struct command){
            .type = COMMAND_ALLOCATE,
            .allocate = {
                .call_sid = sid, .merchant_id = "", .provider = provider, .is_webhook = true, .attempt = 7}});
}

/* The API asks for a pod; `provider` "" if it names none. */
static struct result *api(struct world *world, const char *sid, const char *provider)
{
    return run(world,
               &(struct command){.type = COMMAND_ALLOCATE,
                                 .allocate = {.call_sid = sid, .merchant_id = "", .provider = provider}});
}

/* A webhook of the provider says that the call is over. */
static struct result *callback(struct world *world, const char *sid, const char *provider)
{
    return run(world,
               &(struct command){.type = COMMAND_RELEASE,
                                 .release = {.call_sid = sid, .provider = provider, .why = FINISH_CLOSED}});
}

/* A router that carries the call says where it is and whose. */
static struct result *carry_for(struct world *world, const char *sid, const char *pod_name,
                                const char *provider)
{
    const char *sids[] = {sid};
    const char *pods[] = {pod_name};
    const char *providers[] = {provider};

    return run(
        world,
        &(struct command){
            .type = COMMAND_RENEW,
            .renew = {
                .call_sids = sids, .count = 1, .carrier = CARRIER, .pods = pods, .providers = providers}});
}

static struct result *renew_within(struct world *world, const char *sid, const char *pattern)
{
    const char *sids[] = {sid};

    return run(world, &(struct command){.type = COMMAND_RENEW,
                                        .renew = {.call_sids = sids, .count = 1, .pattern = pattern}});
}

static void webhook__gets_the_calls_of_its_own_provider_only(void **state)
{
    struct world world;

    world_init_pods(&world, *state, one_pod, 1);
    assert_int_equal(webhook(&world, "CA1", "twilio")->outcome, OUTCOME_OK);
    assert_int_equal(webhook(&world, "CA1", "plivo")->outcome, OUTCOME_FORBIDDEN);
    assert_null(world.result.allocate.call.pod);
    assert_int_equal(webhook(&world, "CA1", "twilio")->outcome, OUTCOME_OK);
    assert_true(world.result.allocate.was_existing);
    /* Whoever has a key sees them all. */
    assert_true(api(&world, "CA1", "")->allocate.was_existing);
    assert_true(api(&world, "CA1", "plivo")->allocate.was_existing);
    assert_string_equal(call_of(&world, "CA1")->provider, "twilio");
    world_release(&world);
}

static void webhook__does_not_get_the_calls_of_the_api(void **state)
{
    struct world world;

    world_init_pods(&world, *state, two_pods, 2);
    api(&world, "CA1", "");
    api(&world, "CA2", "plivo"); /* placed for Plivo, who asks for it later */
    assert_int_equal(webhook(&world, "CA1", "twilio")->outcome, OUTCOME_FORBIDDEN);
    assert_int_equal(webhook(&world, "CA2", "twilio")->outcome, OUTCOME_FORBIDDEN);
    assert_true(webhook(&world, "CA2", "plivo")->allocate.was_existing);
    assert_int_equal(callback(&world, "CA1", "twilio")->outcome, OUTCOME_FORBIDDEN);
    assert_int_equal(callback(&world, "CA2", "plivo")->outcome, OUTCOME_OK);
    assert_true(call_exists(&world, "CA1"));
    world_release(&world);
}

static void webhook__that_was_refused_leaves_no_attempt_to_take_back(void **state)
{
    struct world world;

    world_init_pods(&world, *state, one_pod, 1);
    ask(&world, "CA1", 3);
    assert_int_equal(webhook(&world, "CA1", "plivo")->outcome, OUTCOME_FORBIDDEN);
    assert_int_equal(undo(&world, "CA1", 7)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(undo(&world, "CA1", 3)->outcome, OUTCOME_OK);
    world_release(&world);
}

static void webhook__does_not_give_a_lease_to_a_call_of_others_that_has_run_out(void **state)
{
    struct world world;

    world_init_pods(&world, *state, one_pod, 1);
    webhook(&world, "CA1", "twilio");
    world_advance(&world, 4 * HOUR);
    assert_int_equal(webhook(&world, "CA1", "plivo")->outcome, OUTCOME_FORBIDDEN);
    assert_int_equal(sweep(&world)->sweep.ended.count, 1);
    assert_int_equal(webhook(&world, "CA1", "plivo")->outcome, OUTCOME_OK);
    assert_false(world.result.allocate.was_existing);
    world_release(&world);
}

static void callback__ends_the_calls_of_its_own_provider_only(void **state)
{
    struct world world;

    world_init_pods(&world, *state, one_pod, 1);
    webhook(&world, "CA1", "twilio");
    assert_int_equal(callback(&world, "CA1", "plivo")->outcome, OUTCOME_FORBIDDEN);
    assert_null(world.result.release.call.pod);
    assert_int_equal(pod(&world, POD0)->state, POD_BUSY);
    assert_int_equal(callback(&world, "CA2", "plivo")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(callback(&world, "CA1", "twilio")->outcome, OUTCOME_OK);
    assert_int_equal(pod(&world, POD0)->state, POD_AVAILABLE);
    world_release(&world);
}

static void owner__stays_when_the_call_moves(void **state)
{
    struct world world;

    world_init_pods(&world, *state, two_pods, 2);
    webhook(&world, "CA1", "twilio");
    assert_int_equal(move(&world, "CA1", call_of(&world, "CA1")->pod, 0)->outcome, OUTCOME_OK);
    assert_true(world.result.move.was_moved);
    assert_int_equal(callback(&world, "CA1", "plivo")->outcome, OUTCOME_FORBIDDEN);
    assert_true(webhook(&world, "CA1", "twilio")->allocate.was_existing);
    assert_int_equal(callback(&world, "CA1", "twilio")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void owner__of_an_adopted_call_is_the_one_that_its_carrier_names(void **state)
{
    struct world world;

    world_init_pods(&world, *state, one_pod, 1);
    assert_int_equal(carry_for(&world, "CA1", POD0, "twilio")->renew.adopted.count, 1);
    assert_string_equal(call_of(&world, "CA1")->provider, "twilio");
    assert_int_equal(callback(&world, "CA1", "plivo")->outcome, OUTCOME_FORBIDDEN);
    assert_int_equal(callback(&world, "CA1", "twilio")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void owner__of_a_call_that_its_pod_brought_back_is_nobody_until_a_carrier_knows(void **state)
{
    struct world world;

    world_init_pods(&world, *state, one_pod, 1);
    assert_int_equal(heartbeat(&world, POD0, "CA1")->heartbeat.adopted.count, 1);
    assert_int_equal(callback(&world, "CA1", "twilio")->outcome, OUTCOME_FORBIDDEN);
    assert_int_equal(webhook(&world, "CA1", "twilio")->outcome, OUTCOME_FORBIDDEN);
    assert_int_equal(carry_for(&world, "CA1", POD0, "")->renew.renewed.count, 1);
    assert_string_equal(call_of(&world, "CA1")->provider, "");
    assert_int_equal(carry_for(&world, "CA1", POD0, "twilio")->renew.renewed.count, 1);
    assert_string_equal(call_of(&world, "CA1")->provider, "twilio");
    /* Once it is known nobody changes it. */
    assert_int_equal(carry_for(&world, "CA1", POD0, "plivo")->renew.renewed.count, 1);
    assert_string_equal(call_of(&world, "CA1")->provider, "twilio");
    assert_int_equal(carry_for(&world, "CA1", POD1, "plivo")->renew.conflicts.count, 1);
    assert_int_equal(callback(&world, "CA1", "twilio")->outcome, OUTCOME_OK);
    world_release(&world);
}

static void pattern__bounds_what_a_release_ends(void **state)
{
    static const char *const others[] = {"voice-agent-1", "voice-agent-1*", "other-*", "voice-agent-0-*",
                                         "voice-agent-00"};
    static const char *const fitting[] = {"voice-agent-0", "voice-agent-0*", "voice-*", "*"};
    struct world world;

    world_init_pods(&world, *state, one_pod, 1);
    for (size_t i = 0; i < ARRAY_LEN(fitting); i++) {
        allocate(&world, "CA1");
        for (size_t k = 0; k < ARRAY_LEN(others); k++)
            assert_int_equal(release_as(&world, "CA1", others[k], FINISH_RELEASED)->outcome,
                             OUTCOME_NOT_FOUND);
        assert_int_equal(release_as(&world, "CA1", fitting[i], FINISH_RELEASED)->outcome, OUTCOME_OK);
    }
    world_release(&world);
}

static void pattern__bounds_what_a_renewal_keeps(void **state)
{
    struct world world;
    uint64_t expires_at_ms;

    world_init_pods(&world, *state, one_pod, 1);
    allocate(&world, "CA1");
    expires_at_ms = call_of(&world, "CA1")->expires_at_ms;
    assert_int_equal(renew_within(&world, "CA1", "voice-agent-1")->renew.conflicts.count, 1);
    assert_int_equal(renew_within(&world, "CA1", "other-*")->renew.conflicts.count, 1);
    assert_int_equal(call_of(&world, "CA1")->expires_at_ms, expires_at_ms);
    assert_int_equal(renew_within(&world, "CA2", "voice-*")->renew.unknown.count, 1);
    assert_int_equal(renew_within(&world, "CA1", "voice-*")->renew.renewed.count, 1);
    assert_int_equal(renew_within(&world, "CA1", POD0)->renew.renewed.count, 1);
    assert_int_equal(call_count(&world), 1);
    world_release(&world);
}

const struct world_case cases_owner[] = {
    {"webhook__gets_the_calls_of_its_own_provider_only", webhook__gets_the_calls_of_its_own_provider_only},
    {"webhook__does_not_get_the_calls_of_the_api", webhook__does_not_get_the_calls_of_the_api},
    {"webhook__that_was_refused_leaves_no_attempt_to_take_back",
     webhook__that_was_refused_leaves_no_attempt_to_take_back},
    {"webhook__does_not_give_a_lease_to_a_call_of_others_that_has_run_out",
     webhook__does_not_give_a_lease_to_a_call_of_others_that_has_run_out},
    {"callback__ends_the_calls_of_its_own_provider_only", callback__ends_the_calls_of_its_own_provider_only},
    {"owner__stays_when_the_call_moves", owner__stays_when_the_call_moves},
    {"owner__of_an_adopted_call_is_the_one_that_its_carrier_names",
     owner__of_an_adopted_call_is_the_one_that_its_carrier_names},
    {"owner__of_a_call_that_its_pod_brought_back_is_nobody_until_a_carrier_knows",
     owner__of_a_call_that_its_pod_brought_back_is_nobody_until_a_carrier_knows},
    {"pattern__bounds_what_a_release_ends", pattern__bounds_what_a_release_ends},
    {"pattern__bounds_what_a_renewal_keeps", pattern__bounds_what_a_renewal_keeps},
    {NULL, NULL},
};
