/*
 * test_client.c - what the table of behaviours does not say: settings, MD5, breaker, traces, limits, hooks,
 * races.
 */
#include "fake_router.h"
#include "md5.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sr_breaker_limits LIMITS = {.failures = 5, .open_ms = 30000, .half_open = 3};

/* ---- A router that answers everything in one way ---- */

struct script {
    int status;
    const char *body;
    bool is_away;
    int requests;
    char traceparent[SR_TRACEPARENT_SIZE];
    char last_body[4096];
};

static bool script_answer(struct fake_router *router, const struct sr_exchange *exchange,
                          struct smartrouter_answer *answer, bool *ret_may_have_arrived)
{
    struct script *script = router->arg;

    script->requests++;
    snprintf(script->traceparent, sizeof(script->traceparent), "%s", exchange->traceparent);
    snprintf(script->last_body, sizeof(script->last_body), "%s", exchange->body ? exchange->body : "");
    *ret_may_have_arrived = true;
    if (script->is_away)
        return false;
    answer->status = script->status;
    answer->body = strdup(script->body);
    return true;
}

struct world {
    struct script script;
    struct fake_router router;
    struct smartrouter_settings *settings;
    struct smartrouter_client *client;
};

static void world_start(struct world *world)
{
    *world = (struct world){.script = {.status = 200, .body = "{\"success\":true}"},
                            .router = {.answer = script_answer, .now_ms = 1000000}};
    world->router.arg = &world->script;
    world->settings = smartrouter_settings_new();
    assert_non_null(world->settings);
    fake_router_attach(&world->router, world->settings);
    assert_int_equal(
        smartrouter_settings_set(world->settings, "ENABLE_VOICE_AGENT_POD_ISOLATION", "true", NULL, 0), 0);
    assert_int_equal(smartrouter_settings_set(world->settings, "SMART_ROUTER_PERCENTAGE", "100", NULL, 0), 0);
}

static void world_connect(struct world *world)
{
    assert_int_equal(smartrouter_client_new(world->settings, &world->client), SMARTROUTER_OK);
    sr_breaker_reset(world->client->breaker);
}

static void world_end(struct world *world)
{
    smartrouter_client_free(world->client);
    smartrouter_settings_free(world->settings);
}

/* ---- MD5 ---- */

static void md5__gives_the_digests_of_rfc_1321(void **state)
{
    static const char *const CASES[][2] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
        /* 56 and 64 bytes: the length no longer fits into the last block. */
        {"12345678901234567890123456789012345678901234567890123456", "49f193adce178490e34d1b3a4ec0064c"},
        {"1234567890123456789012345678901234567890123456789012345678901234",
         "eb6c4179c0a7c82cc2828c1e6338e165"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(*CASES); i++) {
        uint8_t digest[SR_MD5_SIZE];
        char text[2 * SR_MD5_SIZE + 1];

        sr_md5(CASES[i][0], strlen(CASES[i][0]), digest);
        for (size_t at = 0; at < SR_MD5_SIZE; at++)
            snprintf(text + 2 * at, 3, "%02x", digest[at]);
        assert_string_equal(text, CASES[i][1]);
    }
}

/* ---- Settings ---- */

static void settings__refuse_what_makes_no_sense_and_name_the_variable(void **state)
{
    static const char *const WRONG[][2] = {
        {"SMART_ROUTER_BASE_URL", "ftp://router"},
        {"SMART_ROUTER_BASE_URL", "http://"},
        {"SMART_ROUTER_TIMEOUT_MS", "0"},
        {"SMART_ROUTER_TIMEOUT_MS", "3s"},
        {"SMART_ROUTER_TIMEOUT_MS", "1.5"},
        {"SMART_ROUTER_TIMEOUT_MS", ""},
        {"SMART_ROUTER_RETRY_ATTEMPTS", "11"},
        {"SMART_ROUTER_PERCENTAGE", "101"},
        {"SMART_ROUTER_PERCENTAGE", "-1"},
        {"SMART_ROUTER_PERCENTAGE", "nan"},
        {"SMART_ROUTER_CB_RECOVERY_TIMEOUT", "0"},
        {"VOICE_AGENT_HEARTBEAT_INTERVAL", "inf"},
        {"VOICE_AGENT_BASE_URL", "https://voice.test"},
        {"ENABLE_VOICE_AGENT_POD_ISOLATION", "maybe"},
        {"SMART_ROUTER_API_KEY", "a\nX-Evil: 1"},
        {"SMART_ROUTER_PERCENTAGES", "1"},
    };
    struct smartrouter_settings *settings = smartrouter_settings_new();
    char error[256];

    (void)state;
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(*WRONG); i++) {
        const char *before = smartrouter_settings_get(settings, WRONG[i][0]);

        *error = '\0';
        assert_int_equal(smartrouter_settings_set(settings, WRONG[i][0], WRONG[i][1], error, sizeof(error)),
                         SMARTROUTER_INVALID);
        assert_non_null(strstr(error, WRONG[i][0]));
        assert_ptr_equal(smartrouter_settings_get(settings, WRONG[i][0]), before);
    }
    smartrouter_settings_free(settings);
}

static void settings__blanks_around_a_value_do_not_count(void **state)
{
    struct smartrouter_settings *settings = smartrouter_settings_new();

    (void)state;
    assert_int_equal(smartrouter_settings_set(settings, "SMART_ROUTER_API_KEY", " secret\n", NULL, 0),
                     SMARTROUTER_OK);
    assert_string_equal(smartrouter_settings_get(settings, "SMART_ROUTER_API_KEY"), "secret");
    smartrouter_settings_free(settings);
}

static void settings__a_ttl_shorter_than_the_interval_is_refused(void **state)
{
    struct smartrouter_settings *settings = smartrouter_settings_new();
    char error[256] = "";

    (void)state;
    setenv("VOICE_AGENT_HEARTBEAT_TTL", "10", 1);
    assert_int_equal(smartrouter_settings_read_environment(settings, error, sizeof(error)),
                     SMARTROUTER_INVALID);
    assert_non_null(strstr(error, "VOICE_AGENT_HEARTBEAT_TTL"));
    unsetenv("VOICE_AGENT_HEARTBEAT_TTL");
    smartrouter_settings_free(settings);
}

static void client__takes_new_flags_of_the_rollout_and_nothing_else(void **state)
{
    struct world world;
    char error[256] = "";

    (void)state;
    world_start(&world);
    world_connect(&world);
    assert_true(smartrouter_is_enabled_for(world.client, "shop"));
    assert_int_equal(smartrouter_client_set(world.client, "SMART_ROUTER_MERCHANTS", "other", NULL, 0),
                     SMARTROUTER_OK);
    assert_false(smartrouter_is_enabled_for(world.client, "shop"));
    assert_true(smartrouter_is_enabled_for(world.client, "other"));
    assert_int_equal(
        smartrouter_client_set(world.client, "ENABLE_VOICE_AGENT_POD_ISOLATION", "false", NULL, 0),
        SMARTROUTER_OK);
    assert_false(smartrouter_is_enabled_for(world.client, "other"));
    assert_int_equal(
        smartrouter_client_set(world.client, "SMART_ROUTER_BASE_URL", "http://x", error, sizeof(error)),
        SMARTROUTER_INVALID);
    assert_non_null(strstr(error, "SMART_ROUTER_BASE_URL"));
    world_end(&world);
}

static void client__knows_whose_webhooks_are_the_routers_own(void **state)
{
    struct world world;

    (void)state;
    world_start(&world);
    assert_int_equal(
        smartrouter_settings_set(world.settings, "SMART_ROUTER_ENABLE_PLIVO_DIRECT", "true", NULL, 0), 0);
    world_connect(&world);
    assert_true(smartrouter_is_direct(world.client, "Plivo"));
    assert_false(smartrouter_is_direct(world.client, "twilio"));
    assert_false(smartrouter_is_direct(world.client, "exotel"));
    world_end(&world);
}

/* ---- Breaker ---- */

static struct sr_breaker *open_breaker(const char *url, int64_t now_ms)
{
    struct sr_breaker *breaker = sr_breaker_take(url);
    struct sr_permit permit;

    assert_non_null(breaker);
    sr_breaker_reset(breaker);
    for (int i = 0; i < LIMITS.failures; i++) {
        assert_true(sr_breaker_admit(breaker, &LIMITS, now_ms, &permit));
        sr_breaker_judge(breaker, &LIMITS, now_ms, permit, SR_FAILURE);
    }
    assert_false(sr_breaker_admit(breaker, &LIMITS, now_ms, &permit));
    return breaker;
}

static void breaker__half_open_lets_three_requests_through_at_once(void **state)
{
    struct sr_breaker *breaker = open_breaker("http://a", 0);
    struct sr_permit permits[3], more;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(sr_breaker_admit(breaker, &LIMITS, 30000, &permits[i]));
    assert_false(sr_breaker_admit(breaker, &LIMITS, 30000, &more));
    /* One that was not sent gives its place to another. */
    sr_breaker_judge(breaker, &LIMITS, 30000, permits[0], SR_UNKNOWN);
    assert_true(sr_breaker_admit(breaker, &LIMITS, 30000, &permits[0]));
    for (int i = 0; i < 3; i++)
        sr_breaker_judge(breaker, &LIMITS, 30000, permits[i], SR_SUCCESS);
    assert_int_equal(sr_breaker_state(breaker, &LIMITS, 30000), SMARTROUTER_BREAKER_CLOSED);
    sr_breaker_give_back(breaker);
}

static void breaker__a_result_of_an_earlier_state_changes_nothing(void **state)
{
    struct sr_breaker *breaker = sr_breaker_take("http://b");
    struct sr_permit early, late;

    (void)state;
    sr_breaker_reset(breaker);
    assert_true(sr_breaker_admit(breaker, &LIMITS, 0, &early));
    sr_breaker_give_back(open_breaker("http://b", 0));
    assert_true(sr_breaker_admit(breaker, &LIMITS, 30000, &late));
    sr_breaker_judge(breaker, &LIMITS, 30000, early, SR_FAILURE);
    assert_int_equal(sr_breaker_state(breaker, &LIMITS, 30000), SMARTROUTER_BREAKER_HALF_OPEN);
    sr_breaker_judge(breaker, &LIMITS, 30000, late, SR_FAILURE);
    assert_int_equal(sr_breaker_state(breaker, &LIMITS, 59999), SMARTROUTER_BREAKER_OPEN);
    assert_int_equal(sr_breaker_wait_ms(breaker, &LIMITS, 50000), 10000);
    sr_breaker_give_back(breaker);
}

static void breaker__is_shared_by_all_clients_of_a_url_and_outlives_them(void **state)
{
    struct world one, other;

    (void)state;
    world_start(&one);
    world_connect(&one);
    world_start(&other);
    world_connect(&other);
    one.script.is_away = true;
    for (int i = 0; i < LIMITS.failures; i++)
        smartrouter_heartbeat(one.client, "agent-1", NULL, 0, NULL);
    assert_int_equal(smartrouter_status(other.client, NULL), SMARTROUTER_BREAKER);
    assert_int_equal(other.script.requests, 0);
    world_end(&one);
    smartrouter_client_free(other.client);
    assert_int_equal(smartrouter_client_new(other.settings, &other.client), SMARTROUTER_OK);
    assert_int_equal(smartrouter_breaker(other.client), SMARTROUTER_BREAKER_OPEN);
    sr_breaker_reset(other.client->breaker);
    world_end(&other);
}

static void breaker__urls_that_nobody_uses_make_room(void **state)
{
    struct sr_breaker *taken[SR_BREAKERS_MAX + 1];
    char url[64];
    int count = 0;

    (void)state;
    for (int i = 0; i < 2 * SR_BREAKERS_MAX; i++) {
        struct sr_breaker *breaker;

        snprintf(url, sizeof(url), "http://unused-%d", i);
        breaker = sr_breaker_take(url);
        assert_non_null(breaker);
        sr_breaker_give_back(breaker);
    }
    while (count <= SR_BREAKERS_MAX) {
        snprintf(url, sizeof(url), "http://used-%d", count);
        taken[count] = sr_breaker_take(url);
        if (!taken[count])
            break;
        count++;
    }
    assert_int_equal(count, SR_BREAKERS_MAX);
    while (count > 0)
        sr_breaker_give_back(taken[--count]);
}

/* ---- Traces ---- */

static const char TRACE[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

static bool give_trace(void *arg, char text[56])
{
    snprintf(text, 56, "%s", (const char *)arg);
    return true;
}

static void traceparent__is_the_calls_then_the_hooks_then_a_new_one(void **state)
{
    struct smartrouter_call_request request = {.size = sizeof(request), .call_sid = "CA1"};
    struct world world;
    char first[SR_TRACEPARENT_SIZE];
    union {
        const char *given;
        void *arg;
    } wrong = {.given = "00-nonsense"};

    (void)state;
    world_start(&world);
    smartrouter_settings_set_traceparent(world.settings, give_trace, wrong.arg);
    world_connect(&world);
    world.script.body = "{\"pod_name\":\"a\",\"ws_url\":\"ws://a\"}";
    request.traceparent = TRACE;
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_OK);
    assert_string_equal(world.script.traceparent, TRACE);
    /* What is no trace is not sent: a new one begins, another one each time. */
    request.traceparent = NULL;
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_OK);
    memcpy(first, world.script.traceparent, sizeof(first));
    assert_int_equal(strlen(first), 55);
    assert_memory_equal(first, "00-", 3);
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_OK);
    assert_string_not_equal(world.script.traceparent, first);
    world_end(&world);
}

/* ---- Arguments and limits ---- */

static void requests__wrong_arguments_send_nothing(void **state)
{
    const struct smartrouter_call_request none = {.size = sizeof(none)},
                                          blank = {sizeof(blank), .call_sid = "CA 1"};
    const char *const sids[] = {"CA1", "no/sid"};
    struct smartrouter_answer *answer;
    struct world world;

    (void)state;
    world_start(&world);
    world_connect(&world);
    assert_int_equal(smartrouter_allocate(world.client, &none, &answer), SMARTROUTER_INVALID);
    assert_null(answer);
    /* A caller is on the line: a call that the router would refuse gets its fallback. */
    assert_int_equal(smartrouter_allocate(world.client, &blank, &answer), SMARTROUTER_BUSY);
    assert_string_equal(smartrouter_answer_text(answer, "reason"), "refused");
    smartrouter_answer_free(answer);
    assert_int_equal(smartrouter_release(world.client, "", NULL, NULL, NULL), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_release(world.client, "CA1", "../pods", NULL, NULL), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_renew(world.client, sids, 2, NULL), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_renew(world.client, sids, 0, NULL), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_heartbeat(world.client, "a/b", NULL, 0, NULL), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_drain(world.client, "-a", -1, NULL), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_drain(world.client, "a", 604801, NULL), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_drained(world.client, "a", 61, NULL), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_register(world.client, "a", "", "1", NULL, NULL), SMARTROUTER_INVALID);
    assert_int_equal(smartrouter_remove(world.client, "A", NULL), SMARTROUTER_INVALID);
    assert_int_equal(world.script.requests, 0);
    world_end(&world);
}

static void releases__beyond_the_limit_the_oldest_is_given_up(void **state)
{
    struct world world;
    char call_sid[32];

    (void)state;
    world_start(&world);
    world_connect(&world);
    world.script.is_away = true;
    for (int i = 0; i < SR_RELEASES_MAX + 2; i++) {
        snprintf(call_sid, sizeof(call_sid), "CA%d", i);
        assert_int_equal(smartrouter_release(world.client, call_sid, NULL, NULL, NULL), SMARTROUTER_PENDING);
    }
    assert_int_equal(smartrouter_pending_releases(world.client), SR_RELEASES_MAX);
    assert_string_equal(world.client->releases->call_sid, "CA2");
    world_end(&world);
}

static void allocate__that_fails_again_keeps_the_release_of_its_first_failure(void **state)
{
    const struct smartrouter_call_request request = {.size = sizeof(request), .call_sid = "CA1"};
    struct world world;

    (void)state;
    world_start(&world);
    world_connect(&world);
    world.script.is_away = true;
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_BUSY);
    assert_int_equal(smartrouter_pending_releases(world.client), 1);
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_BUSY);
    /* The breaker is open now: nothing is sent, and the router may still hold what the first one asked for.
     */
    assert_int_equal(smartrouter_breaker(world.client), SMARTROUTER_BREAKER_OPEN);
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_BUSY);
    assert_int_equal(smartrouter_pending_releases(world.client), 1);
    world_end(&world);
}

static const char POD[] = "{\"success\":true,\"pod_name\":\"agent-1\",\"ws_url\":\"wss://a/1\"}";

/* One allocation of this call: with a pod, or without an answer. Returns how many releases wait then. */
static size_t allocate_one(struct world *world, const char *call_sid, bool is_away)
{
    const struct smartrouter_call_request request = {.size = sizeof(request), .call_sid = call_sid};

    sr_breaker_reset(world->client->breaker);
    world->script.body = POD;
    world->script.is_away = is_away;
    assert_int_equal(smartrouter_allocate(world->client, &request, NULL),
                     is_away ? SMARTROUTER_BUSY : SMARTROUTER_OK);
    world->script.is_away = false;
    return smartrouter_pending_releases(world->client);
}

static void allocate__that_fails_does_not_release_a_call_that_got_a_pod_before(void **state)
{
    struct world world;

    (void)state;
    world_start(&world);
    world_connect(&world);
    assert_int_equal(allocate_one(&world, "CA1", false), 0);
    assert_int_equal(allocate_one(&world, "CA1", true), 0);
    assert_int_equal(allocate_one(&world, "CA1", true), 0);
    assert_int_equal(allocate_one(&world, "CA2", true), 1);
    /* A release ends it: from then on an allocation without an answer may have taken a pod. */
    assert_int_equal(smartrouter_release(world.client, "CA1", NULL, NULL, NULL), SMARTROUTER_OK);
    assert_int_equal(allocate_one(&world, "CA1", true), 2);
    /* A release that waits is not lost either. */
    assert_int_equal(allocate_one(&world, "CA3", false), 2);
    world.script.is_away = true;
    assert_int_equal(smartrouter_release(world.client, "CA3", NULL, NULL, NULL), SMARTROUTER_PENDING);
    assert_int_equal(allocate_one(&world, "CA3", true), 3);
    world_end(&world);
}

static void allocate__no_pods_says_that_the_call_has_none_any_more(void **state)
{
    const struct smartrouter_call_request request = {.size = sizeof(request), .call_sid = "CA1"};
    struct world world;

    (void)state;
    world_start(&world);
    world_connect(&world);
    assert_int_equal(allocate_one(&world, "CA1", false), 0);
    world.script.status = 503;
    world.script.body = "{\"error\":\"no pods\"}";
    assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_BUSY);
    assert_int_equal(allocate_one(&world, "CA1", true), 1);
    world_end(&world);
}

static void allocate__that_fails_does_not_release_a_kept_call_unless_it_is_over(void **state)
{
    const struct smartrouter_call_request request = {.size = sizeof(request), .call_sid = "CA1"};
    struct smartrouter_call *call;
    struct world world;

    (void)state;
    world_start(&world);
    world_connect(&world);
    world.script.body = POD;
    assert_int_equal(smartrouter_call_begin(world.client, &request, &call), SMARTROUTER_OK);
    sr_held_empty(&world.client->held); /* forgotten: 10,000 others came since */
    assert_int_equal(allocate_one(&world, "CA1", true), 0);
    assert_int_equal(allocate_one(&world, "CA1", false), 0);
    sr_breaker_reset(world.client->breaker);
    world.script.body = "{\"renewed\":[],\"ended\":[\"CA1\"]}";
    fake_router_advance(&world.router, world.client, 60000);
    assert_true(smartrouter_call_is_over(call));
    assert_int_equal(allocate_one(&world, "CA1", true), 1);
    assert_int_equal(smartrouter_call_end(call, NULL), SMARTROUTER_NOTHING);
    world_end(&world);
}

static void held__beyond_the_limit_the_oldest_is_forgotten(void **state)
{
    struct world world;
    char call_sid[32];

    (void)state;
    world_start(&world);
    world_connect(&world);
    for (int i = 0; i < SR_HELD_MAX; i++) {
        snprintf(call_sid, sizeof(call_sid), "CA%d", i);
        sr_held_add(&world.client->held, call_sid);
    }
    sr_held_add(&world.client->held, "CA0"); /* the newest now */
    assert_int_equal(world.client->held.count, SR_HELD_MAX);
    sr_held_add(&world.client->held, "CA-more");
    assert_int_equal(world.client->held.count, SR_HELD_MAX);
    assert_false(sr_held_has(&world.client->held, "CA1"));
    assert_true(sr_held_has(&world.client->held, "CA0"));
    assert_true(sr_held_has(&world.client->held, "CA2"));
    assert_true(sr_held_has(&world.client->held, "CA-more"));
    sr_held_remove(&world.client->held, "CA5000");
    sr_held_remove(&world.client->held, "CA5000");
    assert_false(sr_held_has(&world.client->held, "CA5000"));
    sr_held_empty(&world.client->held);
    assert_int_equal(world.client->held.count, 0);
    assert_false(sr_held_has(&world.client->held, "CA0"));
    world_end(&world);
}

static void handle_status__releases_at_the_end_of_a_call_only(void **state)
{
    struct world world;

    (void)state;
    world_start(&world);
    world_connect(&world);
    assert_int_equal(smartrouter_handle_status(world.client, "CA1", "ringing", NULL), SMARTROUTER_NOTHING);
    assert_int_equal(world.script.requests, 0);
    assert_int_equal(smartrouter_handle_status(world.client, "CA1", "No-Answer", NULL), SMARTROUTER_OK);
    assert_non_null(strstr(world.script.last_body, "status_callback"));
    world_end(&world);
}

/* ---- Hooks ---- */

struct seen {
    int requests, allocations, breakers, lines;
    bool has_key;
};

static void see_metric(void *arg, const char *name, const char *operation, const char *outcome, double value)
{
    struct seen *seen = arg;

    (void)operation, (void)outcome, (void)value;
    seen->requests += strcmp(name, "request_seconds") == 0;
    seen->allocations += strcmp(name, "allocations") == 0 && strcmp(operation, "busy") == 0;
    seen->breakers += strcmp(name, "breaker") == 0 && strcmp(outcome, "open") == 0;
}

static void see_log(void *arg, enum smartrouter_log_level level, const char *message)
{
    struct seen *seen = arg;

    (void)level;
    seen->lines++;
    seen->has_key = seen->has_key || strstr(message, "top-secret") || strchr(message, '\n');
}

static void hooks__see_requests_allocations_and_the_breaker_and_no_key(void **state)
{
    const struct smartrouter_call_request request = {.size = sizeof(request), .call_sid = "CA1"};
    struct seen seen = {0};
    struct world world;

    (void)state;
    world_start(&world);
    smartrouter_settings_set_metric(world.settings, see_metric, &seen);
    smartrouter_settings_set_log(world.settings, see_log, &seen);
    smartrouter_settings_set(world.settings, "SMART_ROUTER_API_KEY", "top-secret", NULL, 0);
    world_connect(&world);
    world.script.status = 500;
    world.script.body = "{\"error\":\"two\\nlines\"}";
    for (int i = 0; i < 3; i++)
        assert_int_equal(smartrouter_allocate(world.client, &request, NULL), SMARTROUTER_BUSY);
    assert_int_equal(seen.requests, 5);
    assert_int_equal(seen.allocations, 3);
    assert_int_equal(seen.breakers, 1);
    assert_true(seen.lines > 0);
    assert_false(seen.has_key);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(md5__gives_the_digests_of_rfc_1321),
        cmocka_unit_test(settings__refuse_what_makes_no_sense_and_name_the_variable),
        cmocka_unit_test(settings__blanks_around_a_value_do_not_count),
        cmocka_unit_test(settings__a_ttl_shorter_than_the_interval_is_refused),
        cmocka_unit_test(client__takes_new_flags_of_the_rollout_and_nothing_else),
        cmocka_unit_test(client__knows_whose_webhooks_are_the_routers_own),
        cmocka_unit_test(breaker__half_open_lets_three_requests_through_at_once),
        cmocka_unit_test(breaker__a_result_of_an_earlier_state_changes_nothing),
        cmocka_unit_test(breaker__is_shared_by_all_clients_of_a_url_and_outlives_them),
        cmocka_unit_test(breaker__urls_that_nobody_uses_make_room),
        cmocka_unit_test(traceparent__is_the_calls_then_the_hooks_then_a_new_one),
        cmocka_unit_test(requests__wrong_arguments_send_nothing),
        cmocka_unit_test(releases__beyond_the_limit_the_oldest_is_given_up),
        cmocka_unit_test(allocate__that_fails_again_keeps_the_release_of_its_first_failure),
        cmocka_unit_test(allocate__that_fails_does_not_release_a_call_that_got_a_pod_before),
        cmocka_unit_test(allocate__no_pods_says_that_the_call_has_none_any_more),
        cmocka_unit_test(allocate__that_fails_does_not_release_a_kept_call_unless_it_is_over),
        cmocka_unit_test(held__beyond_the_limit_the_oldest_is_forgotten),
        cmocka_unit_test(handle_status__releases_at_the_end_of_a_call_only),
        cmocka_unit_test(hooks__see_requests_allocations_and_the_breaker_and_no_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
