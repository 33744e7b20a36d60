/* test_absent.c - pods that are asked for by their names; the questions are answered by the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "manager/absent.h"

enum { QUESTIONS_MAX = 16 };

/* In place of k8s/pod_get.c. */
struct k8s_pod_get {
    char name[64];
    k8s_pod_got_fn got;
    void *arg;
};

static struct k8s_pod_get *questions[QUESTIONS_MAX];
static size_t question_count;
static int refusal; /* what the next questions are refused with */

int k8s_pod_get(struct k8s_client *client UNUSED, const struct k8s_pod_get_spec *spec, k8s_pod_got_fn got,
                void *arg, struct k8s_pod_get **ret_get)
{
    struct k8s_pod_get *get;

    if (refusal)
        return refusal;
    assert_true(question_count < QUESTIONS_MAX);
    assert_string_equal(spec->namespace_name, "voice");
    assert_true(spec->timeout_ms > 0);
    get = calloc(1, sizeof(*get));
    assert_non_null(get);
    snprintf(get->name, sizeof(get->name), "%s", spec->name);
    get->got = got;
    get->arg = arg;
    questions[question_count++] = get;
    *ret_get = get;
    return 0;
}

static struct k8s_pod_get *question_take(size_t i)
{
    struct k8s_pod_get *get = questions[i];

    assert_true(i < question_count);
    question_count--;
    for (; i < question_count; i++)
        questions[i] = questions[i + 1];
    return get;
}

void k8s_pod_get_cancel(struct k8s_pod_get *get)
{
    for (size_t i = 0; i < question_count; i++) {
        if (questions[i] == get) {
            free(question_take(i));
            return;
        }
    }
    fail_msg("a question was cancelled that is not under way");
}

/* What was found, as "NAME ERR" with commas. */
static char found[512];

static void note_found(void *arg UNUSED, const char *name, int err, const struct k8s_pod *pod,
                       const char *error)
{
    assert_true(err == 0 ? pod && !error : !pod);
    snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s %d", found[0] ? "," : "", name, err);
}

static int set_up(void **state)
{
    struct absent *absent = calloc(1, sizeof(*absent));

    assert_non_null(absent);
    *absent = (struct absent){.namespace_name = "voice", .found = note_found};
    absent_init(absent);
    found[0] = '\0';
    refusal = 0;
    *state = absent;
    return 0;
}

static int tear_down(void **state)
{
    absent_release(*state);
    assert_int_equal(question_count, 0);
    free(*state);
    return 0;
}

static void ask(void **state, const char *name)
{
    assert_int_equal(absent_ask(*state, name), 0);
}

/* Answers the question that was sent first. */
static void answer(int err)
{
    const struct k8s_pod pod = {.name = "whatever"};
    struct k8s_pod_get *get = question_take(0);

    get->got(get->arg, err, err ? NULL : &pod, err ? "why" : NULL);
    free(get);
}

static void each_pod__is_asked_for_once_at_a_time(void **state)
{
    ask(state, "a");
    ask(state, "a");
    assert_int_equal(question_count, 1);
    answer(-ENOENT);
    assert_string_equal(found, "a -2");
    ask(state, "a");
    assert_int_equal(question_count, 1);
    answer(0);
    assert_string_equal(found, "a -2,a 0");
}

static void many_pods__are_asked_for_a_few_at_a_time_in_their_order(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        ask(state, names[i]);
    assert_int_equal(question_count, 4);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        answer(0);
    assert_string_equal(found, "a 0,b 0,c 0,d 0,e 0,f 0");
    assert_int_equal(question_count, 0);
}

static void a_pod_that_is_back__is_asked_for_anew_when_it_is_absent_again(void **state)
{
    struct absent *absent = *state;

    absent_drop(absent, "a"); /* nobody has asked */
    ask(state, "a");
    absent_drop(absent, "a");
    assert_int_equal(question_count, 0);
    ask(state, "a");
    assert_int_equal(question_count, 1);
    answer(-ENOENT);
    assert_string_equal(found, "a -2");
}

static void pods_that_are_back__make_room_for_those_that_wait(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        ask(state, names[i]);
    absent_drop(*state, "f"); /* has not been sent */
    assert_int_equal(question_count, 4);
    absent_drop(*state, "b");
    assert_int_equal(question_count, 4);
    for (size_t i = 0; i < 5; i++)
        answer(0);
    assert_string_equal(found, "a 0,c 0,d 0,e 0,g 0");
    assert_int_equal(question_count, 0);
}

static void a_question_that_cannot_be_sent__is_told_and_the_next_can(void **state)
{
    refusal = -EBUSY;
    ask(state, "a");
    assert_string_equal(found, "a -16");
    refusal = 0;
    ask(state, "a");
    assert_int_equal(question_count, 1);
}

static void release__cuts_off_what_is_under_way_and_forgets_what_waits(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        ask(state, names[i]);
    assert_string_equal(found, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(each_pod__is_asked_for_once_at_a_time),
        TEST(many_pods__are_asked_for_a_few_at_a_time_in_their_order),
        TEST(a_pod_that_is_back__is_asked_for_anew_when_it_is_absent_again),
        TEST(pods_that_are_back__make_room_for_those_that_wait),
        TEST(a_question_that_cannot_be_sent__is_told_and_the_next_can),
        TEST(release__cuts_off_what_is_under_way_and_forgets_what_waits),
    };

    return cmocka_run_group_tests_name("absent", tests, NULL, NULL);
}
