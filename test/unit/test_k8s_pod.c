/* test_k8s_pod.c - what is read of pods, lists and events, and what is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json.h"
#include "k8s/backoff.h"
#include "k8s/pod.h"
#include "k8s/pod_event.h"
#include "k8s/pod_list.h"
#include "k8s/pods_path.h"
#include "k8s/status_object.h"

enum { ARENA_MAX = 16 * 1024 * 1024 };

#define METADATA "\"metadata\":{\"name\":\"voice-0\",\"uid\":\"u-1\"}"
#define READY "{\"type\":\"Ready\",\"status\":\"True\"}"

static int setup(void **state)
{
    struct arena *arena = malloc(sizeof(*arena));

    assert_non_null(arena);
    arena_init(arena, ARENA_MAX);
    *state = arena;
    return 0;
}

static int teardown(void **state)
{
    arena_release(*state);
    free(*state);
    return 0;
}

static int parse(struct arena *arena, const char *text, struct k8s_pod *ret_pod)
{
    const cJSON *object = k8s_object_parse(arena, slice_of(text));

    assert_non_null(object);
    return k8s_pod_parse(object, NULL, arena, ret_pod);
}

static struct k8s_pod parse_good(struct arena *arena, const char *text)
{
    struct k8s_pod pod = {0};

    assert_int_equal(parse(arena, text, &pod), 0);
    return pod;
}

static void pod__that_runs_and_is_ready_is_ready(void **state)
{
    struct k8s_pod pod = parse_good(
        *state, "{" METADATA ",\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.2.3\",\"conditions\":["
                "{\"type\":\"Initialized\",\"status\":\"False\"}," READY "],\"containerStatuses\":["
                "{\"name\":\"a\",\"restartCount\":7,\"state\":{\"running\":{\"startedAt\":\"2026-02-08T10:00:"
                "07Z\"}}}]}}");
    char text[K8S_POD_INCARNATION_MAX + 1];

    assert_string_equal(pod.name, "voice-0");
    assert_string_equal(pod.uid, "u-1");
    assert_string_equal(pod.ip, "10.1.2.3");
    assert_int_equal(pod.restarts, 7);
    assert_int_equal(pod.started_at_ms, 1770544807000);
    assert_true(pod.is_ready);
    assert_false(pod.is_terminating);
    assert_false(pod.has_terminated);
    assert_false(pod.is_unreadable);
    assert_false(pod.lacks_container);
    k8s_pod_incarnation(&pod, text);
    assert_string_equal(text, "u-1:7");
}

static void pod__lacking_one_of_the_four_is_not_ready(void **state)
{
    static const char *const texts[] = {
        "{" METADATA ",\"status\":{\"phase\":\"Pending\",\"podIP\":\"10.1.2.3\",\"conditions\":[" READY "]}}",
        "{" METADATA ",\"status\":{\"phase\":\"Running\",\"conditions\":[" READY "]}}",
        "{" METADATA ",\"status\":{\"phase\":\"Running\",\"podIP\":\"\",\"conditions\":[" READY "]}}",
        "{" METADATA ",\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.2.3\",\"conditions\":[]}}",
        "{" METADATA ",\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.2.3\",\"conditions\":["
        "{\"type\":\"Ready\",\"status\":\"False\"}]}}",
        "{" METADATA ",\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.2.3\",\"conditions\":["
        "{\"type\":\"Ready\",\"status\":\"Unknown\"}]}}",
        "{" METADATA ",\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.2.3\",\"conditions\":["
        "{\"type\":\"ContainersReady\",\"status\":\"True\"}]}}",
        "{" METADATA ",\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.2.3\"}}",
        "{" METADATA ",\"status\":{}}",
        "{" METADATA "}",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_false(parse_good(*state, texts[i]).is_ready);
}

static void pod__that_terminates_is_not_ready_though_it_says_so(void **state)
{
    struct k8s_pod pod =
        parse_good(*state, "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"deletionTimestamp\":"
                           "\"2026-02-08T10:00:00Z\"},\"status\":{\"phase\":\"Running\",\"podIP\":"
                           "\"fd00::1\",\"conditions\":[" READY "]}}");

    assert_true(pod.is_terminating);
    assert_false(pod.is_ready);
    assert_string_equal(pod.ip, "fd00::1");
}

static void pod__whose_phase_is_failed_or_succeeded_is_over(void **state)
{
    static const struct {
        const char *phase;
        bool has_terminated;
    } cases[] = {{"Failed", true},   {"Succeeded", true}, {"Running", false},
                 {"Pending", false}, {"Unknown", false},  {"", false}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[256];
        struct k8s_pod pod;

        snprintf(text, sizeof(text),
                 "{" METADATA ",\"status\":{\"phase\":\"%s\",\"podIP\":\"10.1.2.3\",\"conditions\":[" READY
                 "]}}",
                 cases[i].phase);
        pod = parse_good(*state, text);
        assert_int_equal(pod.has_terminated, cases[i].has_terminated);
        assert_int_equal(pod.is_ready, strcmp(cases[i].phase, "Running") == 0);
    }
}

/* Containers */

#define CONTAINER(name, restarts, started)                                                                   \
    "{\"name\":\"" name "\",\"restartCount\":" restarts ",\"state\":{\"running\":{\"startedAt\":\"" started  \
    "\"}}}"
#define SPEC                                                                                                 \
    "\"spec\":{\"initContainers\":[{\"name\":\"mesh\"}],\"containers\":[{\"name\":\"agent\"},{\"name\":"     \
    "\"sidecar\"}]}"

/* The sidecar comes first in the status, and has been restarted more often. */
static const char two_containers
    [] = "{" METADATA
         "," SPEC ",\"status\":{\"initContainerStatuses\":[" CONTAINER("mesh", "9", "2026-01-01T00:00:09Z") "],\"containerStatuses\":[" CONTAINER(
             "sidecar", "5", "2026-01-01T00:00:05Z") "," CONTAINER("agent", "2",
                                                                   "2026-01-01T00:00:02Z") "]}}";

static void container__of_the_agent_is_the_first_of_the_spec_unless_it_is_named(void **state)
{
    static const struct {
        const char *name;
        uint64_t restarts;
        bool is_lacking;
    } cases[] = {{NULL, 2, false},
                 {"", 2, false},
                 {"agent", 2, false},
                 {"sidecar", 5, false},
                 /* Of no pod's containers: init containers are not among them. */
                 {"agnet", 2, true},
                 {"mesh", 2, true}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const cJSON *object = k8s_object_parse(*state, SLICE(two_containers));
        struct k8s_pod pod;

        assert_int_equal(k8s_pod_parse(object, cases[i].name, *state, &pod), 0);
        assert_int_equal(pod.restarts, cases[i].restarts);
        assert_int_equal(pod.started_at_ms, 1767225600000 + cases[i].restarts * 1000);
        assert_int_equal(pod.lacks_container, cases[i].is_lacking);
    }
}

static void container__without_a_spec_is_the_first_of_the_status(void **state)
{
    struct k8s_pod pod = parse_good(
        *state, "{" METADATA ",\"status\":{\"containerStatuses\":[" CONTAINER(
                    "a", "3", "2026-01-01T00:00:03Z") "," CONTAINER("b", "4", "2026-01-01T00:00:04Z") "]}}");

    assert_int_equal(pod.restarts, 3);
    assert_int_equal(pod.started_at_ms, 1767225603000);
}

static void container__that_does_not_run_has_no_start(void **state)
{
    static const char *const states[] = {
        "",
        ",\"state\":null",
        ",\"state\":{}",
        ",\"state\":{\"waiting\":{\"reason\":\"CrashLoopBackOff\"}}",
        ",\"state\":{\"terminated\":{\"startedAt\":\"2026-01-01T00:00:00Z\"}}",
        ",\"state\":{\"running\":{}}",
        ",\"state\":{\"running\":{\"startedAt\":null}}"};

    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        char text[512];
        struct k8s_pod pod;

        snprintf(text, sizeof(text),
                 "{" METADATA "," SPEC
                 ",\"status\":{\"containerStatuses\":[{\"name\":\"sidecar\",\"restartCount\":1},"
                 "{\"name\":\"agent\",\"restartCount\":4%s}]}}",
                 states[i]);
        pod = parse_good(*state, text);
        assert_int_equal(pod.restarts, 4);
        assert_int_equal(pod.started_at_ms, 0);
    }
    /* Its state is not there yet, though that of another one is. */
    assert_int_equal(
        parse_good(*state, "{" METADATA "," SPEC ",\"status\":{\"containerStatuses\":[" CONTAINER(
                               "sidecar", "5", "2026-01-01T00:00:05Z") "]}}")
            .restarts,
        0);
}

static void container__start_is_a_time_of_the_api_server_or_refused(void **state)
{
    static const struct {
        const char *time;
        uint64_t ms;
    } good[] = {{"1970-01-01T00:00:00Z", 0},
                {"2024-02-29T23:59:59Z", 1709251199000},
                {"9999-12-31T23:59:59Z", 253402300799000}};
    static const char *const bad[] = {
        "2026-02-08",           "2026-02-08T10:00:07",    "2026-02-08T10:00:07z",
        "2026-02-08 10:00:07Z", "2026-02-08T10:00:07.5Z", "2026-02-08T10:00:07+01:00",
        "2026-02-30T10:00:07Z", "2025-02-29T10:00:07Z",   "2026-13-08T10:00:07Z",
        "2026-00-08T10:00:07Z", "2026-02-00T10:00:07Z",   "2026-02-08T24:00:07Z",
        "2026-02-08T10:60:07Z", "2026-02-08T10:00:60Z",   "1969-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z", "2026-02-08T10:00:-7Z",   " 026-02-08T10:00:07Z",
        "2026-02-08T10:00:07Zx"};
    char text[256];
    struct k8s_pod pod;

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        snprintf(text, sizeof(text),
                 "{" METADATA ",\"status\":{\"containerStatuses\":[" CONTAINER("a", "1", "%s") "]}}",
                 good[i].time);
        assert_int_equal(parse_good(*state, text).started_at_ms, good[i].ms);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(text, sizeof(text),
                 "{" METADATA ",\"status\":{\"containerStatuses\":[" CONTAINER("a", "1", "%s") "]}}", bad[i]);
        if (parse(*state, text, &pod) != -EINVAL)
            fail_msg("%s was not refused", bad[i]);
    }
}

static void pod__with_null_where_nothing_is_is_read(void **state)
{
    struct k8s_pod pod =
        parse_good(*state, "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"annotations\":null,"
                           "\"deletionTimestamp\":null},\"status\":{\"phase\":null,\"podIP\":null,"
                           "\"conditions\":null,\"containerStatuses\":null}}");

    assert_false(pod.is_ready);
    assert_false(pod.is_terminating);
    assert_int_equal(pod.restarts, 0);
    assert_string_equal(pod.ip, "");
    assert_false(parse_good(*state, "{" METADATA ",\"status\":null}").is_ready);
}

static void pod__carries_the_mark_that_its_annotations_say(void **state)
{
#define COST "\"" K8S_ANNOTATIONS_COST "\":\"" K8S_ANNOTATIONS_COST_VALUE "\""
#define OWNED "\"" K8S_ANNOTATIONS_OWNED "\":\"pod-deletion-cost\""
    struct k8s_annotations none = parse_good(*state, "{" METADATA "}").mark;
    struct k8s_annotations others =
        parse_good(*state, "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"annotations\":{" COST "}}}").mark;
    struct k8s_annotations ours =
        parse_good(*state,
                   "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"annotations\":{" COST "," OWNED "}}}")
            .mark;

    assert_true(!none.ours && !none.others && !none.is_signed);
    assert_true(!others.ours && others.others && !others.is_signed);
    assert_true(ours.ours && !ours.others && ours.is_signed);
}

static void pod__that_cannot_be_believed_is_refused(void **state)
{
#define NAMED(name, uid) "{\"metadata\":{\"name\":" name ",\"uid\":" uid "}}"
#define STATUS(text) "{" METADATA ",\"status\":{" text "}}"
    static const char *const texts[] = {
        "[]",
        "\"pod\"",
        "7",
        "{}",
        "{\"metadata\":null}",
        "{\"metadata\":[]}",
        "{\"metadata\":\"x\"}",
        "{" METADATA ",\"status\":[]}",
        "{" METADATA ",\"status\":\"x\"}",
        NAMED("7", "\"u\""),
        NAMED("null", "\"u\""),
        NAMED("\"\"", "\"u\""),
        NAMED("\"A\"", "\"u\""),
        NAMED("\"a/b\"", "\"u\""),
        NAMED("\"a b\"", "\"u\""),
        NAMED("\"a\\n\"", "\"u\""),
        NAMED("\"a\\u0000\"", "\"u\""),
        NAMED("\"\303\244\"", "\"u\""),
        NAMED("\"a\"", "7"),
        NAMED("\"a\"", "\"\""),
        NAMED("\"a\"", "\"u 1\""),
        NAMED("\"a\"", "\"u:1\""),
        NAMED("\"a\"", "\"u\\\"1\""),
        "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"deletionTimestamp\":7}}",
        "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"annotations\":[]}}",
        STATUS("\"podIP\":7"),
        STATUS("\"podIP\":\"10.1.2\""),
        STATUS("\"podIP\":\"10.1.2.3:80\""),
        STATUS("\"podIP\":\"host.example\""),
        STATUS("\"phase\":7"),
        STATUS("\"conditions\":{}"),
        STATUS("\"conditions\":[7]"),
        STATUS("\"conditions\":[null]"),
        STATUS("\"conditions\":[{\"type\":7}]"),
        STATUS("\"conditions\":[{\"type\":\"Ready\",\"status\":true}]"),
        STATUS("\"containerStatuses\":{}"),
        STATUS("\"containerStatuses\":[7]"),
        STATUS("\"containerStatuses\":[{\"restartCount\":\"7\"}]"),
        STATUS("\"containerStatuses\":[{\"restartCount\":-1}]"),
        STATUS("\"containerStatuses\":[{\"restartCount\":1.5}]"),
        STATUS("\"containerStatuses\":[{\"restartCount\":2147483648}]"),
        STATUS("\"containerStatuses\":[{\"restartCount\":1e999}]"),
        STATUS("\"containerStatuses\":[{\"name\":7}]"),
        STATUS("\"containerStatuses\":[{},{\"name\":7}]"),
        STATUS("\"containerStatuses\":[{\"state\":[]}]"),
        STATUS("\"containerStatuses\":[{\"state\":{\"running\":7}}]"),
        STATUS("\"containerStatuses\":[{\"state\":{\"running\":{\"startedAt\":7}}}]"),
        "{" METADATA ",\"spec\":[]}",
        "{" METADATA ",\"spec\":{\"containers\":{}}}",
        "{" METADATA ",\"spec\":{\"containers\":[7]}}",
        "{" METADATA ",\"spec\":{\"containers\":[{\"name\":7}]}}",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct k8s_pod pod = {.name = "untouched"};

        if (parse(*state, texts[i], &pod) != -EINVAL)
            fail_msg("%s was not refused", texts[i]);
        assert_string_equal(pod.name, "untouched");
    }
}

static void pod__names_and_uids_have_a_limit(void **state)
{
    char text[1024], name[256], uid[80];
    struct k8s_pod pod;

    memset(name, 'a', sizeof(name));
    memset(uid, 'f', sizeof(uid));
    for (int extra = 0; extra <= 1; extra++) {
        snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"%.*s\",\"uid\":\"u\"}}",
                 K8S_POD_NAME_MAX + extra, name);
        assert_int_equal(parse(*state, text, &pod), extra ? -EINVAL : 0);
        snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"a\",\"uid\":\"%.*s\"}}",
                 K8S_POD_UID_MAX + extra, uid);
        assert_int_equal(parse(*state, text, &pod), extra ? -EINVAL : 0);
    }
}

static void pod__without_memory_says_so(void **state)
{
    const cJSON *object = k8s_object_parse(*state, slice_of("{" METADATA "}"));
    struct arena small;
    struct k8s_pod pod;

    arena_init(&small, 8);
    assert_int_equal(k8s_pod_parse(object, NULL, &small, &pod), -ENOMEM);
    arena_release(&small);
}

static void incarnation__of_the_largest_pod_fits(void **state UNUSED)
{
    char uid[K8S_POD_UID_MAX + 1], text[K8S_POD_INCARNATION_MAX + 1];
    struct k8s_pod pod = {.uid = uid, .restarts = UINT64_MAX};

    memset(uid, 'f', K8S_POD_UID_MAX);
    uid[K8S_POD_UID_MAX] = '\0';
    k8s_pod_incarnation(&pod, text);
    assert_string_equal(text + K8S_POD_UID_MAX, ":18446744073709551615");
}

static void object__with_an_escaped_nul_is_read_all_the_same(void **state)
{
    const cJSON *object = k8s_object_parse(*state, slice_of("{\"a\":\"x\\u0000y\",\"b\":\"\\\\u0000\"}"));

    assert_string_equal(json_get_string(object, "a"), "x\357\277\275y");
    assert_string_equal(json_get_string(object, "b"), "\\u0000");
}

/* Lists */

#define POD(name, uid) "{\"metadata\":{\"name\":\"" name "\",\"uid\":\"" uid "\"}}"

static void list__gathers_its_pages_in_the_order_of_names(void **state UNUSED)
{
    struct k8s_pod_list list;

    k8s_pod_list_init(&list, NULL);
    assert_int_equal(
        k8s_pod_list_add_page(
            &list, SLICE("{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"5\",\"continue\":"
                         "\"t\",\"remainingItemCount\":2},\"items\":[" POD("c", "1") "," POD("a", "2") "]}")),
        0);
    assert_string_equal(list.continue_token, "t");
    /* The order of the members and white space do not matter; a name that comes again is the later pod. */
    assert_int_equal(
        k8s_pod_list_add_page(&list, SLICE(" { \"items\" : [ " POD("b", "3") " , " POD(
                                         "c", "4") " ] ,\n"
                                                   "\"metadata\" : {\"resourceVersion\":\"6\"} } \n")),
        0);
    assert_string_equal(list.continue_token, "");
    assert_string_equal(list.version, "6");
    assert_int_equal(k8s_pod_list_finish(&list), 0);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.skipped, 0);
    assert_string_equal(list.pods[0].name, "a");
    assert_string_equal(list.pods[1].name, "b");
    assert_string_equal(list.pods[2].name, "c");
    assert_string_equal(list.pods[2].uid, "4");
    k8s_pod_list_release(&list);
}

static void list__without_pods_is_empty(void **state UNUSED)
{
    static const char *const texts[] = {
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":null}",
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[ ]}",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct k8s_pod_list list;

        k8s_pod_list_init(&list, NULL);
        assert_int_equal(k8s_pod_list_add_page(&list, slice_of(texts[i])), 0);
        assert_int_equal(k8s_pod_list_finish(&list), 0);
        assert_int_equal(list.count, 0);
        k8s_pod_list_release(&list);
    }
}

/* It exists, and whoever took it for absent would end its calls. */
static void list__has_a_pod_that_cannot_be_read_by_its_name(void **state UNUSED)
{
    struct k8s_pod_list list;

    k8s_pod_list_init(&list, NULL);
    assert_int_equal(
        k8s_pod_list_add_page(
            &list, SLICE("{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":["
                         "{\"metadata\":{\"name\":\"bad\",\"uid\":\"\"}},"
                         "{\"metadata\":{\"name\":\"worse\",\"uid\":7},\"status\":[]}," POD("a", "1") "]}")),
        0);
    assert_int_equal(k8s_pod_list_finish(&list), 0);
    assert_int_equal(list.count, 3);
    assert_false(list.pods[0].is_unreadable);
    for (size_t i = 1; i < 3; i++) {
        assert_true(list.pods[i].is_unreadable);
        assert_string_equal(list.pods[i].name, i == 1 ? "bad" : "worse");
        assert_string_equal(list.pods[i].uid, "");
        assert_string_equal(list.pods[i].ip, "");
        assert_false(list.pods[i].is_ready || list.pods[i].has_terminated || list.pods[i].is_terminating);
    }
    assert_int_equal(list.skipped, 2);
    assert_string_equal(list.skipped_name, "bad");
    k8s_pod_list_release(&list);
}

static void list__with_an_item_that_nobody_can_name_is_refused(void **state UNUSED)
{
    static const char *const items[] = {"{\"metadata\":{\"name\":\"Bad\",\"uid\":\"u\"}}",
                                        "{\"metadata\":{\"uid\":\"u\"}}",
                                        "7",
                                        "null",
                                        "{\"a\":01}",
                                        "\"\\\"]\""};
    struct k8s_pod_list list;
    char text[512];

    k8s_pod_list_init(&list, NULL);
    for (size_t i = 0; i < ARRAY_LEN(items); i++) {
        snprintf(text, sizeof(text),
                 "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" POD("a", "1") ",%s]}", items[i]);
        if (k8s_pod_list_add_page(&list, slice_of(text)) != -EBADMSG)
            fail_msg("%s was not refused", items[i]);
        k8s_pod_list_release(&list);
    }
}

static void list__counts_pods_without_the_agents_container(void **state UNUSED)
{
    struct k8s_pod_list list;
    char text[1024];

    k8s_pod_list_init(&list, "agnet");
    snprintf(text, sizeof(text),
             "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[%s," POD("a", "1") "]}", two_containers);
    assert_int_equal(k8s_pod_list_add_page(&list, slice_of(text)), 0);
    assert_int_equal(list.lacking, 1);
    assert_string_equal(list.lacking_name, "voice-0");
    k8s_pod_list_release(&list);
}

static void list__that_is_none_or_not_whole_is_refused(void **state UNUSED)
{
    static const char whole[] = "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" POD("a", "1") "," POD(
        "b", "2") "],\"x\":[{}]}";
    static const char *const texts[] = {
        "[]",
        "{}",
        "null",
        "{\"metadata\":{\"resourceVersion\":\"5\"}}",
        "{\"items\":[]}",
        "{\"metadata\":{},\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":\"\"},\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":5},\"items\":[]}",
        "{\"metadata\":[],\"items\":[]}",
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":{}}",
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":7}",
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" POD("a", "1") " " POD("b", "2") "]}",
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]}{}",
        "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]} x",
    };
    struct k8s_pod_list list;

    k8s_pod_list_init(&list, NULL);
    for (size_t len = 0; len < sizeof(whole) - 1; len++)
        assert_int_equal(k8s_pod_list_add_page(&list, (struct slice){whole, len}), -EBADMSG);
    k8s_pod_list_release(&list);
    assert_int_equal(k8s_pod_list_add_page(&list, SLICE(whole)), 0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        k8s_pod_list_release(&list);
        if (k8s_pod_list_add_page(&list, slice_of(texts[i])) != -EBADMSG)
            fail_msg("%s was not refused", texts[i]);
    }
    k8s_pod_list_release(&list);
}

static void list__has_a_limit(void **state UNUSED)
{
    struct k8s_pod_list list;
    struct strbuf text;

    k8s_pod_list_init(&list, NULL);
    strbuf_init(&text, NULL, 64 * 1024 * 1024);
    strbuf_append_str(&text, "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" POD("a", "1"));
    for (int i = 0; i < K8S_POD_LIST_MAX; i++)
        strbuf_append_str(&text, "," POD("a", "1"));
    strbuf_append_str(&text, "]}");
    assert_false(strbuf_failed(&text));
    assert_int_equal(k8s_pod_list_add_page(&list, strbuf_slice(&text)), -E2BIG);
    strbuf_release(&text);
    k8s_pod_list_release(&list);
}

static void list__tokens_have_a_limit(void **state UNUSED)
{
    struct k8s_pod_list list;
    struct strbuf text;

    k8s_pod_list_init(&list, NULL);
    strbuf_init(&text, NULL, 64 * 1024);
    strbuf_append_str(&text, "{\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"");
    for (int i = 0; i <= K8S_CONTINUE_MAX; i++)
        strbuf_append_char(&text, 'x');
    strbuf_append_str(&text, "\"},\"items\":[]}");
    assert_int_equal(k8s_pod_list_add_page(&list, strbuf_slice(&text)), -EBADMSG);
    strbuf_release(&text);
    k8s_pod_list_release(&list);
}

/* Events */

static struct k8s_pod_event event_of(struct arena *arena, const char *text)
{
    struct k8s_pod_event event;

    assert_int_equal(k8s_pod_event_parse(slice_of(text), NULL, arena, &event), 0);
    return event;
}

#define VERSIONED "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":\"9\"}}"

static void event__says_what_happened_to_which_pod(void **state)
{
    struct k8s_pod_event event = event_of(*state, "{\"type\":\"ADDED\",\"object\":" VERSIONED "}");

    assert_int_equal(event.type, K8S_POD_EVENT_SEEN);
    assert_string_equal(event.pod.name, "a");
    assert_string_equal(event.version, "9");
    event = event_of(*state, "{\"type\":\"MODIFIED\",\"object\":" VERSIONED "}");
    assert_int_equal(event.type, K8S_POD_EVENT_SEEN);
    event = event_of(*state, "{\"type\":\"DELETED\",\"object\":" VERSIONED "}");
    assert_int_equal(event.type, K8S_POD_EVENT_GONE);
    assert_string_equal(event.pod.uid, "u");
}

static void event__bookmark_has_a_version_only(void **state)
{
    struct k8s_pod_event event = event_of(
        *state,
        "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"12\","
        "\"creationTimestamp\":null},\"spec\":{\"containers\":null},\"status\":{}}}");

    assert_int_equal(event.type, K8S_POD_EVENT_BOOKMARK);
    assert_string_equal(event.version, "12");
}

static void event__error_carries_a_status(void **state)
{
    struct k8s_pod_event event = event_of(
        *state,
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"metadata\":{\"resourceVersion\":"
        "\"3\"},\"status\":\"Failure\",\"message\":\"too old\",\"reason\":\"Expired\",\"code\":410}}");

    assert_int_equal(event.type, K8S_POD_EVENT_ERROR);
    assert_int_equal(event.status.code, 410);
    assert_string_equal(event.status.reason, "Expired");
    assert_string_equal(event.status.message, "too old");
    assert_null(event.version);
}

static void event__about_what_is_no_pod_is_skipped_but_its_version_counts(void **state)
{
    struct k8s_pod_event event = event_of(
        *state,
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"Bad\",\"resourceVersion\":\"9\"}}}");

    assert_int_equal(event.type, K8S_POD_EVENT_SKIPPED);
    assert_string_equal(event.version, "9");
    assert_string_equal(event.skipped_name, "Bad");
    event = event_of(*state, "{\"type\":\"PAINTED\",\"object\":" VERSIONED "}");
    assert_int_equal(event.type, K8S_POD_EVENT_SKIPPED);
}

static void event__that_is_none_is_refused(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"type\":\"ADDED\"}",
        "{\"object\":" VERSIONED "}",
        "{\"type\":7,\"object\":" VERSIONED "}",
        "{\"type\":\"ADDED\",\"object\":null}",
        "{\"type\":\"ADDED\",\"object\":[]}",
        "{\"type\":\"ADDED\",\"object\":" VERSIONED,
        "{\"type\":\"ADDED\" \"object\":" VERSIONED "}",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct k8s_pod_event event;

        assert_int_equal(k8s_pod_event_parse(slice_of(texts[i]), NULL, *state, &event), -EBADMSG);
    }
}

static void refusal__is_read_as_far_as_it_goes(void **state UNUSED)
{
    struct k8s_status status;

    k8s_status_parse(
        SLICE("{\"kind\":\"Status\",\"message\":\"Too large resource version: 9, current: 5\",\"reason\":"
              "\"Timeout\",\"details\":{\"causes\":[{\"reason\":\"Other\"},{\"reason\":"
              "\"ResourceVersionTooLarge\",\"message\":\"Too large resource version\"}],"
              "\"retryAfterSeconds\":1},\"code\":504}"),
        &status);
    assert_int_equal(status.code, 504);
    assert_int_equal(status.retry_after_ms, 1000);

    k8s_status_parse(
        SLICE("{\"code\":\"x\",\"message\":7,\"details\":{\"causes\":7,\"retryAfterSeconds\":1e300}}"),
        &status);
    assert_int_equal(status.code, 0);
    assert_string_equal(status.message, "");
    assert_int_equal(status.retry_after_ms, K8S_RETRY_AFTER_MAX_S * 1000);

    k8s_status_parse(SLICE("<html>"), &status);
    assert_int_equal(status.code, 0);
    k8s_status_parse((struct slice){NULL, 0}, &status);
    assert_int_equal(status.code, 0);
}

static void backoff__doubles_to_its_limit_and_begins_anew_after_a_quiet_time(void **state UNUSED)
{
    static const uint64_t steps[] = {800, 1600, 3200, 6400, 12800, 25600, 30000, 30000};
    struct k8s_backoff backoff = {0};
    uint64_t now_ms = 1000000;

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        uint64_t wait_ms = k8s_backoff_next(&backoff, now_ms, 0, i % 2 ? UINT32_MAX : 0);

        assert_int_equal(wait_ms, i % 2 ? 2 * steps[i] : steps[i]);
        now_ms += wait_ms;
    }
    assert_int_equal(k8s_backoff_next(&backoff, now_ms + K8S_BACKOFF_QUIET_MS - 1, 0, 0), 30000);
    now_ms += K8S_BACKOFF_QUIET_MS - 1 + 30000 + K8S_BACKOFF_QUIET_MS;
    assert_int_equal(k8s_backoff_next(&backoff, now_ms, 0, 0), 800);
    assert_int_equal(k8s_backoff_next(&backoff, now_ms + 800, 5000, 0), 5000);
    assert_int_equal(k8s_backoff_next(&backoff, now_ms + 5800, 1, 0), 3200);
}

static void path__of_a_list_asks_for_what_is_true_now(void **state UNUSED)
{
    char path[K8S_PODS_PATH_MAX];

    assert_int_equal(k8s_pods_path_list(path, "ns", "app=a,b in (c)", "", false), 0);
    assert_string_equal(path,
                        "/api/v1/namespaces/ns/pods?labelSelector=app%3Da%2Cb%20in%20%28c%29&limit=500");
    assert_int_equal(k8s_pods_path_list(path, "ns", NULL, "a+/=", false), 0);
    assert_string_equal(path, "/api/v1/namespaces/ns/pods?limit=500&continue=a%2B%2F%3D");
    assert_int_equal(k8s_pods_path_list(path, "ns", "", "", false), 0);
    assert_string_equal(path, "/api/v1/namespaces/ns/pods?limit=500");
    assert_int_equal(k8s_pods_path_list(path, "n/s", NULL, "", true), 0);
    assert_string_equal(path, "/api/v1/namespaces/n%2Fs/pods");
}

static void path__of_one_pod_is_its_name(void **state UNUSED)
{
    char path[K8S_PODS_PATH_MAX];

    assert_int_equal(k8s_pods_path_get(path, "ns", "agent-0"), 0);
    assert_string_equal(path, "/api/v1/namespaces/ns/pods/agent-0");
    assert_int_equal(k8s_pods_path_get(path, "ns", "a/b?c"), 0);
    assert_string_equal(path, "/api/v1/namespaces/ns/pods/a%2Fb%3Fc");
}

static void retry_after__counts_up_to_its_limit(void **state UNUSED)
{
    static const struct {
        double seconds;
        uint64_t ms;
    } cases[] = {{-1, 0}, {0, 0}, {1, 1000}, {30, 30000}, {31, 30000}, {3600, 30000}, {1e300, 30000}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(k8s_retry_after_ms(cases[i].seconds), cases[i].ms);
}

static void path__of_a_watch_asks_for_bookmarks(void **state UNUSED)
{
    char path[K8S_PODS_PATH_MAX];

    assert_int_equal(k8s_pods_path_watch(path, "ns", "a=b", "77", 301), 0);
    assert_string_equal(path, "/api/v1/namespaces/ns/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=301"
                              "&resourceVersion=77&labelSelector=a%3Db");
}

static void path__that_does_not_fit_is_refused(void **state UNUSED)
{
    static char selector[K8S_PODS_PATH_MAX];
    char path[K8S_PODS_PATH_MAX];

    memset(selector, 'a', sizeof(selector) - 1);
    assert_int_equal(k8s_pods_path_list(path, "ns", selector, "", false), -EMSGSIZE);
    memset(selector, '=', sizeof(selector) / 2);
    selector[sizeof(selector) / 2] = '\0';
    assert_int_equal(k8s_pods_path_watch(path, "ns", selector, "0", 300), -EMSGSIZE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pod__that_runs_and_is_ready_is_ready),
        TEST(pod__lacking_one_of_the_four_is_not_ready),
        TEST(pod__that_terminates_is_not_ready_though_it_says_so),
        TEST(pod__whose_phase_is_failed_or_succeeded_is_over),
        TEST(container__of_the_agent_is_the_first_of_the_spec_unless_it_is_named),
        TEST(container__without_a_spec_is_the_first_of_the_status),
        TEST(container__that_does_not_run_has_no_start),
        TEST(container__start_is_a_time_of_the_api_server_or_refused),
        TEST(pod__with_null_where_nothing_is_is_read),
        TEST(pod__carries_the_mark_that_its_annotations_say),
        TEST(pod__that_cannot_be_believed_is_refused),
        TEST(pod__names_and_uids_have_a_limit),
        TEST(pod__without_memory_says_so),
        cmocka_unit_test(incarnation__of_the_largest_pod_fits),
        TEST(object__with_an_escaped_nul_is_read_all_the_same),
        cmocka_unit_test(list__gathers_its_pages_in_the_order_of_names),
        cmocka_unit_test(list__without_pods_is_empty),
        cmocka_unit_test(list__has_a_pod_that_cannot_be_read_by_its_name),
        cmocka_unit_test(list__with_an_item_that_nobody_can_name_is_refused),
        cmocka_unit_test(list__counts_pods_without_the_agents_container),
        cmocka_unit_test(list__that_is_none_or_not_whole_is_refused),
        cmocka_unit_test(list__has_a_limit),
        cmocka_unit_test(list__tokens_have_a_limit),
        TEST(event__says_what_happened_to_which_pod),
        TEST(event__bookmark_has_a_version_only),
        TEST(event__error_carries_a_status),
        TEST(event__about_what_is_no_pod_is_skipped_but_its_version_counts),
        TEST(event__that_is_none_is_refused),
        cmocka_unit_test(refusal__is_read_as_far_as_it_goes),
        cmocka_unit_test(backoff__doubles_to_its_limit_and_begins_anew_after_a_quiet_time),
        cmocka_unit_test(retry_after__counts_up_to_its_limit),
        cmocka_unit_test(path__of_a_list_asks_for_what_is_true_now),
        cmocka_unit_test(path__of_one_pod_is_its_name),
        cmocka_unit_test(path__of_a_watch_asks_for_bookmarks),
        cmocka_unit_test(path__that_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests_name("k8s_pod", tests, NULL, NULL);
}
