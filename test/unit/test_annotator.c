/* test_annotator.c - annotations of pods with calls, with an API server and a clock that the test owns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../support/log_file.h"
#include "fake_k8s.h"
#include "k8s/annotator.h"

enum { SETTLE_MS = 1000, PER_SECOND = 20, GAP_MS = 1000 / PER_SECOND, UNDER_WAY = 4, REFUSED_MS = 300000 };

static const struct k8s_annotations bare = {0};

static struct world {
    struct k8s_annotator *marks;
    unsigned stopped;
    FILE *log;
} world;

static void on_stopped(void *arg)
{
    assert_ptr_equal(arg, &world);
    world.stopped++;
    world.marks = NULL;
}

static int setup(void **state UNUSED)
{
    struct k8s_annotator_settings settings = {
        .namespace_name = "voice",
        .settle_ms = SETTLE_MS,
        .per_second_max = PER_SECOND,
        .under_way_max = UNDER_WAY,
    };

    fake_init();
    memset(&world, 0, sizeof(world));
    world.log = log_file_open();
    assert_int_equal(k8s_annotator_new(&fake.loop, &settings, fake_client(), &world.marks), 0);
    return 0;
}

static int teardown(void **state UNUSED)
{
    if (world.marks)
        k8s_annotator_stop(world.marks, on_stopped, &world);
    fake_release();
    assert_int_equal(world.stopped, 1);
    log_file_close(world.log);
    return 0;
}

static unsigned logged(const char *text)
{
    return log_file_count(world.log, text);
}

static struct k8s_annotations mark_of(const char *annotations)
{
    cJSON *tree = cJSON_Parse(annotations);
    struct k8s_annotations mark;

    assert_non_null(tree);
    k8s_annotations_read(tree, &mark);
    cJSON_Delete(tree);
    return mark;
}

/* Applies a patch to annotations as the API server does; both are JSON. The caller frees. */
static char *patched(const char *annotations, const char *patch)
{
    cJSON *tree = cJSON_Parse(annotations), *body = cJSON_Parse(patch);
    const cJSON *changes = cJSON_GetObjectItem(cJSON_GetObjectItem(body, "metadata"), "annotations");
    const cJSON *change;
    char *text;

    assert_non_null(tree);
    assert_non_null(changes);
    cJSON_ArrayForEach(change, changes)
    {
        cJSON_DeleteItemFromObjectCaseSensitive(tree, change->string);
        if (!cJSON_IsNull(change))
            cJSON_AddStringToObject(tree, change->string, change->valuestring);
    }
    text = cJSON_PrintUnformatted(tree);
    cJSON_Delete(tree);
    cJSON_Delete(body);
    return text;
}

/* What annotations become when a pod with them gets or loses its call. The caller frees. */
static char *brought(const char *annotations, bool is_busy)
{
    struct k8s_annotations mark = mark_of(annotations), after;
    struct strbuf buf;
    char *text;

    if (k8s_annotations_fits(mark, is_busy))
        return strdup(annotations);
    strbuf_init(&buf, NULL, 4096);
    k8s_annotations_write_patch(&buf, mark, "u1", is_busy);
    assert_false(strbuf_failed(&buf));
    text = patched(annotations, buf.data);
    strbuf_release(&buf);
    /* What we believe is what is. */
    after = mark_of(text);
    mark = k8s_annotations_patched(mark, is_busy);
    assert_int_equal(after.ours, mark.ours);
    assert_int_equal(after.others, mark.others);
    assert_int_equal(after.is_signed, mark.is_signed);
    assert_true(k8s_annotations_fits(after, is_busy));
    return text;
}

static const char *annotation(const char *annotations, const char *key)
{
    static char value[128];
    cJSON *tree = cJSON_Parse(annotations);
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(tree, key));

    snprintf(value, sizeof(value), "%s", text ? text : "(none)");
    cJSON_Delete(tree);
    return value;
}

/* With a call, and without it again: is everything as it was? */
static void round_trip(const char *before)
{
    char *busy = brought(before, true), *idle = brought(busy, false);

    assert_string_not_equal(annotation(busy, K8S_ANNOTATIONS_COST), "(none)");
    assert_string_not_equal(annotation(busy, K8S_ANNOTATIONS_EVICT), "(none)");
    assert_string_not_equal(annotation(busy, K8S_ANNOTATIONS_DISRUPT), "(none)");
    assert_string_equal(idle, before);
    free(busy);
    free(idle);
}

static void mark__a_pod_is_as_it_was_when_its_call_has_ended(void **state UNUSED)
{
    round_trip("{}");
    round_trip("{\"a\":\"b\"}");
    round_trip("{\"" K8S_ANNOTATIONS_COST "\":\"-5\"}");
    round_trip("{\"" K8S_ANNOTATIONS_COST "\":\"1000\"}"); /* the user's, though it equals ours */
    round_trip("{\"" K8S_ANNOTATIONS_EVICT "\":\"false\",\"" K8S_ANNOTATIONS_DISRUPT "\":\"true\"}");
    round_trip("{\"" K8S_ANNOTATIONS_EVICT "\":\"true\"}");
    round_trip("{\"" K8S_ANNOTATIONS_EVICT "\":\"false\",\"" K8S_ANNOTATIONS_DISRUPT
               "\":\"true\",\"" K8S_ANNOTATIONS_COST "\":\"7\"}");
}

static void mark__has_these_values(void **state UNUSED)
{
    char *busy = brought("{}", true);

    assert_string_equal(annotation(busy, "controller.kubernetes.io/pod-deletion-cost"), "1000");
    assert_string_equal(annotation(busy, "cluster-autoscaler.kubernetes.io/safe-to-evict"), "false");
    assert_string_equal(annotation(busy, "karpenter.sh/do-not-disrupt"), "true");
    free(busy);
}

static void mark__what_others_set_is_not_overwritten(void **state UNUSED)
{
    char *busy = brought("{\"" K8S_ANNOTATIONS_COST "\":\"-5\"}", true);

    assert_string_equal(annotation(busy, K8S_ANNOTATIONS_COST), "-5");
    assert_string_equal(annotation(busy, K8S_ANNOTATIONS_OWNED), "safe-to-evict,do-not-disrupt");
    free(busy);
}

static void mark__what_somebody_changes_meanwhile_is_his(void **state UNUSED)
{
    char *busy = brought("{}", true);
    char *changed = patched(busy, "{\"metadata\":{\"annotations\":{\"" K8S_ANNOTATIONS_COST "\":\"42\"}}}");
    char *idle = brought(changed, false);

    assert_string_equal(idle, "{\"" K8S_ANNOTATIONS_COST "\":\"42\"}");
    free(busy);
    free(changed);
    free(idle);
}

static void mark__odd_annotations_are_read_without_harm(void **state UNUSED)
{
    static const char *const odd[] = {
        "null",
        "[]",
        "17",
        "{\"" K8S_ANNOTATIONS_OWNED "\":7}",
        "{\"" K8S_ANNOTATIONS_COST "\":null}",
        "{\"" K8S_ANNOTATIONS_EVICT "\":{\"a\":1}}",
    };

    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        struct k8s_annotations mark = mark_of(odd[i]);

        assert_int_equal(mark.ours, 0);
        assert_int_equal(mark.others, 0);
        assert_true(k8s_annotations_fits(mark, false));
    }
    assert_false(k8s_annotations_fits(mark_of("{\"" K8S_ANNOTATIONS_OWNED "\":\",,x,\"}"),
                                      false)); /* ours to clean up */
    k8s_annotations_read(NULL, &(struct k8s_annotations){0});
}

static struct k8s_annotations marked(void)
{
    return k8s_annotations_patched(bare, true);
}

static void expect(size_t index, const char *pod, bool is_busy)
{
    char path[128];

    assert_true(index < fake.count);
    snprintf(path, sizeof(path), "/api/v1/namespaces/voice/pods/%s", pod);
    assert_int_equal(fake.requests[index]->method, K8S_PATCH_MERGE);
    assert_string_equal(fake.requests[index]->path, path);
    assert_int_equal(strstr(fake.requests[index]->body, "null") == NULL, is_busy);
}

static void want__a_pod_with_a_call_is_marked_at_once(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "uid-a", bare);
    k8s_annotator_want(world.marks, "a", true);
    assert_int_equal(fake.sent, 0); /* nothing happens inside the call */
    fake_turn();
    expect(0, "a", true);
    assert_non_null(strstr(fake.requests[0]->body, "\"uid\":\"uid-a\""));
    fake_answer(200, "{}");
    fake_advance(60000);
    assert_int_equal(fake.sent, 1);
}

static void want__is_remembered_until_the_pod_is_known(void **state UNUSED)
{
    k8s_annotator_want(world.marks, "a", true);
    fake_advance(60000);
    assert_int_equal(fake.sent, 0);
    k8s_annotator_known(world.marks, "a", "u", bare);
    fake_turn();
    expect(0, "a", true);
    fake_answer(200, "{}");
}

static void relief__comes_when_there_was_no_call_for_a_while(void **state UNUSED)
{
    k8s_annotator_want(world.marks, "a", true);
    k8s_annotator_known(world.marks, "a", "u", marked());
    k8s_annotator_want(world.marks, "a", false);
    fake_advance(SETTLE_MS - 1);
    assert_int_equal(fake.sent, 0);
    fake_advance(1);
    expect(0, "a", false);
    fake_answer(200, "{}");
    fake_advance(60000);
    assert_int_equal(fake.sent, 1);
}

static void flapping__costs_no_patch(void **state UNUSED)
{
    k8s_annotator_want(world.marks, "a", true);
    k8s_annotator_known(world.marks, "a", "u", marked());
    for (unsigned i = 0; i < 100; i++) {
        k8s_annotator_want(world.marks, "a", false);
        fake_advance(SETTLE_MS - 1);
        k8s_annotator_want(world.marks, "a", true);
        fake_advance(5000);
    }
    assert_int_equal(fake.sent, 0);
}

static void flapping__while_a_patch_is_under_way_ends_right(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", bare);
    k8s_annotator_want(world.marks, "a", true);
    fake_turn();
    k8s_annotator_want(world.marks, "a", false);
    fake_advance(5000);
    assert_int_equal(fake.count, 1); /* one at a time for a pod */
    fake_answer(200, "{}");
    fake_advance(SETTLE_MS);
    expect(0, "a", false);
    k8s_annotator_want(world.marks, "a", true);
    fake_answer(200, "{}");
    fake_advance(GAP_MS);
    expect(0, "a", true);
    fake_answer(200, "{}");
}

static void known__what_another_leader_left_is_relieved(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", marked());
    k8s_annotator_known(world.marks, "b", "u", bare);
    k8s_annotator_want(world.marks, "a", false);
    k8s_annotator_want(world.marks, "b", false);
    fake_advance(SETTLE_MS);
    expect(0, "a", false);
    fake_answer(200, "{}");
    fake_advance(60000);
    assert_int_equal(fake.sent, 1);
}

/* The store may be out of reach: what it says of calls is not known. */
static void known__a_mark_stays_until_it_is_told_that_there_is_no_call(void **state UNUSED)
{
    k8s_annotator_want(world.marks, "a", false); /* of a pod that is not known it says nothing */
    k8s_annotator_known(world.marks, "a", "u", marked());
    fake_advance(3600000);
    assert_int_equal(fake.sent, 0);
    k8s_annotator_want(world.marks, "a", false);
    fake_advance(SETTLE_MS);
    expect(0, "a", false);
    fake_answer(200, "{}");
}

static void known__what_is_right_already_is_left_alone(void **state UNUSED)
{
    k8s_annotator_want(world.marks, "a", true);
    k8s_annotator_known(world.marks, "a", "u", marked());
    k8s_annotator_known(world.marks, "b", "u", bare);
    k8s_annotator_want(world.marks, "b", false);
    k8s_annotator_want(world.marks, "c", true);
    k8s_annotator_known(world.marks, "c", "u", (struct k8s_annotations){.others = marked().ours});
    fake_advance(60000);
    assert_int_equal(fake.sent, 0);
}

static void known__a_mark_that_somebody_removed_is_set_again(void **state UNUSED)
{
    k8s_annotator_want(world.marks, "a", true);
    k8s_annotator_known(world.marks, "a", "u", marked());
    fake_advance(5000);
    k8s_annotator_known(world.marks, "a", "u", bare);
    fake_turn();
    expect(0, "a", true);
    fake_answer(200, "{}");
}

static void known__another_pod_of_the_same_name(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "old", bare);
    k8s_annotator_want(world.marks, "a", true);
    fake_turn();
    expect(0, "a", true);
    k8s_annotator_known(world.marks, "a", "new", bare);
    assert_int_equal(fake.cancelled, 1);
    fake_advance(GAP_MS);
    expect(0, "a", true);
    assert_non_null(strstr(fake.requests[0]->body, "\"uid\":\"new\""));
    fake_answer(409, "{}"); /* and a newer one still: wait until it is shown */
    fake_advance(60000);
    assert_int_equal(fake.count, 0);
    k8s_annotator_known(world.marks, "a", "newest", bare);
    fake_turn();
    assert_non_null(strstr(fake.requests[0]->body, "\"uid\":\"newest\""));
    fake_answer(200, "{}");
    assert_int_equal(logged("could not be annotated"), 0);
}

static void gone__nothing_is_sent_any_more(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", bare);
    k8s_annotator_want(world.marks, "a", true);
    k8s_annotator_forget(world.marks, "a");
    k8s_annotator_forget(world.marks, "never-seen");
    fake_advance(5000);
    assert_int_equal(fake.sent, 0);
    k8s_annotator_known(world.marks, "b", "u", bare);
    k8s_annotator_want(world.marks, "b", true);
    fake_turn();
    k8s_annotator_forget(world.marks, "b");
    assert_int_equal(fake.cancelled, 1);
}

static void gone__the_server_says_so(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", bare);
    k8s_annotator_want(world.marks, "a", true);
    fake_turn();
    fake_answer(404, "{}");
    fake_advance(60000);
    assert_int_equal(fake.sent, 1);
    assert_int_equal(logged("could not be annotated"), 0);
}

static void list__who_is_not_in_it_is_gone(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", marked());
    k8s_annotator_known(world.marks, "b", "u", marked());
    k8s_annotator_known(world.marks, "c", "u", marked());
    k8s_annotator_want(world.marks, "a", false);
    k8s_annotator_want(world.marks, "b", false);
    k8s_annotator_want(world.marks, "c", true);
    k8s_annotator_want(world.marks, "d", true); /* younger than the list */
    k8s_annotator_list_begin(world.marks);
    k8s_annotator_known(world.marks, "b", "u", marked());
    k8s_annotator_list_end(world.marks);
    fake_advance(60000);
    expect(0, "a", false); /* it may live on without its label */
    expect(1, "b", false);
    assert_int_equal(fake.sent, 2);
    fake_answer(404, "{}");
    fake_answer(200, "{}");
    fake_advance(60000);
    assert_int_equal(fake.sent, 2);
    k8s_annotator_known(world.marks, "d", "u", bare);
    fake_turn();
    expect(0, "d", true);
    fake_answer(200, "{}");
}

static void rate__no_more_than_allowed(void **state UNUSED)
{
    uint64_t end_ms;
    size_t sent;
    char name[16];

    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "pod-%u", i);
        k8s_annotator_known(world.marks, name, "u", bare);
        k8s_annotator_want(world.marks, name, true);
    }
    for (unsigned second = 0; second < 10; second++) {
        sent = fake.sent;
        end_ms = fake.elapsed_ms + 1000;
        while (fake.elapsed_ms < end_ms) {
            fake_advance(1);
            while (fake.count > 0)
                fake_answer(200, "{}");
        }
        assert_in_range(fake.sent - sent, PER_SECOND - 1, PER_SECOND + 1);
    }
    /* A server that is slow gets no more than so many at once. */
    fake_advance(60000);
    assert_int_equal(fake.count, UNDER_WAY);
    fake_answer_at(2, 200, "{}");
    fake_advance(GAP_MS);
    assert_int_equal(fake.count, UNDER_WAY);
}

static void rate__pods_with_calls_come_first(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "idle", "u", marked());
    k8s_annotator_want(world.marks, "idle", false);
    fake_sleep(SETTLE_MS);
    k8s_annotator_known(world.marks, "busy", "u", bare);
    k8s_annotator_want(world.marks, "busy", true);
    fake_turn();
    expect(0, "busy", true);
    fake_answer(200, "{}");
    fake_advance(GAP_MS);
    expect(0, "idle", false);
    fake_answer(200, "{}");
}

static void rate__a_pod_that_is_told_often_keeps_its_turn(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", bare);
    k8s_annotator_known(world.marks, "b", "u", bare);
    k8s_annotator_want(world.marks, "a", true);
    k8s_annotator_want(world.marks, "b", true);
    k8s_annotator_known(world.marks, "a", "u", bare);
    fake_turn();
    expect(0, "a", true);
}

#define FORBIDDEN "{\"kind\":\"Status\",\"message\":\"User x cannot patch resource pods\"}"

static void know_busy(const char *pod)
{
    k8s_annotator_known(world.marks, pod, "u", bare);
    k8s_annotator_want(world.marks, pod, true);
}

/* Answers what is sent within that time. */
static void serve(uint64_t ms, int status, const char *body)
{
    for (uint64_t end_ms = fake.elapsed_ms + ms; fake.elapsed_ms < end_ms; fake_advance(GAP_MS)) {
        while (fake.count > 0)
            fake_answer(status, body);
    }
    while (fake.count > 0)
        fake_answer(status, body);
}

static void forbidden__one_pod_is_left_alone_for_five_minutes(void **state UNUSED)
{
    know_busy("a");
    fake_turn();
    fake_answer(403, "{\"message\":\"a policy is against it\"}");
    know_busy("b");
    know_busy("c");
    serve(1000, 200, "{}");
    assert_int_equal(fake.sent, 3);
    /* Neither a list nor a call that comes and goes makes it due. */
    know_busy("a");
    k8s_annotator_want(world.marks, "a", false);
    fake_advance(REFUSED_MS - 1000 - GAP_MS);
    k8s_annotator_want(world.marks, "a", true);
    assert_int_equal(fake.count, 0);
    fake_advance(GAP_MS);
    expect(0, "a", true);
    fake_answer(200, "{}");
    assert_int_equal(logged("a policy is against it"), 1);
    assert_int_equal(logged("the role lacks"), 0);
}

static void forbidden__the_same_pod_again_and_again_concerns_that_pod(void **state UNUSED)
{
    know_busy("a");
    for (int i = 0; i < 5; i++)
        serve(REFUSED_MS, 403, FORBIDDEN);
    assert_in_range(fake.sent, 4, 6);
    know_busy("b");
    fake_turn();
    expect(0, "b", true);
    fake_answer(200, "{}");
    assert_int_equal(logged("the role lacks"), 0);
    assert_int_equal(logged("could not be annotated"), 1);
}

static void forbidden__another_pod_of_the_same_name_is_tried_at_once(void **state UNUSED)
{
    know_busy("a");
    fake_turn();
    fake_answer(403, FORBIDDEN);
    k8s_annotator_known(world.marks, "a", "another", bare);
    fake_advance(GAP_MS);
    expect(0, "a", true);
    fake_answer(200, "{}");
}

static void forbidden__three_pods_in_a_row_make_all_wait(void **state UNUSED)
{
    char name[16];
    size_t sent;

    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "pod-%u", i);
        know_busy(name);
    }
    serve(1000, 403, FORBIDDEN);
    assert_int_equal(fake.sent, 3);
    assert_int_equal(logged("the role lacks a verb on pods"), 1);
    assert_int_equal(logged("\"verb\":\"patch\",\"resource\":\"pods\",\"namespace\":\"voice\""), 1);
    assert_int_equal(logged("it is tried again"), 1);
    /* Then one is tried every five minutes, and nothing more is said. */
    for (size_t i = 1; i <= 3; i++) {
        serve(REFUSED_MS, 403, FORBIDDEN);
        assert_in_range(fake.sent, 3 + i, 4 + i);
    }
    assert_int_equal(logged("the role lacks a verb on pods"), 1);
    assert_int_equal(logged("can be annotated again"), 0);
    /* The right is given: all of them follow. */
    sent = fake.sent;
    serve(2 * REFUSED_MS, 200, "{}");
    assert_int_equal(fake.sent - sent, 20);
    assert_int_equal(logged("can be annotated again"), 1);
}

static void forbidden__while_several_are_under_way_is_said_once(void **state UNUSED)
{
    char name[16];

    for (unsigned i = 0; i < UNDER_WAY; i++) {
        snprintf(name, sizeof(name), "pod-%u", i);
        know_busy(name);
    }
    fake_advance(1000);
    assert_int_equal(fake.count, UNDER_WAY);
    while (fake.count > 0)
        fake_answer(403, FORBIDDEN);
    assert_int_equal(logged("the role lacks a verb on pods"), 1);
    fake_advance(REFUSED_MS + 1000);
    assert_int_equal(fake.count, 1); /* one at a time, until one is taken */
    fake_answer(200, "{}");
    serve(1000, 200, "{}");
    assert_int_equal(fake.sent, 2 * UNDER_WAY);
}

static void forbidden__a_success_between_them_makes_it_about_pods(void **state UNUSED)
{
    static const int statuses[] = {403, 403, 200, 403, 403, 200, 403, 403, 200};
    char name[16];

    for (unsigned i = 0; i < ARRAY_LEN(statuses); i++) {
        snprintf(name, sizeof(name), "pod-%u", i);
        know_busy(name);
        fake_advance(GAP_MS);
        expect(0, name, true);
        fake_answer(statuses[i], FORBIDDEN);
    }
    assert_int_equal(logged("the role lacks"), 0);
}

static void forbidden__what_goes_meanwhile_is_forgotten(void **state UNUSED)
{
    know_busy("a");
    know_busy("b");
    serve(1000, 403, FORBIDDEN);
    k8s_annotator_list_begin(world.marks);
    k8s_annotator_known(world.marks, "b", "", bare); /* it exists, but cannot be read */
    k8s_annotator_list_end(world.marks);
    k8s_annotator_want(world.marks, "a", false);
    fake_advance(REFUSED_MS);
    assert_int_equal(fake.count, 1);
    expect(0, "b", true);
    k8s_annotator_forget(world.marks, "b");
    assert_int_equal(fake.cancelled, 1);
}

static void trouble__is_waited_out_and_said_once(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", bare);
    k8s_annotator_want(world.marks, "a", true);
    fake_turn();
    fake_fail(-ECONNREFUSED);
    fake_advance(799);
    assert_int_equal(fake.count, 0);
    fake_advance(1);
    expect(0, "a", true);
    fake_fail(-ECONNREFUSED);
    fake_advance(1599);
    assert_int_equal(fake.count, 0);
    fake_advance(1);
    fake_answer_later(429, "", 20000);
    fake_advance(19999);
    assert_int_equal(fake.count, 0);
    fake_advance(1);
    fake_answer(200, "{}");
    fake_advance(60000);
    assert_int_equal(fake.count, 0);
    assert_int_equal(logged("could not be annotated"), 2); /* refused connections, then 429 */
}

static void trouble__those_that_fail_together_are_one_failure(void **state UNUSED)
{
    char name[16];

    for (unsigned i = 0; i < UNDER_WAY; i++) {
        snprintf(name, sizeof(name), "pod-%u", i);
        k8s_annotator_known(world.marks, name, "u", bare);
        k8s_annotator_want(world.marks, name, true);
    }
    fake_advance(1000);
    assert_int_equal(fake.count, UNDER_WAY);
    while (fake.count > 0)
        fake_fail(-ECONNRESET);
    fake_advance(800);
    assert_int_equal(fake.count, 1);
    fake_advance(1000);
    while (fake.count > 0)
        fake_answer(200, "{}");
    assert_int_equal(fake.sent, 2 * UNDER_WAY);
}

static void trouble__with_one_pod_does_not_hold_up_the_others(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", bare);
    k8s_annotator_known(world.marks, "b", "u", bare);
    k8s_annotator_want(world.marks, "a", true);
    k8s_annotator_want(world.marks, "b", true);
    fake_turn();
    fake_answer(422, "{\"message\":\"a webhook does not like it\"}");
    fake_advance(GAP_MS);
    expect(0, "b", true);
    fake_answer(200, "{}");
    fake_advance(60000);
    assert_int_equal(fake.sent, 2);
    assert_int_equal(logged("a webhook does not like it"), 1);
    k8s_annotator_known(world.marks, "a", "u", bare);
    fake_advance(REFUSED_MS - 60000 - 2 * GAP_MS);
    assert_int_equal(fake.count, 0);
    fake_advance(2 * GAP_MS);
    expect(0, "a", true);
    fake_answer(400, "{}");
    fake_advance(REFUSED_MS);
    expect(0, "a", true);
    fake_answer(200, "{}");
}

static void trouble__pods_that_are_refused_come_back_in_the_order_of_their_time(void **state UNUSED)
{
    know_busy("a");
    fake_turn();
    fake_answer(422, "{}");
    fake_advance(10000);
    know_busy("b");
    fake_turn();
    fake_answer(422, "{}");
    /* It has nothing to do for a while, and is behind the other one then, but due before it. */
    k8s_annotator_want(world.marks, "a", false);
    k8s_annotator_want(world.marks, "a", true);
    fake_advance(REFUSED_MS - 10000);
    expect(0, "a", true);
    fake_answer(200, "{}");
    fake_advance(10000);
    expect(0, "b", true);
    fake_answer(200, "{}");
}

/* More pods get calls than can be marked: those that lost theirs have their turn all the same. */
static void rate__pods_to_mark_do_not_starve_those_to_relieve(void **state UNUSED)
{
    size_t relieved = 0;
    char name[16];

    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "idle-%u", i);
        k8s_annotator_known(world.marks, name, "u", marked());
        k8s_annotator_want(world.marks, name, false);
    }
    fake_sleep(SETTLE_MS);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "busy-%u", 2 * i);
        know_busy(name);
        snprintf(name, sizeof(name), "busy-%u", 2 * i + 1);
        know_busy(name);
        fake_advance(GAP_MS);
        while (fake.count > 0) {
            relieved += strstr(fake.requests[0]->path, "/idle-") != NULL;
            fake_answer(200, "{}");
        }
    }
    assert_int_equal(relieved, 20);
}

static void full_client__is_asked_again_later(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", bare);
    k8s_annotator_want(world.marks, "a", true);
    fake.refuse = -EBUSY;
    fake_advance(1000);
    fake.refuse = 0;
    fake_advance(GAP_MS);
    expect(0, "a", true);
    fake_answer(200, "{}");
}

static void names__that_are_no_pods_are_not_sent(void **state UNUSED)
{
    static const char *const names[] = {"", "a/b", "a?x=1", "..%2f", "a#b"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        k8s_annotator_known(world.marks, names[i], "u", bare);
        k8s_annotator_want(world.marks, names[i], true);
    }
    fake_advance(1000);
    assert_int_equal(fake.sent, 0);
}

static void stop__cuts_off_what_is_under_way(void **state UNUSED)
{
    k8s_annotator_known(world.marks, "a", "u", bare);
    k8s_annotator_known(world.marks, "b", "u", bare);
    k8s_annotator_want(world.marks, "a", true);
    k8s_annotator_want(world.marks, "b", true);
    fake_turn();
    assert_int_equal(fake.count, 1);
    k8s_annotator_stop(world.marks, on_stopped, &world);
    assert_int_equal(fake.cancelled, 1);
    assert_int_equal(world.stopped, 0); /* later, never inside */
    fake_turn();
    assert_int_equal(world.stopped, 1);
}

static void memory__has_a_limit(void **state UNUSED)
{
    char name[16];

    for (unsigned i = 0; i < K8S_ANNOTATOR_PODS_MAX + 10; i++) {
        snprintf(name, sizeof(name), "pod-%u", i);
        k8s_annotator_want(world.marks, name, true);
    }
    assert_int_equal(logged("there are too many"), 1);
    for (unsigned i = 0; i < K8S_ANNOTATOR_PODS_MAX + 10; i++) {
        snprintf(name, sizeof(name), "pod-%u", i);
        k8s_annotator_want(world.marks, name, false);
    }
    k8s_annotator_want(world.marks, "new", true); /* room again: who is idle and bare needs none */
    k8s_annotator_known(world.marks, "new", "u", bare);
    fake_turn();
    expect(0, "new", true);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mark__a_pod_is_as_it_was_when_its_call_has_ended),
        cmocka_unit_test(mark__has_these_values),
        cmocka_unit_test(mark__what_others_set_is_not_overwritten),
        cmocka_unit_test(mark__what_somebody_changes_meanwhile_is_his),
        cmocka_unit_test(mark__odd_annotations_are_read_without_harm),
        CASE(want__a_pod_with_a_call_is_marked_at_once),
        CASE(want__is_remembered_until_the_pod_is_known),
        CASE(relief__comes_when_there_was_no_call_for_a_while),
        CASE(flapping__costs_no_patch),
        CASE(flapping__while_a_patch_is_under_way_ends_right),
        CASE(known__what_another_leader_left_is_relieved),
        CASE(known__a_mark_stays_until_it_is_told_that_there_is_no_call),
        CASE(known__what_is_right_already_is_left_alone),
        CASE(known__a_mark_that_somebody_removed_is_set_again),
        CASE(known__another_pod_of_the_same_name),
        CASE(gone__nothing_is_sent_any_more),
        CASE(gone__the_server_says_so),
        CASE(list__who_is_not_in_it_is_gone),
        CASE(rate__no_more_than_allowed),
        CASE(rate__pods_with_calls_come_first),
        CASE(rate__a_pod_that_is_told_often_keeps_its_turn),
        CASE(rate__pods_to_mark_do_not_starve_those_to_relieve),
        CASE(forbidden__one_pod_is_left_alone_for_five_minutes),
        CASE(forbidden__the_same_pod_again_and_again_concerns_that_pod),
        CASE(forbidden__another_pod_of_the_same_name_is_tried_at_once),
        CASE(forbidden__three_pods_in_a_row_make_all_wait),
        CASE(forbidden__while_several_are_under_way_is_said_once),
        CASE(forbidden__a_success_between_them_makes_it_about_pods),
        CASE(forbidden__what_goes_meanwhile_is_forgotten),
        CASE(trouble__is_waited_out_and_said_once),
        CASE(trouble__those_that_fail_together_are_one_failure),
        CASE(trouble__with_one_pod_does_not_hold_up_the_others),
        CASE(trouble__pods_that_are_refused_come_back_in_the_order_of_their_time),
        CASE(full_client__is_asked_again_later),
        CASE(names__that_are_no_pods_are_not_sent),
        CASE(stop__cuts_off_what_is_under_way),
        CASE(memory__has_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
