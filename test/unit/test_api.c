/*
 * test_api.c - what the API answers when the store does what it does rarely: fail, refuse, hold strange
 * texts.
 *
 * What requests do with a real store is in test/functional.
 */
#include "fake_api.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

enum { LOG_TEXT_MAX = 4096 };

static int nowhere; /* /dev/null: the failures are part of the tests */

#define ALLOCATE "/api/v1/allocate"
#define SID_BODY "{\"call_sid\":\"CA1\"}"
#define BUSY_TWIML "<Response><Say>All agents are &lt;busy&gt;</Say><Hangup/></Response>"

static void allocate__gives_the_documented_answer(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    world.fake.result.allocate.call =
        (struct call_info){.call_sid = "CA1", .pod = "pod-1", .pool = "pool:gold", .allocated_at_ms = 0};
    ask(&world, ALLOCATE, NULL, SID_BODY);
    assert_answer(&world, 200,
                  "{\"success\":true,\"pod_name\":\"pod-1\","
                  "\"ws_url\":\"wss://h/pod-1/twilio/order-confirmation/v2\",\"source_pool\":\"pool:gold\","
                  "\"allocated_at\":\"1970-01-01T00:00:00Z\",\"was_existing\":false}");
    assert_string_equal(world.fake.command.allocate.call_sid, "CA1");
    assert_string_equal(world.fake.command.allocate.merchant_id, "");
    assert_string_equal(world.fake.command.allocate.provider, ""); /* twilio in the URL, but nobody's call */
    assert_false(world.fake.command.allocate.is_webhook);
    world_release(&world);
}

#define CLIENT_GONE "the client has closed its side of the connection before it was answered"

static const char *const allocate_routes[] = {ALLOCATE, "/api/v1/twilio/allocate", "/api/v1/plivo/allocate",
                                              "/api/v1/exotel/allocate"};

static void ask_for_a_pod(struct world *world, size_t route)
{
    world->fake.result.allocate.call =
        (struct call_info){.call_sid = "CA1", .pod = "pod-1", .pool = "pool:gold"};
    world->fake.result.allocate.attempt = 42;
    ask(world, allocate_routes[route], route == 2 ? "CallUUID=CA1" : "CallSid=CA1",
        route == 0 ? SID_BODY : NULL);
}

static void assert_undone(const struct world *world)
{
    assert_int_equal(world->fake.commands, 2);
    assert_int_equal(world->fake.command.type, COMMAND_UNDO);
    assert_string_equal(world->fake.command.undo.call_sid, "CA1");
    assert_int_equal(world->fake.command.undo.attempt, 42);
}

static void allocate__is_not_begun_for_a_client_that_has_gone(void **state UNUSED)
{
    for (size_t i = 0; i < ARRAY_LEN(allocate_routes); i++) {
        struct world world;

        world_init(&world, &plain_settings);
        client_waits_for = 0;
        ask_for_a_pod(&world, i);
        assert_int_equal(world.fake.commands, 0);
        assert_answer(&world, 503, CLIENT_GONE);
        world_release(&world);
    }
}

static void allocate__is_undone_if_the_answer_meets_a_closed_connection(void **state UNUSED)
{
    for (size_t i = 0; i < ARRAY_LEN(allocate_routes); i++) {
        struct world world;

        world_init(&world, &plain_settings);
        ask_for_a_pod(&world, i);
        assert_int_equal(world.fake.commands, 1);
        assert_int_equal(world.request.status, 200);
        assert_non_null(world.request.unsent);
        world.request.unsent(world.request.unsent_arg);
        assert_undone(&world);
        world.fake.done(world.fake.arg, -ENOTCONN, NULL); /* the store goes on with it by itself */
        world_release(&world);
    }
}

static void release__is_carried_out_for_a_client_that_has_gone(void **state UNUSED)
{
    static const char *const routes[] = {"/api/v1/release", "/api/v1/renew", "/api/v1/twilio/status"};

    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        struct world world;

        world_init(&world, &plain_settings);
        world.fake.result.outcome = OUTCOME_NOT_FOUND;
        client_waits_for = 0;
        ask(&world, routes[i], "CallSid=CA1&CallStatus=completed", i < 2 ? SID_BODY : NULL);
        client_waits_for = CLIENT_STAYS;
        assert_int_equal(world.fake.commands, 1);
        assert_int_equal(world.fake.command.type, i == 1 ? COMMAND_RENEW : COMMAND_RELEASE);
        world_release(&world);
    }
}

static void allocate__is_undone_for_a_client_that_has_gone(void **state UNUSED)
{
    for (size_t i = 0; i < ARRAY_LEN(allocate_routes); i++) {
        struct world world;

        world_init(&world, &plain_settings);
        client_waits_for = 1;
        ask_for_a_pod(&world, i);
        assert_undone(&world);
        assert_answer(&world, 503, CLIENT_GONE);
        world_release(&world);
    }
}

static void allocate__a_store_that_fails_is_unavailable(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    world.fake.err = -EIO;
    ask(&world, ALLOCATE, NULL, SID_BODY);
    assert_answer(&world, 503,
                  "{\"success\":false,\"error\":\"store unavailable\",\"code\":\"unavailable\"}");
    assert_string_equal(world.request.retry_after, "1");
    world.fake.err = 0;
    world.fake.refuse = -ENOSPC;
    ask(&world, ALLOCATE, NULL, SID_BODY);
    assert_answer(&world, 503, "\"code\":\"unavailable\"");
    world_release(&world);
}

static void every_route__a_store_that_fails_is_unavailable(void **state UNUSED)
{
    static const char *const looks[] = {"/api/v1/pods",           "/api/v1/pod/{name}",      "/api/v1/calls",
                                        "/api/v1/call/{sid}",     "/api/v1/merchants",       "/api/v1/tiers",
                                        "/api/v1/merchants/{id}", "/api/v1/call/{sid}/story"};
    static const char *const changes[][2] = {
        {"/api/v1/release", SID_BODY},
        {"/api/v1/renew", SID_BODY},
        {"/api/v1/drain", "{\"pod_name\":\"p\"}"},
        {"/api/v1/undrain", "{\"pod_name\":\"p\"}"},
        {"/api/v1/pods", "{\"pod_name\":\"p\",\"address\":\"h:1\"}"},
        {"/api/v1/pod/{name}/heartbeat", "{\"call_sids\":[]}"},
    };
    struct world world;

    world_init(&world, &plain_settings);
    world.fake.err = -ENOTCONN;
    for (size_t i = 0; i < ARRAY_LEN(looks); i++) {
        ask(&world, looks[i], NULL, NULL);
        assert_answer(&world, 503, "\"code\":\"unavailable\"");
    }
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        ask(&world, changes[i][0], NULL, changes[i][1]);
        assert_answer(&world, 503, "\"code\":\"unavailable\"");
        assert_string_equal(world.request.retry_after, "1");
    }
    ask(&world, "/api/v1/status", NULL, NULL);
    assert_answer(&world, 200, "\"status\":\"down\"");
    world_release(&world);
}

static void webhooks__a_store_that_fails_is_told_to_the_caller(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    world.fake.err = -ETIMEDOUT;
    ask(&world, "/api/v1/twilio/allocate", NULL, "CallSid=CA1");
    assert_answer(&world, 200, BUSY_TWIML);
    ask(&world, "/api/v1/plivo/allocate", "CallUUID=u", NULL);
    assert_answer(&world, 200, "<Response><Speak>All agents are &lt;busy&gt;</Speak><Hangup/></Response>");
    ask(&world, "/api/v1/exotel/allocate", "CallSid=CA1", NULL);
    assert_answer(&world, 503, "\"code\":\"unavailable\"");
    assert_string_not_equal(world.request.retry_after, "");
    world_release(&world);
}

static void webhooks__fallback_url_saves_the_call(void **state UNUSED)
{
    struct api_settings settings = plain_settings;
    struct world world;

    settings.fallback_ws_url = "wss://fallback/a&b";
    world_init(&world, &settings);
    for (int i = 0; i < 2; i++) {
        world.fake.err = i == 0 ? -EIO : 0;
        world.fake.result.outcome = OUTCOME_NO_PODS;
        ask(&world, "/api/v1/twilio/allocate", NULL, "CallSid=CA1");
        assert_answer(&world, 200, "<Stream url=\"wss://fallback/a&amp;b\"/>");
        ask(&world, "/api/v1/plivo/allocate", "CallUUID=u", NULL);
        assert_answer(&world, 200, ">wss://fallback/a&amp;b</Stream>");
        ask(&world, "/api/v1/exotel/allocate", "CallSid=CA1", NULL);
        assert_answer(&world, 200, "{\"url\":\"wss://fallback/a&b\"}");
        /* Clients of the JSON API have a fallback of their own. */
        ask(&world, ALLOCATE, NULL, SID_BODY);
        assert_int_equal(world.request.status, 503);
    }
    world_release(&world);
}

static void webhooks__body_wins_for_the_call_and_query_for_the_rest(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    world.fake.result.outcome = OUTCOME_NO_PODS;
    ask(&world, "/api/v1/twilio/allocate", "CallSid=query&merchant_id=query",
        "CallSid=body&merchant_id=body");
    assert_string_equal(world.fake.command.allocate.call_sid, "body");
    assert_string_equal(world.fake.command.allocate.merchant_id, "query");
    ask(&world, "/api/v1/exotel/allocate", "CallSid=query", " {\"CallSid\":\"json\",\"reseller_id\":\"r\"}");
    assert_string_equal(world.fake.command.allocate.call_sid, "json");
    assert_string_equal(world.fake.command.allocate.merchant_id, "r");
    world_release(&world);
}

/* What is logged until log_end goes to a file of its own. */
static FILE *log_begin(enum log_level level)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    log_flush();
    log_configure(level, LOG_JSON);
    log_set_fd(fileno(file));
    return file;
}

static void log_end(FILE *file, char text[LOG_TEXT_MAX])
{
    log_flush();
    log_configure(LOG_WARN, LOG_JSON);
    log_set_fd(nowhere);
    rewind(file);
    text[fread(text, 1, LOG_TEXT_MAX - 1, file)] = '\0';
    fclose(file);
}

static void assert_one_line(const char *text, const char *part)
{
    if (!strstr(text, part) || strchr(text, '\n') != strrchr(text, '\n'))
        fail_msg("logged %s", text);
}

static void heartbeat__a_call_that_it_ends_is_logged_with_the_key(void **state UNUSED)
{
    struct ended_call ended[] = {{.call_sid = "CA1", .pod = "x"}};
    struct key key = {.name = "bot", .pattern = "x", .role = ROLE_AGENT};
    char text[LOG_TEXT_MAX];
    struct world world;
    FILE *file;

    world_init(&world, &plain_settings);
    world.fake.result.heartbeat.ended.calls = ended;
    world.fake.result.heartbeat.ended.count = 1;
    asked_with = &key;
    file = log_begin(LOG_INFO);
    ask(&world, "/api/v1/pod/{name}/heartbeat", NULL, "{\"call_sids\":[]}");
    log_end(file, text);
    assert_int_equal(world.request.status, 200);
    assert_one_line(text, "\"call_sid\":\"CA1\",\"pod\":\"x\",\"key\":\"bot\"");
    key.pattern = "y";
    ask(&world, "/api/v1/pod/{name}/heartbeat", NULL, "{\"call_sids\":[]}");
    asked_with = NULL;
    assert_int_equal(world.request.status, 403);
    assert_int_equal(world.fake.commands, 1);
    world_release(&world);
}

static void allocate__refusal_is_logged_with_what_stood_in_the_way(void **state UNUSED)
{
    struct refusal_step steps[] = {
        {.pool = "gold", .is_configured = true, .pods = 1, .by_state = {[POD_BUSY] = 1}},
        {.pool = "standard",
         .is_configured = true,
         .pods = 3,
         .by_state = {[POD_BUSY] = 2, [POD_DRAINING] = 1}},
        {.pool = "empty", .is_configured = true},
        {.pool = "merchant:9shines"},
    };
    struct refusal refusal = {.steps = steps, .count = ARRAY_LEN(steps)};
    char text[LOG_TEXT_MAX];
    struct world world;
    FILE *file;

    world_init(&world, &plain_settings);
    world.fake.result.outcome = OUTCOME_NO_PODS;
    world.fake.result.allocate.refusal = &refusal;
    file = log_begin(LOG_INFO);
    ask(&world, ALLOCATE, NULL, "{\"call_sid\":\"CA1\",\"merchant_id\":\"m\"}");
    log_end(file, text);
    assert_answer(&world, 503, "{\"success\":false,\"error\":\"no pods available\",\"code\":\"no_pods\"}");
    assert_string_not_equal(world.request.retry_after, "");
    assert_non_null(strstr(text, "\"chain\":\"gold: 1 busy; standard: 2 busy, 1 draining; empty: no pods; "
                                 "merchant:9shines: not configured\""));
    assert_one_line(text, "\"level\":\"warn\"");
    world_release(&world);
}

/* The answer has all of these texts, in this order. */
static void assert_tells(const struct world *world, const char *const *texts, size_t count)
{
    const char *at = world->request.answer;

    for (size_t i = 0; i < count; i++) {
        const char *found = strstr(at, texts[i]);

        if (!found) {
            fail_msg("\"%s\" is not told: %s", texts[i], world->request.answer);
            return;
        }
        at = found + strlen(texts[i]);
    }
}

static void story__every_end_has_its_sentence(void **state UNUSED)
{
    static const char *const sentences[PAST_ENDS] = {
        [PAST_RELEASED] = "a client released it.",
        [PAST_CLOSED] = "its stream was closed, or its provider said that it is over.",
        [PAST_TIMED_OUT] = "it waited for too long.",
        [PAST_UNDONE] = "its allocation was undone, because its client did not get the answer.",
        [PAST_MOVED] = "its pod p-1 could not be reached, and it moved to another one.",
        [PAST_EXPIRED] = "nobody renewed its lease on the pod p-1.",
        [PAST_POD_GONE] = "its pod p-1 was removed, or stopped sending heartbeats.",
        [PAST_RESTARTED] = "its pod p-1 restarted.",
        [PAST_UNMENTIONED] = "the heartbeats of its pod p-1 left it out.",
    };
    struct past_call past = {.pod = "p-1",
                             .pool = "pool:gold",
                             .merchant_id = "",
                             .provider = "",
                             .allocated_at_ms = UINT64_C(1770000000000),
                             .ended_at_ms = UINT64_C(1770000060000)};
    struct world world;

    for (enum past_end how = 0; how < PAST_ENDS; how++) {
        char event[64];
        const char *texts[] = {
            "\"state\":\"ended\"", " ended 2 hours ago: ", sentences[how], "\"allocated\"", event,
            sentences[how] + 1};

        past.how = how;
        snprintf(event, sizeof(event), "{\"time\":\"2026-02-02T02:41:00Z\",\"event\":\"%s\"",
                 past_end_name(how));
        world_init(&world, &plain_settings);
        world.fake.result.story.now_ms = past.ended_at_ms + UINT64_C(7200000);
        world.fake.result.story.past = &past;
        world.fake.result.story.past_count = 1;
        ask(&world, "/api/v1/call/{sid}/story", NULL, NULL);
        assert_int_equal(world.request.status, 200);
        assert_tells(&world, texts, ARRAY_LEN(texts));
        world_release(&world);
    }
}

static void story__a_move_that_found_no_pod_and_one_that_did(void **state UNUSED)
{
    const char *routers[] = {"router-a", "router-b"};
    static const char *const texts[] = {
        "\"state\":\"connected\"",
        "now p-2 of pool:gold: the routers router-a and router-b carry",
        "It got the pod p-1 of pool:gold. Plivo asked for it.",
        "\"refused\"",
        "Its pod could not be reached, and no other pod was free: it stayed there.",
        "\"moved\"",
        "It moved from the pod p-1, which could not be reached, to the pod p-2 of pool:gold.",
        "\"carried\"",
        "The routers router-a and router-b carry its stream."};
    struct refusal refusal = {.at_ms = UINT64_C(1770000030000)};
    struct past_call past = {.pod = "p-1",
                             .pool = "pool:gold",
                             .merchant_id = "",
                             .provider = "plivo",
                             .allocated_at_ms = UINT64_C(1770000000000),
                             .ended_at_ms = UINT64_C(1770000060000),
                             .how = PAST_MOVED};
    struct world world;

    world_init(&world, &plain_settings);
    world.fake.result.story.now_ms = UINT64_C(1770000090000);
    world.fake.result.story.is_live = true;
    world.fake.result.story.call = (struct call_info){
        .call_sid = "x",
        .pod = "p-2",
        .address = "",
        .pool = "pool:gold",
        .merchant_id = "",
        .provider = "plivo",
        .allocated_at_ms = past.allocated_at_ms,
        .expires_at_ms = UINT64_C(1770000999000),
        .activity = {
            .state = CALL_IS_CONNECTED, .is_connected = true, .carriers = {routers, ARRAY_LEN(routers)}}};
    world.fake.result.story.refusal = &refusal;
    world.fake.result.story.past = &past;
    world.fake.result.story.past_count = 1;
    ask(&world, "/api/v1/call/{sid}/story", NULL, NULL);
    assert_int_equal(world.request.status, 200);
    assert_tells(&world, texts, ARRAY_LEN(texts));
    assert_null(strstr(world.request.answer, "moved to another one"));
    world_release(&world);
}

static void merchants__a_text_that_is_no_json_does_not_break_the_answer(void **state UNUSED)
{
    const char *ids[] = {"good", "broken", "bytes"};
    const char *texts[] = {"{\"tier\":\"gold\"}", "{\"tier\":", "\"\xff\""};
    struct world world;

    world_init(&world, &plain_settings);
    world.fake.result.merchants.ids = (struct name_array){ids, 3};
    world.fake.result.merchants.texts = (struct name_array){texts, 3};
    world.fake.result.merchants.total = 70;
    world.fake.result.merchants.next_cursor = "bytes";
    ask(&world, "/api/v1/merchants", "limit=3&cursor=a", NULL);
    assert_answer(&world, 200,
                  "{\"merchants\":{\"good\":{\"tier\":\"gold\"},\"broken\":\"{\\\"tier\\\":\","
                  "\"bytes\":\"\\\"\xef\xbf\xbd\\\"\"},\"total\":70,\"next_cursor\":\"bytes\"}");
    assert_int_equal(world.fake.command.merchants.limit, 3);
    assert_string_equal(world.fake.command.merchants.cursor, "a");
    world_release(&world);
}

static void answers__that_do_not_fit_are_no_fault_of_the_store(void **state UNUSED)
{
    char text[LOG_TEXT_MAX];
    struct world world;
    FILE *file;

    world_init(&world, &plain_settings);
    world.fake.err = -ENOMEM;
    file = log_begin(LOG_INFO);
    ask(&world, "/api/v1/pods", NULL, NULL);
    log_end(file, text);
    assert_answer(&world, 500, "the answer does not fit into memory");
    assert_string_equal(world.request.retry_after, "");
    assert_one_line(text,
                    "\"msg\":\"request failed\",\"method\":\"GET\",\"path\":\"/api/v1/pods\",\"status\":500");
    ask(&world, ALLOCATE, NULL, SID_BODY);
    assert_answer(&world, 500, "the answer does not fit into memory");
    ask(&world, "/api/v1/release", NULL, SID_BODY);
    assert_answer(&world, 500, "the answer does not fit into memory");
    /* A caller still hears a sentence. */
    ask(&world, "/api/v1/twilio/allocate", NULL, "CallSid=CA1");
    assert_answer(&world, 200, BUSY_TWIML);
    world_release(&world);
}

static void webhooks__without_a_call_hear_a_sentence(void **state UNUSED)
{
    char text[LOG_TEXT_MAX];
    struct world world;
    FILE *file;

    world_init(&world, &plain_settings);
    file = log_begin(LOG_INFO);
    ask(&world, "/api/v1/twilio/allocate", NULL, "Nothing=1");
    log_end(file, text);
    assert_answer(&world, 200, BUSY_TWIML);
    assert_one_line(text, "\"level\":\"warn\"");
    assert_one_line(text, "\"error\":\"CallSid is required\"");
    ask(&world, "/api/v1/plivo/allocate", "CallUUID=a%20b", NULL);
    assert_answer(&world, 200, "<Hangup/>");
    file = log_begin(LOG_INFO);
    ask(&world, "/api/v1/exotel/allocate", NULL, NULL);
    log_end(file, text);
    assert_answer(&world, 400, "\"error\":\"CallSid is required\",\"code\":\"bad_request\"");
    assert_one_line(text, "webhook refused");
    assert_int_equal(world.fake.commands, 0);
    world_release(&world);
}

static void tiers__that_cannot_be_are_logged_and_counted(void **state UNUSED)
{
    static const char *const bodies[] = {"", "{}", " { } ", "\xff"};
    char text[LOG_TEXT_MAX];
    struct world world;
    FILE *file;

    world_init(&world, &plain_settings);
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        file = log_begin(LOG_INFO);
        ask_as(&world, "PUT", "/api/v1/tiers", NULL, bodies[i]);
        log_end(file, text);
        assert_answer(&world, 400, i == 1 || i == 2 ? "no tiers are given" : "body is");
        assert_one_line(text, "\"level\":\"warn\"");
    }
    assert_int_equal(world.fake.commands, 0);
    world.fake.result.outcome = OUTCOME_INVALID;
    world.fake.result.error = "the chain is empty";
    file = log_begin(LOG_INFO);
    ask_as(&world, "PUT", "/api/v1/tiers", NULL, "{\"tiers\":{}}");
    log_end(file, text);
    assert_answer(&world, 400, "the chain is empty");
    assert_one_line(text, "\"error\":\"the chain is empty\"");
    world.fake.result = (struct result){
        .outcome = OUTCOME_OK,
        .change = {
            .old_text = "{\n\"gold\": 2}", .new_text = "{\"gold\":1}", .version = 2, .is_changed = true}};
    file = log_begin(LOG_INFO);
    ask_as(&world, "PUT", "/api/v1/tiers", NULL, "{\"gold\":1}");
    log_end(file, text);
    assert_answer(&world, 200, "\"success\":true");
    assert_one_line(text, "\"version\":2,\"old\":{\"gold\":2},\"new\":{\"gold\":1}");
    world.fake.result = (struct result){.outcome = OUTCOME_OK};
    ask(&world, "/metrics", NULL, NULL);
    assert_answer(&world, 200, "\nsmart_router_tier_config_errors_total 5\n");
    world_release(&world);
}

static void log__one_line_for_each_refusal_with_its_reason(void **state UNUSED)
{
    static const struct {
        const char *method, *pattern, *query, *body, *error;
        int status;
    } refused[] = {
        {"POST", ALLOCATE, NULL, "{}", "call_sid is required", 400},
        {"POST", "/api/v1/release", NULL, "x", "body is not valid JSON", 400},
        {"POST", "/api/v1/renew", NULL, SID_BODY, "call not found", 404},
        {"GET", "/api/v1/pods", "limit=0", NULL, "limit must be a whole number", 400},
        {"GET", "/api/v1/merchants", "limit=1001", NULL, "limit must be a whole number from 1 to 1000", 400},
        {"GET", "/api/v1/pod/{name}", NULL, NULL, "pod not found", 404},
        {"GET", "/api/v1/call/{sid}", NULL, NULL, "call not found", 404},
        {"GET", "/api/v1/call/{sid}/story", NULL, NULL, "nothing is known of this call", 404},
        {"GET", "/api/v1/merchants/{id}", NULL, NULL, "merchant not found", 404},
        {"POST", "/api/v1/pods", NULL, "{\"pod_name\":\"p\"}", "address is required", 400},
        {"POST", "/api/v1/drain", NULL, "{\"pod_name\":\"p\"}", "pod not found", 404},
        {"PUT", "/api/v1/merchants/{id}", NULL, "\xff", "body is not valid UTF-8 text", 400},
        {"POST", "/api/v1/pod/{name}/heartbeat", NULL, "{}", "call_sids is required", 400},
    };
    char text[LOG_TEXT_MAX];
    struct world world;

    world_init(&world, &plain_settings);
    world.fake.result.outcome = OUTCOME_NOT_FOUND;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        FILE *file = log_begin(LOG_INFO);

        ask_as(&world, refused[i].method, refused[i].pattern, refused[i].query, refused[i].body);
        log_end(file, text);
        assert_answer(&world, refused[i].status, refused[i].error);
        assert_one_line(text, "\"level\":\"info\"");
        assert_one_line(text, refused[i].error);
        assert_one_line(text, "\"request_id\":\"id-1\"");
        assert_one_line(text, "\"duration_us\":");
    }
    world_release(&world);
}

static void log__tells_what_the_server_itself_refused(void **state UNUSED)
{
    static const struct {
        const char *method, *pattern;
        int status;
    } refused[] = {
        {"", "", 400},
        {"", "", 408},
        {"POST", "", 413},
        {"GET", "", 431},
        {"", "", 505},
        {"GET", "", 404},
        {"PATCH", ALLOCATE, 405},
        {"GET", "/api/v1/pod/{name}", 400}, /* its parameter hides a NUL */
    };
    char text[LOG_TEXT_MAX];
    struct world world;
    FILE *file;

    world_init(&world, &plain_settings);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        file = log_begin(LOG_INFO);
        refuse(&world, refused[i].method, refused[i].pattern, refused[i].status);
        log_end(file, text);
        assert_one_line(text, "\"level\":\"info\"");
        assert_one_line(text, "\"msg\":\"request refused\"");
        assert_one_line(text, "\"path\":\"/path\"");
        assert_one_line(text, "\"peer\":\"127.0.0.1\"");
    }
    world_release(&world);
}

static void log__is_quiet_about_probes_and_what_is_polled(void **state UNUSED)
{
    static const char *const polled[] = {"/health", "/ready", "/metrics", "/api/v1/status", "/api/v1/pods"};
    char text[LOG_TEXT_MAX];
    struct world world;
    FILE *file;

    world_init(&world, &plain_settings);
    world.fake.result.status.active_calls = 0;
    file = log_begin(LOG_INFO);
    for (size_t i = 0; i < ARRAY_LEN(polled); i++)
        ask(&world, polled[i], NULL, NULL);
    world.fake.is_ready = false;
    ask(&world, "/ready", NULL, NULL);
    refuse(&world, "POST", "/health", 405);
    log_end(file, text);
    assert_string_equal(text, "");
    file = log_begin(LOG_DEBUG);
    ask(&world, "/api/v1/status", NULL, NULL);
    log_end(file, text);
    assert_one_line(text, "\"msg\":\"request\"");
    world_release(&world);
}

static void ready__says_why_it_is_not(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    ask(&world, "/ready", NULL, NULL);
    assert_answer(&world, 200, "{\"status\":\"ready\"}");
    world.fake.is_ready = false;
    ask(&world, "/ready", NULL, NULL);
    assert_answer(&world, 503, "{\"status\":\"not ready\",\"reason\":\"the disk is full\"}");
    ask(&world, "/health", NULL, NULL);
    assert_answer(&world, 200, "{\"status\":\"ok\"}");
    world.fake.is_ready = true;
    api_set_stopping(world.api);
    ask(&world, "/api/v1/ready", NULL, NULL);
    assert_answer(&world, 503, "\"status\":\"not ready\"");
    assert_int_equal(world.fake.commands, 0);
    world_release(&world);
}

static void metrics__are_there_when_the_store_is_not(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    world.fake.result.status.active_calls = 5;
    ask(&world, "/metrics", NULL, NULL);
    assert_answer(&world, 200, "\nsmart_router_active_calls 5\n");
    world.fake.err = -ENOTCONN;
    world.fake.is_ready = false;
    ask(&world, ALLOCATE, NULL, SID_BODY);
    ask(&world, "/metrics", NULL, NULL);
    assert_answer(&world, 200, "\nsmart_router_store_up 0\n");
    assert_answer(&world, 200, "\nsmart_router_store_errors_total 2\n");
    assert_answer(&world, 200, "\nsmart_router_http_connections{listener=\"http\"} 3\n");
    assert_answer(
        &world, 200,
        "\nsmart_router_allocations_total{pool=\"none\",status=\"storage_error\",tier=\"none\"} 1\n");
    assert_answer(&world, 200,
                  "\nhttp_requests_total{method=\"POST\",endpoint=\"/api/v1/allocate\",status=\"503\"} 1\n");
    /* Nobody knows how many calls there are: no value is better than a wrong one. */
    assert_null(strstr(world.request.answer, "\nsmart_router_active_calls "));
    world_release(&world);
}

static void head__never_takes_a_pod(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    for (size_t i = 0; i < world.server.count; i++) {
        const struct http_route *row = world.server.routes[i].row;

        if (strcmp(row->pattern, "/api/v1/twilio/allocate") != 0)
            continue;
        world.request = (struct http_request){.method = "HEAD",
                                              .path = "/",
                                              .route = row,
                                              .query = "CallSid=CA1",
                                              .body = "",
                                              .arena = world.request.arena};
        row->handler(&world.request, world.server.routes[i].arg);
        assert_int_equal(world.request.status, 405);
    }
    assert_int_equal(world.fake.commands, 0);
    world_release(&world);
}

/* What the guard says to a client without a key; 0: it may go on. */
static int guard_says(struct world *world, const struct http_route *route, const char *path)
{
    const char *error = NULL;
    int status;

    world->request.path = path;
    status = world->server.hooks.guard(&world->request, route, world->server.hooks.arg, &error);
    assert_int_equal(status != 0, error != NULL);
    return status;
}

static void set_a_key(struct world *world)
{
    const char *const texts[SECRET_KINDS] = {"the-secret-of-the-admin", "", "", ""};

    assert_int_equal(api_set_secrets(world->api, texts, ""), 0);
}

static void never_run(struct http_request *request UNUSED, void *arg UNUSED)
{
    fail();
}

static void guard__a_row_that_says_nothing_is_closed(void **state UNUSED)
{
    static const struct http_route nothing = {"GET", "/brand-new", never_run};
    struct key call = {.name = "caller", .role = ROLE_CALL};
    struct key admin = {.name = "root", .role = ROLE_ADMIN};
    struct world world;

    world_init(&world, &plain_settings);
    assert_int_equal(guard_says(&world, &nothing, "/brand-new"), 0); /* no key is set: all is open */
    set_a_key(&world);
    assert_int_equal(guard_says(&world, &nothing, "/brand-new"), 401);
    /* Nor does it run if the guard has failed to see that, or for a key of any role but admin. */
    assert_false(world.server.hooks.admit(&world.request, &nothing, world.server.hooks.arg));
    assert_int_equal(world.request.status, 401);
    asked_with = &call;
    assert_false(world.server.hooks.admit(&world.request, &nothing, world.server.hooks.arg));
    assert_int_equal(world.request.status, 403);
    asked_with = &admin;
    assert_true(world.server.hooks.admit(&world.request, &nothing, world.server.hooks.arg));
    asked_with = NULL;
    world_release(&world);
}

static void guard__a_path_without_a_row_is_closed_under_the_api(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    set_a_key(&world);
    assert_int_equal(guard_says(&world, NULL, "/api/v1"), 401);
    assert_int_equal(guard_says(&world, NULL, "/api/v1/nothing/here"), 401);
    assert_int_equal(guard_says(&world, NULL, "/api/v10"), 0);
    assert_int_equal(guard_says(&world, NULL, "/nothing"), 0);
    world_release(&world);
}

static void guard__each_route_asks_for_what_its_row_says(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    set_a_key(&world);
    for (size_t i = 0; i < world.server.count; i++) {
        const struct http_route *row = world.server.routes[i].row;
        int status = guard_says(&world, row, row->pattern);

        assert_int_equal(status, row->auth == ROUTE_BY_KEY ? 401 : 0);
        assert_true(row->auth == ROUTE_BY_KEY || row->roles == 0);
    }
    world_release(&world);
}

/* Cuts the next name in braces off *pattern. False: there are no more. */
static bool next_name(const char **pattern, char name[32])
{
    const char *brace = strchr(*pattern, '{');
    size_t len;

    if (!brace)
        return false;
    len = strcspn(brace + 1, ".}");
    assert_true(len < 32);
    memcpy(name, brace + 1, len);
    name[len] = '\0';
    *pattern = brace + 1 + len;
    return true;
}

static void rows__describe_every_parameter_of_their_paths(void **state UNUSED)
{
    struct world world;

    world_init(&world, &plain_settings);
    for (size_t i = 0; i < world.server.count; i++) {
        const struct http_route *row = world.server.routes[i].row;
        const struct route_param *param = row->params;
        const char *at = row->pattern;
        char name[32];

        assert_non_null(row->summary);
        while (next_name(&at, name))
            assert_true(http_route_has_param(row, name));
        for (; param && param->name; param++) {
            snprintf(name, sizeof(name), "{%s}", param->name);
            assert_int_equal(param->place == ROUTE_IN_PATH, strstr(row->pattern, name) != NULL);
            assert_true(param->kind != ROUTE_NUMBER || param->max > param->min);
        }
    }
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocate__gives_the_documented_answer),
        cmocka_unit_test(allocate__is_not_begun_for_a_client_that_has_gone),
        cmocka_unit_test(allocate__is_undone_for_a_client_that_has_gone),
        cmocka_unit_test(allocate__is_undone_if_the_answer_meets_a_closed_connection),
        cmocka_unit_test(release__is_carried_out_for_a_client_that_has_gone),
        cmocka_unit_test(allocate__a_store_that_fails_is_unavailable),
        cmocka_unit_test(every_route__a_store_that_fails_is_unavailable),
        cmocka_unit_test(webhooks__a_store_that_fails_is_told_to_the_caller),
        cmocka_unit_test(webhooks__fallback_url_saves_the_call),
        cmocka_unit_test(webhooks__body_wins_for_the_call_and_query_for_the_rest),
        cmocka_unit_test(heartbeat__a_call_that_it_ends_is_logged_with_the_key),
        cmocka_unit_test(allocate__refusal_is_logged_with_what_stood_in_the_way),
        cmocka_unit_test(story__every_end_has_its_sentence),
        cmocka_unit_test(story__a_move_that_found_no_pod_and_one_that_did),
        cmocka_unit_test(merchants__a_text_that_is_no_json_does_not_break_the_answer),
        cmocka_unit_test(answers__that_do_not_fit_are_no_fault_of_the_store),
        cmocka_unit_test(webhooks__without_a_call_hear_a_sentence),
        cmocka_unit_test(tiers__that_cannot_be_are_logged_and_counted),
        cmocka_unit_test(log__one_line_for_each_refusal_with_its_reason),
        cmocka_unit_test(log__tells_what_the_server_itself_refused),
        cmocka_unit_test(log__is_quiet_about_probes_and_what_is_polled),
        cmocka_unit_test(ready__says_why_it_is_not),
        cmocka_unit_test(metrics__are_there_when_the_store_is_not),
        cmocka_unit_test(head__never_takes_a_pod),
        cmocka_unit_test(guard__a_row_that_says_nothing_is_closed),
        cmocka_unit_test(guard__a_path_without_a_row_is_closed_under_the_api),
        cmocka_unit_test(guard__each_route_asks_for_what_its_row_says),
        cmocka_unit_test(rows__describe_every_parameter_of_their_paths),
    };

    log_configure(LOG_WARN, LOG_JSON);
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    log_set_fd(nowhere);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
