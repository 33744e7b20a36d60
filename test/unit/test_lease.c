/* test_lease.c - leader election by a Lease, with an API server and a clock that the test owns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../support/log_file.h"
#include "fake_k8s.h"
#include "k8s/lease.h"
#include "k8s/lease_object.h"

enum { DURATION_MS = 15000, DEADLINE_MS = 10000, RETRY_MS = 2000 };

#define COLLECTION "/apis/coordination.k8s.io/v1/namespaces/voice/leases"
#define ITEM COLLECTION "/router"
#define RIVAL_SPEC                                                                                           \
    "{\"holderIdentity\":\"rival\",\"leaseDurationSeconds\":15,\"leaseTransitions\":3,"                      \
    "\"acquireTime\":\"2026-01-01T00:00:00.000001Z\",\"renewTime\":\"2026-01-01T00:00:00.000001Z\"}"

static struct world {
    struct k8s_lease *lease;
    unsigned changes;
    unsigned written;
    bool is_leader;
    char leader[300];
    unsigned stopped;
    bool stops_when_told;
    FILE *log;
} world;

static void on_stopped(void *arg)
{
    assert_ptr_equal(arg, &world);
    world.stopped++;
    world.lease = NULL;
}

static void on_change(void *arg, bool is_leader, const char *leader)
{
    assert_ptr_equal(arg, &world);
    assert_true(world.lease);
    world.changes++;
    world.is_leader = is_leader;
    snprintf(world.leader, sizeof(world.leader), "%s", leader);
    assert_int_equal(k8s_lease_leads(world.lease), is_leader);
    if (world.stops_when_told)
        k8s_lease_stop(world.lease, on_stopped, &world);
}

static void on_written(void *arg)
{
    assert_ptr_equal(arg, &world);
    assert_true(world.lease);
    world.written++;
}

static int setup(void **state UNUSED)
{
    struct k8s_lease_settings settings = {
        .namespace_name = "voice",
        .name = "router",
        .identity = "me",
        .duration_ms = DURATION_MS,
        .renew_deadline_ms = DEADLINE_MS,
        .retry_ms = RETRY_MS,
        .on_change = on_change,
        .on_change_arg = &world,
        .on_written = on_written,
        .on_written_arg = &world,
    };

    fake_init();
    memset(&world, 0, sizeof(world));
    world.log = log_file_open();
    assert_int_equal(k8s_lease_new(&fake.loop, &settings, fake_client(), &world.lease), 0);
    assert_int_equal(fake.sent, 0); /* nothing happens inside the call */
    fake_turn();
    return 0;
}

static int teardown(void **state UNUSED)
{
    if (world.lease && !world.stopped)
        k8s_lease_stop(world.lease, on_stopped, &world);
    while (fake.count > 0)
        fake_fail(-ECONNREFUSED);
    fake_release();
    assert_int_equal(world.stopped, 1);
    log_file_close(world.log);
    return 0;
}

static unsigned logged(const char *text)
{
    return log_file_count(world.log, text);
}

static void expect(enum k8s_method method, const char *path)
{
    assert_int_equal(fake.count, 1);
    assert_int_equal(fake.requests[0]->method, method);
    assert_string_equal(fake.requests[0]->path, path);
}

static const char *lease_text(unsigned version, const char *spec)
{
    static char text[8192];

    snprintf(
        text, sizeof(text),
        "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"metadata\":{\"name\":\"router\","
        "\"namespace\":\"voice\",\"resourceVersion\":\"%u\"},\"spec\":%s}",
        version, spec);
    return text;
}

/* The request's own body comes back, as the API server does it, with another version. */
static void accept_write(unsigned version)
{
    cJSON *tree = cJSON_Parse(fake.requests[0]->body);
    cJSON *metadata = cJSON_GetObjectItem(tree, "metadata");
    char text[16], *body;

    assert_non_null(tree);
    snprintf(text, sizeof(text), "%u", version);
    cJSON_DeleteItemFromObject(metadata, "resourceVersion");
    cJSON_AddStringToObject(metadata, "resourceVersion", text);
    body = cJSON_PrintUnformatted(tree);
    fake_answer(fake.requests[0]->method == K8S_POST ? 201 : 200, body);
    free(body);
    cJSON_Delete(tree);
}

static struct sent {
    char holder[64], version[16], acquired[40], renewed[40];
    int duration, transitions;
} sent;

static void copy_text(const cJSON *object, const char *key, char *text, size_t size)
{
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));

    snprintf(text, size, "%s", value ? value : "(none)");
}

/* What the oldest request writes. */
static void read_sent(void)
{
    cJSON *tree = cJSON_Parse(fake.requests[0]->body);
    const cJSON *spec = cJSON_GetObjectItem(tree, "spec");

    assert_non_null(spec);
    copy_text(spec, "holderIdentity", sent.holder, sizeof(sent.holder));
    copy_text(spec, "acquireTime", sent.acquired, sizeof(sent.acquired));
    copy_text(spec, "renewTime", sent.renewed, sizeof(sent.renewed));
    copy_text(cJSON_GetObjectItem(tree, "metadata"), "resourceVersion", sent.version, sizeof(sent.version));
    sent.duration = cJSON_GetObjectItem(spec, "leaseDurationSeconds")->valueint;
    sent.transitions = cJSON_GetObjectItem(spec, "leaseTransitions")->valueint;
    cJSON_Delete(tree);
}

static void lead(void)
{
    expect(K8S_GET, ITEM);
    fake_answer(404, "");
    expect(K8S_POST, COLLECTION);
    accept_write(1);
    assert_true(world.is_leader);
}

static void follow(void)
{
    expect(K8S_GET, ITEM);
    fake_answer(200, lease_text(7, RIVAL_SPEC));
    assert_false(world.is_leader);
    assert_string_equal(world.leader, "rival");
}

static void no_lease_yet__it_is_created(void **state UNUSED)
{
    expect(K8S_GET, ITEM);
    assert_string_equal(fake.requests[0]->body, "");
    fake_answer(404, "{\"kind\":\"Status\"}");
    expect(K8S_POST, COLLECTION);
    read_sent();
    assert_string_equal(sent.holder, "me");
    assert_string_equal(sent.acquired, "2026-01-01T00:00:00.123000Z");
    assert_string_equal(sent.renewed, sent.acquired);
    assert_string_equal(sent.version, "(none)");
    assert_int_equal(sent.duration, 15);
    assert_int_equal(sent.transitions, 0);
    assert_false(k8s_lease_leads(world.lease));
    accept_write(1);
    assert_true(k8s_lease_leads(world.lease));
    assert_int_equal(world.changes, 1);
    assert_string_equal(world.leader, "me");
}

static void create__somebody_was_faster(void **state UNUSED)
{
    fake_answer(404, "");
    expect(K8S_POST, COLLECTION);
    fake_answer(409, "{\"reason\":\"AlreadyExists\"}");
    assert_false(k8s_lease_leads(world.lease));
    assert_int_equal(world.changes, 0);
    assert_int_equal(fake.count, 0);
    fake_advance(RETRY_MS);
    follow();
    assert_int_equal(logged("failed"), 0);
}

static void leader__renews_with_one_request_each_retry_period(void **state UNUSED)
{
    lead();
    for (unsigned i = 0; i < 20; i++) {
        fake_advance(RETRY_MS - 1);
        assert_int_equal(fake.count, 0);
        fake_advance(1);
        expect(K8S_PUT, ITEM);
        read_sent();
        assert_int_equal(strtoul(sent.version, NULL, 10), i + 1);
        assert_string_equal(sent.acquired, "2026-01-01T00:00:00.123000Z");
        assert_string_not_equal(sent.renewed, sent.acquired);
        assert_int_equal(sent.transitions, 0);
        accept_write(i + 2);
    }
    assert_true(k8s_lease_leads(world.lease));
    assert_int_equal(world.changes, 1);
}

static void leader__a_conflict_makes_it_look_and_write_again(void **state UNUSED)
{
    lead();
    fake_advance(RETRY_MS);
    fake_answer(409, "{\"reason\":\"Conflict\"}"); /* somebody put a label on it */
    expect(K8S_GET, ITEM);
    fake_answer(200,
                lease_text(9, "{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"leaseTransitions\":5,"
                              "\"acquireTime\":\"2026-01-01T00:00:00.123000Z\","
                              "\"renewTime\":\"2026-01-01T00:00:00.123000Z\"}"));
    expect(K8S_PUT, ITEM);
    read_sent();
    assert_string_equal(sent.version, "9");
    assert_string_equal(sent.acquired, "2026-01-01T00:00:00.123000Z");
    assert_int_equal(sent.transitions, 5); /* we have been the holder all along */
    accept_write(10);
    assert_true(k8s_lease_leads(world.lease));
    assert_int_equal(world.changes, 1);
}

static void leader__another_one_has_taken_it(void **state UNUSED)
{
    lead();
    fake_advance(RETRY_MS);
    fake_answer(409, "");
    follow();
    assert_false(k8s_lease_leads(world.lease));
    assert_int_equal(world.changes, 2);
}

static void follower__takes_over_only_when_nothing_has_changed_for_the_duration(void **state UNUSED)
{
    uint64_t seen_at_ms = fake.elapsed_ms;

    follow();
    while (fake.elapsed_ms - seen_at_ms < DURATION_MS - RETRY_MS) {
        fake_advance(RETRY_MS);
        follow();
    }
    fake_advance(RETRY_MS);
    expect(K8S_GET, ITEM);
    fake_answer(200, lease_text(7, RIVAL_SPEC));
    expect(K8S_PUT, ITEM);
    read_sent();
    assert_string_equal(sent.holder, "me");
    assert_string_equal(sent.version, "7");
    assert_int_equal(sent.transitions, 4);
    assert_string_equal(sent.acquired, sent.renewed);
    assert_false(k8s_lease_leads(world.lease));
    accept_write(8);
    assert_true(k8s_lease_leads(world.lease));
}

static void follower__every_renewal_makes_it_wait_anew(void **state UNUSED)
{
    char spec[512];

    follow();
    for (unsigned i = 2; i < 40; i++) {
        fake_advance(RETRY_MS);
        snprintf(spec, sizeof(spec),
                 "{\"holderIdentity\":\"rival\",\"leaseDurationSeconds\":15,\"leaseTransitions\":3,"
                 "\"renewTime\":\"2026-01-01T00:00:00.%06uZ\"}",
                 i);
        expect(K8S_GET, ITEM);
        fake_answer(200, lease_text(i, spec));
        assert_int_equal(fake.count, 0);
    }
    assert_int_equal(world.changes, 1);
}

static void follower__a_new_version_with_the_same_record_is_no_sign_of_life(void **state UNUSED)
{
    unsigned version = 7;

    follow();
    while (fake.count == 0 && version < 100) {
        fake_advance(RETRY_MS);
        expect(K8S_GET, ITEM);
        fake_answer(200, lease_text(++version, RIVAL_SPEC));
    }
    expect(K8S_PUT, ITEM);
    read_sent();
    assert_int_equal(strtoul(sent.version, NULL, 10), version);
    assert_int_equal(version, 7 + 8); /* 16 s after the first look */
}

/* A rival's lease that never changes: after its duration, and not before, this router wants it. */
static void follow_until_it_runs_out(const char *spec)
{
    uint64_t seen_at_ms = fake.elapsed_ms;

    while (fake.elapsed_ms - seen_at_ms < DURATION_MS) {
        expect(K8S_GET, ITEM);
        fake_answer(200, lease_text(1, spec));
        assert_int_equal(fake.count, 0);
        fake_advance(RETRY_MS);
    }
    fake_answer(200, lease_text(1, spec));
    expect(K8S_PUT, ITEM);
    fake_answer(409, "");
    fake_advance(RETRY_MS);
}

/* Clocks need not agree: neither a past nor a future renewTime says anything. */
static void skew__the_rivals_clock_is_years_off(void **state UNUSED)
{
    static const char *const times[] = {"1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"};
    char spec[512];

    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        snprintf(spec, sizeof(spec),
                 "{\"holderIdentity\":\"rival\",\"leaseDurationSeconds\":15,\"leaseTransitions\":0,"
                 "\"acquireTime\":\"%s\",\"renewTime\":\"%s\"}",
                 times[i], times[i]);
        follow_until_it_runs_out(spec);
    }
}

static void follower__the_look_that_came_late_counts_from_its_answer(void **state UNUSED)
{
    uint64_t seen_at_ms;

    expect(K8S_GET, ITEM);
    fake_sleep(4000);
    follow();
    seen_at_ms = fake.elapsed_ms;
    for (;;) {
        fake_advance(RETRY_MS);
        expect(K8S_GET, ITEM);
        fake_answer(200, lease_text(7, RIVAL_SPEC));
        if (fake.count > 0)
            break;
    }
    assert_true(fake.elapsed_ms - seen_at_ms >= DURATION_MS);
}

static void follower__respects_the_rivals_own_duration(void **state UNUSED)
{
    const char *spec = "{\"holderIdentity\":\"rival\",\"leaseDurationSeconds\":60,\"renewTime\":null}";
    uint64_t seen_at_ms = fake.elapsed_ms;

    while (fake.elapsed_ms - seen_at_ms < 60000) {
        fake_answer(200, lease_text(1, spec));
        assert_int_equal(fake.count, 0);
        fake_advance(RETRY_MS);
    }
    fake_answer(200, lease_text(1, spec));
    expect(K8S_PUT, ITEM);
}

static void follower__a_lease_given_up_is_taken_at_once(void **state UNUSED)
{
    fake_answer(200,
                lease_text(4, "{\"holderIdentity\":\"\",\"leaseDurationSeconds\":1,\"leaseTransitions\":9,"
                              "\"renewTime\":\"2026-01-01T00:00:00.000000Z\"}"));
    expect(K8S_PUT, ITEM);
    read_sent();
    assert_int_equal(sent.transitions, 10);
    accept_write(5);
    assert_true(k8s_lease_leads(world.lease));
    assert_int_equal(world.changes, 1);
}

static void follower__the_pause_is_spread(void **state UNUSED)
{
    follow();
    fake.random = UINT32_MAX;
    fake_advance(RETRY_MS);
    follow();
    fake_advance(RETRY_MS / 2 - 1);
    assert_int_equal(fake.count, 0);
    fake_advance(1);
    expect(K8S_GET, ITEM);
}

static void follower__looks_at_the_moment_at_which_the_lease_runs_out(void **state UNUSED)
{
    uint64_t seen_at_ms = fake.elapsed_ms;

    follow();
    while (fake.elapsed_ms - seen_at_ms + RETRY_MS < DURATION_MS) {
        fake_advance(RETRY_MS);
        follow();
    }
    fake_advance(DURATION_MS - (fake.elapsed_ms - seen_at_ms) - 1);
    assert_int_equal(fake.count, 0);
    fake_advance(1);
    expect(K8S_GET, ITEM);
    fake_answer(200, lease_text(7, RIVAL_SPEC));
    expect(K8S_PUT, ITEM);
}

static void follower__says_nobody_when_the_rival_is_silent_and_the_server_away(void **state UNUSED)
{
    follow();
    for (unsigned i = 0; i < 10; i++) {
        fake_advance(RETRY_MS);
        if (fake.count > 0)
            fake_fail(-ECONNREFUSED);
    }
    assert_false(world.is_leader);
    assert_string_equal(world.leader, "");
    assert_int_equal(world.changes, 2);
}

static void follower__says_nobody_while_an_answer_is_awaited(void **state UNUSED)
{
    follow();
    fake_advance(RETRY_MS);
    expect(K8S_GET, ITEM);
    fake_advance(DURATION_MS - RETRY_MS - 1);
    assert_string_equal(world.leader, "rival");
    fake_advance(1);
    assert_string_equal(world.leader, "");
}

static void malformed__a_spec_that_says_nothing_is_free(void **state UNUSED)
{
    static const char *const specs[] = {
        "null",
        "{}",
        "{\"holderIdentity\":null,\"leaseDurationSeconds\":null,\"acquireTime\":null}",
        "{\"leaseTransitions\":null,\"renewTime\":null}",
        "{\"holderIdentity\":17,\"leaseDurationSeconds\":\"x\",\"leaseTransitions\":-4,\"renewTime\":{}}",
        "{\"holderIdentity\":\"\",\"leaseTransitions\":1e300}",
    };

    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        expect(K8S_GET, ITEM);
        fake_answer(200, lease_text(1, specs[i]));
        expect(K8S_PUT, ITEM);
        read_sent();
        assert_string_equal(sent.holder, "me");
        assert_int_equal(sent.transitions, 1);
        fake_answer(409, "");
        fake_advance(RETRY_MS);
    }
}

static void malformed__a_rival_without_a_duration_gets_ours(void **state UNUSED)
{
    static const char *const durations[] = {"null", "0", "-3", "\"15\"", "1e99"};

    for (size_t i = 0; i < ARRAY_LEN(durations); i++) {
        char spec[256];

        snprintf(spec, sizeof(spec), "{\"holderIdentity\":\"rival-%zu\",\"leaseDurationSeconds\":%s}", i,
                 durations[i]);
        follow_until_it_runs_out(spec);
    }
}

static void malformed__what_is_no_lease_is_left_alone(void **state UNUSED)
{
    static const char *const bodies[] = {
        "",
        "<html>",
        "[]",
        "{}",
        "{\"kind\":\"Lease\",\"metadata\":{}}",
        "{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":4}}",
        "{\"kind\":\"Status\",\"metadata\":{\"resourceVersion\":\"4\"}}",
        "{\"kind\":\"Lease\",\"metadata\":{\"resourceVersion\":\"4\"},\"spec\":[]}",
    };

    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        expect(K8S_GET, ITEM);
        fake_answer(200, bodies[i]);
        assert_int_equal(fake.count, 0);
        fake_advance(RETRY_MS);
    }
    assert_int_equal(world.changes, 0);
    assert_int_equal(logged("the answer is not a Lease"), 1);
}

static void malformed__our_own_acquire_time_is_made_anew(void **state UNUSED)
{
    fake_answer(200, lease_text(1, "{\"holderIdentity\":\"me\",\"acquireTime\":\"yesterday\"}"));
    expect(K8S_PUT, ITEM);
    read_sent();
    assert_string_equal(sent.acquired, sent.renewed);
}

static void transitions__stop_where_the_schema_ends(void **state UNUSED)
{
    fake_answer(200, lease_text(1, "{\"leaseTransitions\":2147483647}"));
    expect(K8S_PUT, ITEM);
    read_sent();
    assert_int_equal(sent.transitions, INT32_MAX);
}

static void restart__our_own_lease_is_taken_back_at_once(void **state UNUSED)
{
    fake_answer(200,
                lease_text(1, "{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"leaseTransitions\":3,"
                              "\"acquireTime\":\"2025-01-01T00:00:00.000000Z\"}"));
    assert_false(k8s_lease_leads(world.lease)); /* not before it is confirmed */
    expect(K8S_PUT, ITEM);
    read_sent();
    assert_string_equal(sent.acquired, "2025-01-01T00:00:00.000000Z");
    assert_int_equal(sent.transitions, 3);
    accept_write(2);
    assert_true(k8s_lease_leads(world.lease));
}

static void write__everything_else_in_the_object_stays(void **state UNUSED)
{
    static const char object[] =
        "{\"kind\":\"Lease\",\"apiVersion\":\"coordination.k8s.io/v1\",\"future\":[1,2.5,-7,true,null,{}],"
        "\"metadata\":{\"name\":\"router\",\"labels\":{\"a\":\"\\u00fc\\\"\"},\"annotations\":{\"b\":\"\\n\"}"
        ","
        "\"ownerReferences\":[{\"uid\":\"u\",\"controller\":false}],\"resourceVersion\":"
        "\"12345678901234567\","
        "\"generation\":9007199254740991},"
        "\"spec\":{\"strategy\":\"OldestEmulationVersion\",\"preferredHolder\":\"x\",\"holderIdentity\":\"\"}"
        "}";
    cJSON *was = cJSON_Parse(object), *is;
    char *a, *b;

    assert_non_null(was);
    fake_answer(200, object);
    expect(K8S_PUT, ITEM);
    is = cJSON_Parse(fake.requests[0]->body);
    assert_non_null(is);
    assert_non_null(strstr(fake.requests[0]->body, "\"preferredHolder\":\"x\""));
    assert_non_null(strstr(fake.requests[0]->body, "\"strategy\":\"OldestEmulationVersion\""));
    assert_non_null(strstr(fake.requests[0]->body, "9007199254740991"));
    cJSON_DeleteItemFromObject(was, "spec");
    cJSON_DeleteItemFromObject(is, "spec");
    a = cJSON_PrintUnformatted(was);
    b = cJSON_PrintUnformatted(is);
    assert_string_equal(a, b);
    free(a);
    free(b);
    cJSON_Delete(was);
    cJSON_Delete(is);
}

static void deadline__a_leader_that_cannot_renew_stops_leading_in_time(void **state UNUSED)
{
    uint64_t led_at_ms = fake.elapsed_ms;

    lead();
    while (world.is_leader) {
        if (fake.count > 0)
            fake_fail(-ECONNREFUSED);
        fake_advance(1);
        assert_true(fake.elapsed_ms - led_at_ms <= DEADLINE_MS);
    }
    assert_int_equal(fake.elapsed_ms - led_at_ms, DEADLINE_MS);
    assert_int_equal(world.changes, 2);
    assert_string_equal(world.leader, "");
    assert_int_equal(logged("could not be renewed in time"), 1);
    assert_int_equal(logged("election's request failed"), 1);
}

static void deadline__holds_while_an_answer_is_awaited(void **state UNUSED)
{
    lead();
    fake_advance(RETRY_MS);
    expect(K8S_PUT, ITEM);
    assert_int_equal(fake.requests[0]->timeout_ms, DEADLINE_MS / 2);
    fake_advance(DEADLINE_MS - RETRY_MS - 1);
    assert_true(k8s_lease_leads(world.lease));
    fake_advance(1);
    assert_false(k8s_lease_leads(world.lease));
    assert_false(world.is_leader);
}

static void deadline__the_clock_is_asked_not_the_timer(void **state UNUSED)
{
    lead();
    fake_sleep(DEADLINE_MS - 1);
    assert_true(k8s_lease_leads(world.lease));
    fake_sleep(1);
    assert_false(k8s_lease_leads(world.lease));
    assert_int_equal(world.changes, 1);
    fake_turn();
    assert_int_equal(world.changes, 2);
    assert_false(world.is_leader);
}

static void deadline__a_confirmation_counts_from_when_it_was_asked_for(void **state UNUSED)
{
    lead();
    fake_advance(RETRY_MS);
    expect(K8S_PUT, ITEM);
    fake_sleep(60000); /* the process is stopped; the answer waits in the socket */
    accept_write(2);
    assert_false(k8s_lease_leads(world.lease));
    assert_false(world.is_leader);
    assert_int_equal(world.changes, 2);
    fake_advance(RETRY_MS);
    expect(K8S_GET, ITEM); /* too late for the fast way */
}

static void deadline__led_again_when_the_server_is_back(void **state UNUSED)
{
    lead();
    fake_advance(RETRY_MS);
    while (world.is_leader) {
        if (fake.count > 0)
            fake_fail(-ETIMEDOUT);
        fake_advance(RETRY_MS);
    }
    while (fake.count > 0)
        fake_fail(-ETIMEDOUT);
    fake_advance(DURATION_MS);
    while (fake.count > 0)
        fake_fail(-ETIMEDOUT);
    fake_advance(RETRY_MS);
    expect(K8S_GET, ITEM);
    fake_answer(
        200, lease_text(5, "{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"leaseTransitions\":1}"));
    accept_write(6);
    assert_true(k8s_lease_leads(world.lease));
    assert_int_equal(world.changes, 3);
    assert_int_equal(logged("works again"), 1);
}

static void leader__its_name_written_back_by_others_is_no_confirmation(void **state UNUSED)
{
    lead();
    fake_advance(RETRY_MS);
    fake_answer(409, "");
    follow();
    fake_advance(RETRY_MS);
    expect(K8S_GET, ITEM);
    fake_answer(200, lease_text(9, "{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15}"));
    fake_fail(-ECONNRESET);
    assert_false(k8s_lease_leads(world.lease));
    assert_false(world.is_leader);
}

static void leader__the_lease_was_deleted_and_is_made_again(void **state UNUSED)
{
    lead();
    fake_advance(RETRY_MS);
    fake_answer(404, "");
    expect(K8S_GET, ITEM);
    fake_answer(404, "");
    assert_false(k8s_lease_leads(world.lease)); /* anybody may be the first to make it now */
    expect(K8S_POST, COLLECTION);
    accept_write(1);
    assert_true(k8s_lease_leads(world.lease));
    assert_int_equal(world.changes, 1);
}

static void written__is_told_for_each_write_that_the_server_took(void **state UNUSED)
{
    lead();
    assert_int_equal(world.written, 1); /* created */
    fake_advance(RETRY_MS);
    accept_write(2);
    assert_int_equal(world.written, 2); /* renewed */
    fake_advance(RETRY_MS);
    fake_answer(409, "");
    expect(K8S_GET, ITEM);
    fake_answer(200, lease_text(4, "{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15}"));
    assert_int_equal(world.written, 2); /* our name in it was not written by us just now */
    expect(K8S_PUT, ITEM);
    accept_write(5);
    assert_int_equal(world.written, 3); /* taken */
    assert_int_equal(world.changes, 1);
}

static void written__is_not_told_of_what_failed_or_is_another_ones(void **state UNUSED)
{
    lead();
    fake_advance(RETRY_MS);
    fake_fail(-ETIMEDOUT); /* whether it was taken nobody knows: only an answer counts */
    expect(K8S_GET, ITEM);
    fake_answer(404, "");
    expect(K8S_POST, COLLECTION);
    fake_answer(409, "");
    fake_advance(RETRY_MS);
    follow();
    fake_advance(RETRY_MS);
    follow();
    assert_int_equal(world.written, 1);
}

static void written__is_not_told_when_the_answer_came_too_late(void **state UNUSED)
{
    lead();
    fake_advance(RETRY_MS);
    expect(K8S_PUT, ITEM);
    fake_sleep(DEADLINE_MS); /* the process is stopped; the answer waits in the socket */
    accept_write(2);
    assert_int_equal(world.written, 1);
}

static void written__is_not_told_of_an_answer_that_shows_another_holder(void **state UNUSED)
{
    expect(K8S_GET, ITEM);
    fake_answer(404, "");
    expect(K8S_POST, COLLECTION);
    fake_answer(201, lease_text(1, RIVAL_SPEC)); /* an admission webhook may change what it lets pass */
    assert_int_equal(world.written, 0);
}

static void written__is_not_told_of_giving_it_up(void **state UNUSED)
{
    lead();
    k8s_lease_stop(world.lease, on_stopped, &world);
    fake_answer(200, lease_text(1, "{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15}"));
    expect(K8S_PUT, ITEM);
    accept_write(2);
    assert_int_equal(world.written, 1);
}

static void refused__is_said_once_with_verb_and_namespace(void **state UNUSED)
{
    const char *status = "{\"kind\":\"Status\",\"message\":\"leases is forbidden: User x cannot get\"}";

    for (unsigned i = 0; i < 5; i++) {
        expect(K8S_GET, ITEM);
        fake_answer(403, status);
        fake_advance(RETRY_MS);
    }
    assert_int_equal(logged("this router cannot lead: its role lacks a verb on leases"), 1);
    assert_int_equal(logged("\"verb\":\"get\""), 1);
    assert_int_equal(logged("\"resource\":\"leases.coordination.k8s.io\""), 1);
    assert_int_equal(logged("\"namespace\":\"voice\""), 1);
    assert_int_equal(logged("User x cannot get"), 1);
    /* Reading is allowed now, writing is not: that is news. */
    for (unsigned i = 0; i < 3; i++) {
        fake_answer(200, lease_text(1, "{}"));
        fake_answer(403, status);
        fake_advance(RETRY_MS);
    }
    assert_int_equal(logged("its role lacks a verb"), 2);
    assert_int_equal(logged("\"verb\":\"update\""), 1);
    fake_answer(401, "");
    assert_int_equal(logged("the API server does not know it"), 1);
    assert_int_equal(world.changes, 0);
}

static void refused__a_missing_namespace_is_named(void **state UNUSED)
{
    for (unsigned i = 0; i < 3; i++) {
        fake_answer(404, "");
        expect(K8S_POST, COLLECTION);
        fake_answer(404, "{\"message\":\"namespaces \\\"voice\\\" not found\"}");
        fake_advance(RETRY_MS);
    }
    assert_int_equal(logged("there is no such namespace"), 1);
}

static void busy_server__is_given_the_time_it_asks_for(void **state UNUSED)
{
    fake_answer_later(429, "", 9000);
    fake_advance(8999);
    assert_int_equal(fake.count, 0);
    fake_advance(1);
    lead();
    fake_advance(RETRY_MS);
    expect(K8S_PUT, ITEM);
    fake_answer_later(429, "", 3000); /* no second request on top */
    assert_int_equal(fake.count, 0);
    fake_advance(3000);
    expect(K8S_PUT, ITEM);
}

static void full_client__is_asked_again_later(void **state UNUSED)
{
    fake_answer(500, "");
    fake.refuse = -EBUSY;
    fake_advance(RETRY_MS);
    assert_int_equal(fake.count, 0);
    fake.refuse = 0;
    fake_advance(RETRY_MS);
    lead();
}

static void stop__the_leader_gives_the_lease_up(void **state UNUSED)
{
    lead();
    k8s_lease_stop(world.lease, on_stopped, &world);
    assert_false(k8s_lease_leads(world.lease));
    assert_int_equal(world.stopped, 0);
    expect(K8S_GET, ITEM);
    fake_answer(
        200,
        lease_text(30, "{\"holderIdentity\":\"me\",\"leaseDurationSeconds\":15,\"leaseTransitions\":6}"));
    expect(K8S_PUT, ITEM);
    read_sent();
    assert_string_equal(sent.holder, "");
    assert_string_equal(sent.version, "30");
    assert_int_equal(sent.duration, 1);
    assert_int_equal(sent.transitions, 6);
    assert_string_equal(sent.acquired, sent.renewed);
    assert_true(lease_time_is_valid(sent.renewed));
    assert_int_equal(world.stopped, 0);
    accept_write(31);
    assert_int_equal(world.stopped, 1);
    assert_int_equal(world.changes, 1); /* whoever stops it knows */
}

static void stop__a_conflict_is_overcome_twice(void **state UNUSED)
{
    lead();
    k8s_lease_stop(world.lease, on_stopped, &world);
    for (unsigned i = 0; i < 2; i++) {
        fake_answer(200, lease_text(30 + i, "{\"holderIdentity\":\"me\"}"));
        expect(K8S_PUT, ITEM);
        fake_answer(409, "");
        expect(K8S_GET, ITEM);
    }
    fake_answer(200, lease_text(33, "{\"holderIdentity\":\"me\"}"));
    accept_write(34);
    assert_int_equal(world.stopped, 1);
    assert_int_equal(logged("was given up"), 1);
}

static void stop__there_is_an_end_to_conflicts(void **state UNUSED)
{
    lead();
    k8s_lease_stop(world.lease, on_stopped, &world);
    for (unsigned i = 0; i < 3; i++) {
        fake_answer(200, lease_text(30 + i, "{\"holderIdentity\":\"me\"}"));
        fake_answer(409, "");
    }
    assert_int_equal(world.stopped, 1);
    assert_int_equal(logged("could not be given up"), 1);
}

static void stop__what_another_one_has_taken_is_left_alone(void **state UNUSED)
{
    lead();
    k8s_lease_stop(world.lease, on_stopped, &world);
    fake_answer(200, lease_text(30, RIVAL_SPEC));
    assert_int_equal(world.stopped, 1);
    assert_int_equal(fake.count, 0);
}

static void stop__a_follower_sends_nothing(void **state UNUSED)
{
    follow();
    k8s_lease_stop(world.lease, on_stopped, &world);
    assert_int_equal(world.stopped, 0); /* later, never inside */
    fake_turn();
    assert_int_equal(world.stopped, 1);
    assert_int_equal(fake.sent, 1);
}

static void stop__a_look_under_way_is_cut_off(void **state UNUSED)
{
    expect(K8S_GET, ITEM);
    k8s_lease_stop(world.lease, on_stopped, &world);
    assert_int_equal(fake.cancelled, 1);
    fake_turn();
    assert_int_equal(world.stopped, 1);
}

static void stop__a_write_under_way_is_awaited_and_undone(void **state UNUSED)
{
    fake_answer(404, "");
    expect(K8S_POST, COLLECTION);
    k8s_lease_stop(world.lease, on_stopped, &world);
    assert_int_equal(fake.cancelled, 0);
    accept_write(1);
    assert_int_equal(world.changes, 0);
    expect(K8S_GET, ITEM);
    fake_answer(200, lease_text(1, "{\"holderIdentity\":\"me\"}"));
    read_sent();
    assert_string_equal(sent.holder, "");
    accept_write(2);
    assert_int_equal(world.stopped, 1);
}

static void stop__a_silent_server_is_not_waited_for(void **state UNUSED)
{
    lead();
    k8s_lease_stop(world.lease, on_stopped, &world);
    fake_advance(1999);
    assert_int_equal(world.stopped, 0);
    fake_advance(1);
    assert_int_equal(world.stopped, 1);
    assert_int_equal(fake.cancelled, 1);
    assert_int_equal(logged("could not be given up"), 1);
}

static void stop__may_come_from_inside_on_change(void **state UNUSED)
{
    world.stops_when_told = true;
    fake_answer(404, "");
    accept_write(1);
    expect(K8S_GET, ITEM);
    fake_answer(404, "");
    assert_int_equal(world.stopped, 1);
    assert_int_equal(world.changes, 1);
}

static void time__has_exactly_six_digits(void **state UNUSED)
{
    char text[LEASE_TIME_MAX];

    lease_time_format(UINT64_C(1767225600007), text);
    assert_string_equal(text, "2026-01-01T00:00:00.007000Z");
    assert_true(lease_time_is_valid(text));
    assert_false(lease_time_is_valid("2026-01-01T00:00:00Z"));
    assert_false(lease_time_is_valid("2026-01-01T00:00:00.007Z"));
    assert_false(lease_time_is_valid("2026-01-01T00:00:00.007000000Z"));
    assert_false(lease_time_is_valid("2026-01-01T00:00:00,007000Z"));
    assert_false(lease_time_is_valid(""));
    assert_false(lease_time_is_valid(NULL));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(no_lease_yet__it_is_created),
        CASE(create__somebody_was_faster),
        CASE(leader__renews_with_one_request_each_retry_period),
        CASE(leader__a_conflict_makes_it_look_and_write_again),
        CASE(leader__another_one_has_taken_it),
        CASE(leader__its_name_written_back_by_others_is_no_confirmation),
        CASE(leader__the_lease_was_deleted_and_is_made_again),
        CASE(follower__takes_over_only_when_nothing_has_changed_for_the_duration),
        CASE(follower__every_renewal_makes_it_wait_anew),
        CASE(follower__a_new_version_with_the_same_record_is_no_sign_of_life),
        CASE(follower__the_look_that_came_late_counts_from_its_answer),
        CASE(follower__respects_the_rivals_own_duration),
        CASE(follower__a_lease_given_up_is_taken_at_once),
        CASE(follower__looks_at_the_moment_at_which_the_lease_runs_out),
        CASE(follower__the_pause_is_spread),
        CASE(follower__says_nobody_when_the_rival_is_silent_and_the_server_away),
        CASE(follower__says_nobody_while_an_answer_is_awaited),
        CASE(skew__the_rivals_clock_is_years_off),
        CASE(malformed__a_spec_that_says_nothing_is_free),
        CASE(malformed__a_rival_without_a_duration_gets_ours),
        CASE(malformed__what_is_no_lease_is_left_alone),
        CASE(malformed__our_own_acquire_time_is_made_anew),
        CASE(transitions__stop_where_the_schema_ends),
        CASE(restart__our_own_lease_is_taken_back_at_once),
        CASE(write__everything_else_in_the_object_stays),
        CASE(deadline__a_leader_that_cannot_renew_stops_leading_in_time),
        CASE(deadline__holds_while_an_answer_is_awaited),
        CASE(deadline__the_clock_is_asked_not_the_timer),
        CASE(deadline__a_confirmation_counts_from_when_it_was_asked_for),
        CASE(deadline__led_again_when_the_server_is_back),
        CASE(written__is_told_for_each_write_that_the_server_took),
        CASE(written__is_not_told_of_what_failed_or_is_another_ones),
        CASE(written__is_not_told_when_the_answer_came_too_late),
        CASE(written__is_not_told_of_an_answer_that_shows_another_holder),
        CASE(written__is_not_told_of_giving_it_up),
        CASE(refused__is_said_once_with_verb_and_namespace),
        CASE(refused__a_missing_namespace_is_named),
        CASE(busy_server__is_given_the_time_it_asks_for),
        CASE(full_client__is_asked_again_later),
        CASE(stop__the_leader_gives_the_lease_up),
        CASE(stop__a_conflict_is_overcome_twice),
        CASE(stop__there_is_an_end_to_conflicts),
        CASE(stop__what_another_one_has_taken_is_left_alone),
        CASE(stop__a_follower_sends_nothing),
        CASE(stop__a_look_under_way_is_cut_off),
        CASE(stop__a_write_under_way_is_awaited_and_undone),
        CASE(stop__a_silent_server_is_not_waited_for),
        CASE(stop__may_come_from_inside_on_change),
        cmocka_unit_test(time__has_exactly_six_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
