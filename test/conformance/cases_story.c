/*
 * cases_story.c - what every store remembers of a call for its story: the pods that it has left, how, and
 * its refusal; for an hour, and of 10,000 calls.
 */
#include "../support/world.h"

#define TWO_PODS "{\"standard\":2}"

static struct result *story_of(struct world *world, const char *sid)
{
    return run(world, &(struct command){.type = COMMAND_STORY, .call = {.call_sid = sid}});
}

/* The last time that the call has left a pod. */
static const struct past_call *last_of(struct world *world, const char *sid)
{
    const struct result *result = story_of(world, sid);

    assert_int_equal(result->outcome, OUTCOME_OK);
    assert_true(result->story.past_count > 0);
    return &result->story.past[result->story.past_count - 1];
}

/* The call has left that pod now, in this way. */
static void assert_left(struct world *world, const char *sid, const char *pod_name, enum past_end how)
{
    const struct past_call *past = last_of(world, sid);

    assert_string_equal(past_end_name(past->how), past_end_name(how));
    assert_string_equal(past->pod, pod_name);
    assert_true(past->ended_at_ms == world_now(world));
    assert_true(world->result.story.now_ms == world_now(world));
    assert_int_equal(world->result.story.is_live, how == PAST_MOVED);
}

static void story__of_a_live_call_is_the_call(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    assert_int_equal(story_of(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    allocate(&world, "CA1");
    hold(&world, "CA1");
    assert_int_equal(story_of(&world, "CA1")->outcome, OUTCOME_OK);
    assert_true(world.result.story.is_live);
    assert_string_equal(world.result.story.call.pod, POD0);
    assert_int_equal(world.result.story.call.activity.renewed_by, RENEWED_BY_GATEWAY);
    assert_int_equal(world.result.story.call.activity.carriers.count, 1);
    assert_int_equal(world.result.story.past_count, 0);
    assert_null(world.result.story.refusal);
    world_release(&world);
}

static void story__has_all_that_was_known_of_an_ended_call(void **state)
{
    struct world world;
    const struct past_call *past;
    uint64_t allocated_at_ms;
    uint64_t renewed_at_ms;

    world_init_pods(&world, *state, ONE_TIER, 1);
    run(&world,
        &(struct command){.type = COMMAND_ALLOCATE,
                          .allocate = {.call_sid = "CA1", .merchant_id = "acme", .provider = "twilio"}});
    allocated_at_ms = world.result.allocate.call.allocated_at_ms;
    world_advance(&world, MINUTE);
    heartbeat(&world, POD0, "CA1");
    renewed_at_ms = world_now(&world);
    world_advance(&world, MINUTE);
    release(&world, "CA1");
    world_advance(&world, MINUTE);
    past = last_of(&world, "CA1");
    assert_false(world.result.story.is_live);
    assert_string_equal(past->pod, POD0);
    assert_string_equal(past->pool, "pool:standard");
    assert_string_equal(past->merchant_id, "acme");
    assert_string_equal(past->provider, "twilio");
    assert_true(past->allocated_at_ms == allocated_at_ms);
    assert_true(past->renewed_at_ms == renewed_at_ms);
    assert_int_equal(past->renewed_by, RENEWED_BY_POD);
    assert_true(past->ended_at_ms == world_now(&world) - MINUTE);
    assert_int_equal(past->how, PAST_RELEASED);
    world_release(&world);
}

static void story__says_how_a_call_was_ended_on_purpose(void **state)
{
    struct world world;
    uint64_t attempt;

    world_init_pods(&world, *state, TWO_PODS, 1);
    for (enum finish_reason why = 0; why < FINISH_REASONS; why++) {
        allocate(&world, "CA1");
        release_as(&world, "CA1", NULL, why);
        assert_left(&world, "CA1", POD0, (enum past_end)why);
        world_advance(&world, MINUTE);
    }
    allocate(&world, "CA2");
    hold(&world, "CA2");
    world_advance(&world, 1000);
    assert_int_equal(leave(&world, "CA2", call_of(&world, "CA2")->expires_at_ms)->outcome, OUTCOME_OK);
    assert_left(&world, "CA2", POD0, PAST_CLOSED);
    assert_int_equal(last_of(&world, "CA2")->renewed_by, RENEWED_BY_GATEWAY);
    attempt = ask(&world, "CA3", 7)->allocate.attempt;
    assert_int_equal(undo(&world, "CA3", attempt)->outcome, OUTCOME_OK);
    assert_left(&world, "CA3", POD0, PAST_UNDONE);
    world_release(&world);
}

static void story__says_how_a_call_was_lost(void **state)
{
    struct world world;
    struct pod_seen seen = seen_of(POD0);

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    world_advance(&world, 4 * HOUR);
    sweep(&world);
    assert_left(&world, "CA1", POD0, PAST_EXPIRED);

    allocate(&world, "CA2");
    seen.incarnation = "another";
    see(&world, seen);
    assert_left(&world, "CA2", POD0, PAST_RESTARTED);

    allocate(&world, "CA3");
    renew(&world, "CA3");
    world_advance(&world, MINUTE);
    for (int i = 0; i < HEARTBEAT_MISSES; i++)
        run(&world, &(struct command){.type = COMMAND_HEARTBEAT, .heartbeat = {.pod = POD0}});
    assert_left(&world, "CA3", POD0, PAST_UNMENTIONED);

    allocate(&world, "CA4");
    remove_pod(&world, POD0);
    assert_left(&world, "CA4", POD0, PAST_POD_GONE);
    world_release(&world);
}

static void story__of_a_moved_call_has_both_pods(void **state)
{
    struct world world;
    const char *first;

    world_init_pods(&world, *state, TWO_PODS, 2);
    allocate(&world, "CA1");
    first = call_of(&world, "CA1")->pod;
    renew(&world, "CA1");
    world_advance(&world, MINUTE);
    move(&world, "CA1", first, 0);
    assert_left(&world, "CA1", first, PAST_MOVED);
    assert_string_not_equal(world.result.story.call.pod, first);
    assert_true(world.result.story.call.allocated_at_ms == world.result.story.past[0].allocated_at_ms);
    assert_int_equal(world.result.story.past[0].renewed_by, RENEWED_BY_CLIENT);
    world_advance(&world, MINUTE);
    release(&world, "CA1");
    assert_int_equal(story_of(&world, "CA1")->story.past_count, 2);
    assert_string_equal(world.result.story.past[0].pod, first);
    assert_int_equal(world.result.story.past[0].how, PAST_MOVED);
    assert_string_not_equal(world.result.story.past[1].pod, first);
    assert_int_equal(world.result.story.past[1].how, PAST_RELEASED);
    world_release(&world);
}

static void story__has_the_last_refusal_of_a_call_that_got_a_pod_later(void **state)
{
    struct world world;
    const struct refusal *refusal;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    assert_int_equal(
        run(&world,
            &(struct command){.type = COMMAND_ALLOCATE,
                              .allocate = {.call_sid = "CA2", .merchant_id = "acme", .provider = "plivo"}})
            ->outcome,
        OUTCOME_NO_PODS);
    assert_int_equal(story_of(&world, "CA2")->outcome, OUTCOME_OK);
    assert_false(world.result.story.is_live);
    assert_int_equal(world.result.story.past_count, 0);
    release(&world, "CA1");
    allocate(&world, "CA2");
    refusal = story_of(&world, "CA2")->story.refusal;
    assert_true(world.result.story.is_live);
    assert_non_null(refusal);
    assert_true(refusal->at_ms == world_now(&world));
    assert_string_equal(refusal->merchant_id, "acme");
    assert_string_equal(refusal->provider, "plivo");
    assert_int_equal(refusal->count, 1);
    assert_string_equal(refusal->steps[0].pool, "pool:standard");
    world_advance(&world, 10 * MINUTE);
    assert_null(story_of(&world, "CA2")->story.refusal);
    world_release(&world);
}

static void story__is_forgotten_after_an_hour(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "CA1");
    release(&world, "CA1");
    world_advance(&world, HOUR - MINUTE);
    allocate(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(story_of(&world, "CA1")->story.past_count, 2);
    world_advance(&world, MINUTE - 1);
    assert_int_equal(story_of(&world, "CA1")->story.past_count, 2);
    world_advance(&world, 1);
    assert_int_equal(story_of(&world, "CA1")->story.past_count, 1);
    sweep(&world);
    assert_int_equal(story_of(&world, "CA1")->story.past_count, 1);
    world_advance(&world, HOUR);
    assert_int_equal(story_of(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    sweep(&world);
    assert_int_equal(story_of(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    /* The first one after all were forgotten. */
    allocate(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(story_of(&world, "CA1")->story.past_count, 1);
    world_release(&world);
}

static void story__is_that_of_one_call_and_shows_its_last_pods(void **state)
{
    struct world world;

    world_init_pods(&world, *state, ONE_TIER, 1);
    allocate(&world, "released"); /* the word with which what is remembered of it begins */
    release(&world, "released");
    for (int i = 0; i < PAST_SHOWN_MAX + 3; i++) {
        allocate(&world, "CA1");
        release_as(&world, "CA1", NULL, i < 3 ? FINISH_CLOSED : FINISH_RELEASED);
        world_advance(&world, 1000);
    }
    assert_int_equal(story_of(&world, "released")->story.past_count, 1);
    assert_int_equal(story_of(&world, "CA")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(story_of(&world, "CA1")->story.past_count, PAST_SHOWN_MAX);
    for (int i = 0; i < PAST_SHOWN_MAX; i++) {
        assert_int_equal(world.result.story.past[i].how, PAST_RELEASED);
        assert_true(world.result.story.past[i].ended_at_ms ==
                    world_now(&world) - (uint64_t)(PAST_SHOWN_MAX - i) * 1000);
    }
    world_release(&world);
}

/* With more pods at a time it takes fewer turns: each sweep ends a thousand. */
static void story__is_that_of_the_last_10000_calls(void **state)
{
    enum { ROUND = 500, MORE = 1600 }; /* more than Redis's list may be too long */
    struct world world;
    char sid[16];

    world_init_pods(&world, *state, "{\"s\":{\"type\":\"shared\",\"max_concurrent\":1000,\"target\":1}}", 1);
    for (int i = 0; i < PAST_CALLS_MAX + MORE; i++) {
        snprintf(sid, sizeof(sid), "CA%d", i);
        allocate(&world, sid);
        if (i % ROUND == ROUND - 1)
            lose_calls_of(&world, POD0);
    }
    lose_calls_of(&world, POD0);
    assert_int_equal(story_of(&world, "CA0")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(story_of(&world, "CA1099")->outcome, OUTCOME_NOT_FOUND);
    /* The last ones of a round end in any order. */
    assert_int_equal(story_of(&world, "CA1000")->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(story_of(&world, "CA2000")->outcome, OUTCOME_OK);
    assert_int_equal(story_of(&world, "CA11599")->outcome, OUTCOME_OK);
    /* 10,000 of the last ones, exactly. */
    {
        int known = 0;

        for (int i = 1500; i < 2000; i++) {
            snprintf(sid, sizeof(sid), "CA%d", i);
            known += story_of(&world, sid)->outcome == OUTCOME_OK;
        }
        assert_int_equal(known, 400);
    }
    world_release(&world);
}

#define CASE(name)                                                                                           \
    {                                                                                                        \
#name, name                                                                                          \
    }

const struct world_case cases_story[] = {
    CASE(story__of_a_live_call_is_the_call),
    CASE(story__has_all_that_was_known_of_an_ended_call),
    CASE(story__says_how_a_call_was_ended_on_purpose),
    CASE(story__says_how_a_call_was_lost),
    CASE(story__of_a_moved_call_has_both_pods),
    CASE(story__has_the_last_refusal_of_a_call_that_got_a_pod_later),
    CASE(story__is_forgotten_after_an_hour),
    CASE(story__is_that_of_one_call_and_shows_its_last_pods),
    CASE(story__is_that_of_the_last_10000_calls),
    {NULL, NULL},
};
