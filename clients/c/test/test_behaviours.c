/*
 * test_behaviours.c - executes clients/behaviours/table.json against the library: one test for each row.
 *
 * README.md beside the table has its format. The router is scripted, the clock is the row's.
 */
#include "fake_router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    TABLE_MAX = 4 << 20,
    CALLS_MAX = 16,
    SIDS_MAX = 16,
    POSITIONS_MAX = 16,
};

static cJSON *table;

/* One row while it runs. */
struct run {
    struct fake_router router;
    struct smartrouter_client *client;
    const cJSON *step;
    const cJSON *exchange;        /* the next one that is expected; NULL: none */
    int positions[POSITIONS_MAX]; /* that the program was told of */
    size_t position_count;
    struct {
        char call_sid[SR_NAME_MAX + 1];
        struct smartrouter_call *call;
    } calls[CALLS_MAX];
    size_t call_count;
};

static const cJSON *get(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static const char *text_of(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(get(object, name));
}

/* An object, or the name of a shared one. */
static const cJSON *resolve(const char *kind, const cJSON *item)
{
    const cJSON *found = cJSON_IsString(item) ? get(get(table, kind), item->valuestring) : item;

    if (item && !found)
        fail_msg("%s has no \"%s\"", kind, item->valuestring);
    return found;
}

/* ---- The scripted router ---- */

static void check_headers(const cJSON *wanted, const struct sr_exchange *exchange)
{
    const cJSON *header;

    cJSON_ArrayForEach(header, wanted)
    {
        if (strcmp(header->string, "Authorization") == 0)
            assert_string_equal(exchange->authorization ? exchange->authorization : "", header->valuestring);
        else if (strcmp(header->string, "traceparent") == 0)
            assert_string_equal(exchange->traceparent, header->valuestring);
        else
            fail_msg("the runner cannot see the header %s", header->string);
    }
}

static void check_body(const cJSON *wanted, const struct sr_exchange *exchange)
{
    cJSON *body = exchange->body ? cJSON_Parse(exchange->body) : NULL;
    const cJSON *member;

    cJSON_ArrayForEach(member, get(wanted, "body"))
    {
        if (!cJSON_Compare(get(body, member->string), member, 1))
            fail_msg("the member %s of %s is not as it should be", member->string, exchange->body);
    }
    cJSON_ArrayForEach(member, get(wanted, "without"))
    {
        if (get(body, member->valuestring))
            fail_msg("%s has the member %s", exchange->body, member->valuestring);
    }
    cJSON_Delete(body);
}

static bool give_fault(struct run *run, const struct sr_exchange *exchange, const char *fault,
                       struct smartrouter_answer *answer, bool *ret_may_have_arrived)
{
    *ret_may_have_arrived = strcmp(fault, "refused") != 0;
    if (strcmp(fault, "timeout") == 0)
        run->router.now_ms += exchange->timeout_ms;
    else if (strcmp(fault, "refused") != 0 && strcmp(fault, "lost") != 0)
        fail_msg("unknown fault %s", fault);
    sr_answer_say(answer, "%s", fault);
    return false;
}

static void give_answer(const cJSON *wanted, struct smartrouter_answer *answer)
{
    const char *text = text_of(wanted, "text"), *after = text_of(get(wanted, "headers"), "Retry-After");
    char *end = NULL;

    answer->status = get(wanted, "status")->valueint;
    answer->body = text ? strdup(text) : cJSON_PrintUnformatted(get(wanted, "body"));
    if (after) {
        /* What http.c makes of the header; a test of its own compares the two. */
        const long seconds = strtol(after, &end, 10);

        answer->retry_after_ms = end != after && *end == '\0' ? 1000 * seconds : SR_RETRY_AFTER_NONE;
    }
}

static bool answer_request(struct fake_router *router, const struct sr_exchange *exchange,
                           struct smartrouter_answer *answer, bool *ret_may_have_arrived)
{
    struct run *run = router->arg;
    const cJSON *request, *reply;

    if (!run->exchange) {
        fail_msg("a request leaves that should not: %s %s %s", exchange->method, exchange->path,
                 exchange->body ? exchange->body : "");
        return false;
    }
    request = resolve("requests", cJSON_GetArrayItem(run->exchange, 0));
    reply = resolve("answers", cJSON_GetArrayItem(run->exchange, 1));
    run->exchange = run->exchange->next;
    assert_string_equal(exchange->method, text_of(request, "method"));
    assert_string_equal(exchange->path, text_of(request, "path"));
    check_body(request, exchange);
    check_headers(get(request, "headers"), exchange);
    if (get(reply, "after_ms"))
        router->now_ms += get(reply, "after_ms")->valueint;
    if (get(reply, "stops_waiting"))
        assert_true(smartrouter_stop_waiting(run->client, text_of(run->step, "call_sid")));
    if (get(reply, "fault"))
        return give_fault(run, exchange, text_of(reply, "fault"), answer, ret_may_have_arrived);
    give_answer(reply, answer);
    return true;
}

/* ---- Operations ---- */

static void note_position(void *arg, const struct smartrouter_answer *answer)
{
    struct run *run = arg;

    assert_true(run->position_count < POSITIONS_MAX);
    run->positions[run->position_count++] = (int)smartrouter_answer_number(answer, "position");
}

static struct smartrouter_call_request request_of(struct run *run)
{
    const cJSON *step = run->step, *wait = get(step, "wait_seconds");

    return (struct smartrouter_call_request){
        .size = sizeof(struct smartrouter_call_request),
        .call_sid = text_of(step, "call_sid"),
        .merchant_id = text_of(step, "merchant_id"),
        .provider = text_of(step, "provider"),
        .flow = text_of(step, "flow"),
        .template_name = text_of(step, "template"),
        .traceparent = text_of(step, "traceparent"),
        .wait_ms = wait ? (int)(1000 * wait->valuedouble + 0.5) : 0,
        .waiting = wait ? note_position : NULL,
        .waiting_arg = run,
    };
}

static size_t sids_of(const cJSON *step, const char *sids[SIDS_MAX])
{
    const cJSON *item;
    size_t count = 0;

    cJSON_ArrayForEach(item, get(step, "call_sids"))
    {
        assert_true(count < SIDS_MAX);
        sids[count++] = item->valuestring;
    }
    return count;
}

static enum smartrouter_result do_allocate(struct run *run, struct smartrouter_answer **answer)
{
    const struct smartrouter_call_request request = request_of(run);

    return smartrouter_allocate(run->client, &request, answer);
}

static enum smartrouter_result do_release(struct run *run, struct smartrouter_answer **answer)
{
    return smartrouter_release(run->client, text_of(run->step, "call_sid"), text_of(run->step, "pod_name"),
                               text_of(run->step, "reason"), answer);
}

static enum smartrouter_result do_renew(struct run *run, struct smartrouter_answer **answer)
{
    const char *sids[SIDS_MAX];
    const size_t count = sids_of(run->step, sids);

    return smartrouter_renew(run->client, sids, count, answer);
}

static enum smartrouter_result do_heartbeat(struct run *run, struct smartrouter_answer **answer)
{
    const char *sids[SIDS_MAX];
    const size_t count = sids_of(run->step, sids);

    return smartrouter_heartbeat(run->client, text_of(run->step, "pod_name"), sids, count, answer);
}

static enum smartrouter_result do_drain(struct run *run, struct smartrouter_answer **answer)
{
    const cJSON *ttl = get(run->step, "ttl_seconds");

    return smartrouter_drain(run->client, text_of(run->step, "pod_name"), ttl ? ttl->valueint : -1, answer);
}

static enum smartrouter_result do_drained(struct run *run, struct smartrouter_answer **answer)
{
    const cJSON *wait = get(run->step, "timeout_seconds");

    return smartrouter_drained(run->client, text_of(run->step, "pod_name"), wait ? wait->valueint : 0,
                               answer);
}

static enum smartrouter_result do_register(struct run *run, struct smartrouter_answer **answer)
{
    return smartrouter_register(run->client, text_of(run->step, "pod_name"), text_of(run->step, "address"),
                                text_of(run->step, "incarnation"), text_of(run->step, "tier"), answer);
}

static enum smartrouter_result do_remove(struct run *run, struct smartrouter_answer **answer)
{
    return smartrouter_remove(run->client, text_of(run->step, "pod_name"), answer);
}

static enum smartrouter_result do_status(struct run *run, struct smartrouter_answer **answer)
{
    return smartrouter_status(run->client, answer);
}

static enum smartrouter_result do_health(struct run *run, struct smartrouter_answer **answer)
{
    return smartrouter_health(run->client, answer);
}

static enum smartrouter_result do_call_begin(struct run *run, struct smartrouter_answer **answer)
{
    const struct smartrouter_call_request request = request_of(run);
    struct smartrouter_call *call;
    const enum smartrouter_result result = smartrouter_call_begin(run->client, &request, &call);

    assert_non_null(call);
    assert_true(run->call_count < CALLS_MAX);
    snprintf(run->calls[run->call_count].call_sid, SR_NAME_MAX + 1, "%s", request.call_sid);
    run->calls[run->call_count++].call = call;
    /* What can be seen of it is compared as if it were an answer. */
    *answer = sr_answer_new();
    sr_answer_put_text(*answer, "pod_name", smartrouter_call_pod_name(call));
    sr_answer_put_text(*answer, "ws_url", smartrouter_call_ws_url(call));
    sr_answer_put_text(*answer, "reason", smartrouter_call_reason(call));
    return result;
}

static enum smartrouter_result do_call_end(struct run *run, struct smartrouter_answer **answer)
{
    const char *call_sid = text_of(run->step, "call_sid");

    *answer = NULL;
    for (size_t i = 0; i < run->call_count; i++) {
        if (strcmp(run->calls[i].call_sid, call_sid) == 0) {
            struct smartrouter_call *call = run->calls[i].call;

            run->calls[i] = run->calls[--run->call_count];
            return smartrouter_call_end(call, NULL);
        }
    }
    fail_msg("there is no call %s to end", call_sid);
    return SMARTROUTER_INVALID;
}

static enum smartrouter_result do_advance(struct run *run, struct smartrouter_answer **answer)
{
    *answer = NULL;
    fake_router_advance(&run->router, run->client, get(run->step, "ms")->valueint);
    return SMARTROUTER_OK;
}

static const struct {
    const char *name;
    enum smartrouter_result (*run)(struct run *run, struct smartrouter_answer **answer);
    bool is_release;    /* what is not left to the background is done */
    bool is_allocation; /* OK is a pod */
} OPERATIONS[] = {
    {"allocate", do_allocate, .is_allocation = true},
    {"release", do_release, .is_release = true},
    {"renew", do_renew},
    {"heartbeat", do_heartbeat},
    {"drain", do_drain},
    {"drained", do_drained},
    {"register", do_register},
    {"remove", do_remove},
    {"status", do_status},
    {"health", do_health},
    {"call_begin", do_call_begin, .is_allocation = true},
    {"call_end", do_call_end, .is_release = true},
    {"advance", do_advance},
};

static const char *outcome_of(size_t operation, enum smartrouter_result result)
{
    if (OPERATIONS[operation].is_allocation && result == SMARTROUTER_OK)
        return "pod";
    if (OPERATIONS[operation].is_release && (result == SMARTROUTER_OK || result == SMARTROUTER_REFUSED))
        return "done";
    return smartrouter_result_name(result == SMARTROUTER_NOT_DRAINED ? SMARTROUTER_OK : result);
}

static void check_result(const cJSON *expect, const char *outcome, const struct smartrouter_answer *answer,
                         bool is_call)
{
    const cJSON *member;

    cJSON_ArrayForEach(member, expect)
    {
        const char *name = member->string;

        if (strcmp(name, "outcome") == 0) {
            assert_string_equal(outcome, member->valuestring);
        } else if (is_call && strcmp(name, "source_pool") != 0 && strcmp(name, "was_existing") != 0) {
            assert_string_equal(smartrouter_answer_text(answer, name), member->valuestring);
        } else if (!is_call) {
            const cJSON *item = get(answer ? answer->json : NULL, name);

            if (!cJSON_Compare(item, member, 1))
                fail_msg("the member %s of the answer is not as it should be", name);
        }
    }
}

static void check_waits(const struct run *run)
{
    const cJSON *wanted = get(run->step, "waits_ms");

    if (!wanted)
        return;
    assert_int_equal(run->router.wait_count, cJSON_GetArraySize(wanted));
    for (size_t i = 0; i < run->router.wait_count; i++)
        assert_int_equal(run->router.waits_ms[i], cJSON_GetArrayItem(wanted, (int)i)->valueint);
}

static void check_positions(const struct run *run)
{
    const cJSON *wanted = get(run->step, "positions");

    if (!wanted)
        return;
    assert_int_equal(run->position_count, cJSON_GetArraySize(wanted));
    for (size_t i = 0; i < run->position_count; i++)
        assert_int_equal(run->positions[i], cJSON_GetArrayItem(wanted, (int)i)->valueint);
}

static void run_step(struct run *run)
{
    static const char *const STATES[] = {"closed", "open", "half_open"};
    const char *name = text_of(run->step, "do");
    struct smartrouter_answer *answer = NULL;
    enum smartrouter_result result;
    size_t i = 0;

    while (i < sizeof(OPERATIONS) / sizeof(*OPERATIONS) && strcmp(OPERATIONS[i].name, name) != 0)
        i++;
    if (i == sizeof(OPERATIONS) / sizeof(*OPERATIONS))
        fail_msg("unknown operation %s", name);
    run->exchange = get(run->step, "exchanges") ? get(run->step, "exchanges")->child : NULL;
    run->router.wait_count = 0;
    run->position_count = 0;
    result = OPERATIONS[i].run(run, &answer);
    check_result(resolve("expects", get(run->step, "expect")), outcome_of(i, result), answer,
                 strcmp(name, "call_begin") == 0);
    smartrouter_answer_free(answer);
    if (run->exchange)
        fail_msg("a request is missing");
    check_waits(run);
    check_positions(run);
    if (get(run->step, "breaker"))
        assert_string_equal(STATES[smartrouter_breaker(run->client)], text_of(run->step, "breaker"));
    if (get(run->step, "pending_releases"))
        assert_int_equal(smartrouter_pending_releases(run->client),
                         get(run->step, "pending_releases")->valueint);
}

/* ---- Settings of a row ---- */

static void environment_set(const cJSON *variables, bool is_set)
{
    const cJSON *variable;

    cJSON_ArrayForEach(variable, variables)
    {
        if (is_set)
            setenv(variable->string, variable->valuestring, 1);
        else
            unsetenv(variable->string);
    }
}

static struct smartrouter_settings *settings_of(const cJSON *row)
{
    struct smartrouter_settings *settings = smartrouter_settings_new();
    const cJSON *option;
    char error[256] = "", value[64];

    assert_non_null(settings);
    environment_set(get(table, "environment"), true);
    environment_set(get(row, "environment"), true);
    if (smartrouter_settings_read_environment(settings, error, sizeof(error)) != SMARTROUTER_OK)
        fail_msg("%s", error);
    environment_set(get(table, "environment"), false);
    environment_set(get(row, "environment"), false);
    cJSON_ArrayForEach(option, get(row, "options"))
    {
        snprintf(value, sizeof(value), "%g", option->valuedouble);
        if (smartrouter_settings_set(settings, option->string, value, error, sizeof(error)) != SMARTROUTER_OK)
            fail_msg("%s", error);
    }
    return settings;
}

static void run_row(void **state)
{
    const cJSON *row = *state;
    struct smartrouter_settings *settings = settings_of(row);
    struct run run = {.router = {.answer = answer_request, .now_ms = 1000000}};

    run.router.arg = &run;
    fake_router_attach(&run.router, settings);
    assert_int_equal(smartrouter_client_new(settings, &run.client), SMARTROUTER_OK);
    sr_breaker_reset(run.client->breaker);
    cJSON_ArrayForEach(run.step, get(row, "steps"))
    {
        run_step(&run);
    }
    smartrouter_client_free(run.client);
    smartrouter_settings_free(settings);
}

static void gates__give_the_decisions_of_the_table(void **state)
{
    const cJSON *gate;

    (void)state;
    assert_true(cJSON_GetArraySize(get(table, "gates")) > 0);
    cJSON_ArrayForEach(gate, get(table, "gates"))
    {
        struct smartrouter_settings *settings = settings_of(gate);
        const char *reason = sr_gate_reason(settings, text_of(gate, "merchant_id"));

        assert_string_equal(reason ? reason : "yes", text_of(gate, "decision"));
        smartrouter_settings_free(settings);
    }
}

static void buckets__are_those_of_the_formula(void **state)
{
    const cJSON *buckets = get(table, "buckets"), *percentage;
    const char *digits = text_of(buckets, "buckets");
    const int count = get(buckets, "merchants")->valueint;
    int index = 0;

    (void)state;
    assert_int_equal(strlen(digits), 2 * count);
    cJSON_ArrayForEach(percentage, get(buckets, "percentages"))
    {
        int passed = 0;

        for (int i = 0; i < count; i++) {
            char merchant[64];
            const int bucket = (digits[2 * i] - '0') * 10 + digits[2 * i + 1] - '0';

            snprintf(merchant, sizeof(merchant), "%s%d", text_of(buckets, "prefix"), i);
            assert_int_equal(sr_gate_bucket(merchant), bucket);
            passed += bucket < percentage->valueint;
        }
        assert_int_equal(passed, cJSON_GetArrayItem(get(buckets, "passed"), index++)->valueint);
    }
}

static cJSON *read_table(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, TABLE_MAX);
    cJSON *parsed = NULL;

    if (file && text && fread(text, 1, TABLE_MAX - 1, file) > 0)
        parsed = cJSON_Parse(text);
    if (file)
        fclose(file);
    free(text);
    return parsed;
}

int main(int argc, char **argv)
{
    const cJSON *rows, *row;
    struct CMUnitTest *tests;
    size_t count = 0;
    int failed;

    table = argc == 2 ? read_table(argv[1]) : NULL;
    rows = get(table, "rows");
    if (cJSON_GetArraySize(rows) == 0) {
        fprintf(stderr, "usage: %s TABLE.json\n", argv[0]);
        return 2;
    }
    tests = calloc((size_t)cJSON_GetArraySize(rows) + 2, sizeof(*tests));
    if (!tests)
        return 2;
    cJSON_ArrayForEach(row, rows)
    {
        union {
            const cJSON *given;
            void *state;
        } state = {.given = row};

        tests[count++] = (struct CMUnitTest){text_of(row, "name"), run_row, NULL, NULL, state.state};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(gates__give_the_decisions_of_the_table);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(buckets__are_those_of_the_formula);
    failed = _cmocka_run_group_tests("behaviours", tests, count, NULL, NULL);
    free(tests);
    cJSON_Delete(table);
    return failed;
}
