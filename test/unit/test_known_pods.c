/* test_known_pods.c - what a pod source has told, and what the store has still to hear of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "manager/known_pods.h"

struct fixture {
    struct known_pods known_pods;
    struct arena arena;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    known_pods_init(&fixture->known_pods, POD_SOURCE_KUBERNETES);
    arena_init(&fixture->arena, 1024 * 1024);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    known_pods_release(&fixture->known_pods);
    arena_release(&fixture->arena);
    free(fixture);
    return 0;
}

static struct pod_seen seen_of(const char *name, const char *incarnation)
{
    return (struct pod_seen){
        .name = name, .address = "10.0.0.1:8000", .incarnation = incarnation, .is_ready = true};
}

static void see(struct fixture *fixture, const char *name)
{
    struct pod_seen seen = seen_of(name, "uid:0");

    assert_int_equal(known_pods_see(&fixture->known_pods, &seen), 0);
}

static void see_change(struct fixture *fixture, const char *name, const char *incarnation)
{
    struct pod_seen seen = seen_of(name, incarnation);

    assert_int_equal(known_pods_see_change(&fixture->known_pods, &seen), 0);
}

/* The names of a copy, with commas. */
static const char *copied(struct fixture *fixture)
{
    static char text[256];
    struct pod_seen *pods;
    size_t count;

    text[0] = '\0';
    assert_int_equal(known_pods_copy(&fixture->known_pods, &fixture->arena, &pods, &count), 0);
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "," : "", pods[i].name);
    return text;
}

/*
 * The next change, as "seen NAME INCARNATION", with " draining" if it terminates, "absent NAME" or "gone
 * NAME"; "" if there is none.
 */
static const char *taken(struct fixture *fixture)
{
    static char text[256];
    struct command command;

    if (known_pods_take_change(&fixture->known_pods, &fixture->arena, &command) == 0)
        return "";
    if (command.type == COMMAND_POD_GONE) {
        assert_int_equal(command.pod_gone.source, POD_SOURCE_KUBERNETES);
        snprintf(text, sizeof(text), "%s %s", command.pod_gone.is_absent ? "absent" : "gone",
                 command.pod_gone.pod);
    } else {
        assert_int_equal(command.type, COMMAND_POD_SEEN);
        assert_false(command.pod_seen.is_registration);
        snprintf(text, sizeof(text), "seen %s %s%s", command.pod_seen.pod.name,
                 command.pod_seen.pod.incarnation, command.pod_seen.pod.is_terminating ? " draining" : "");
    }
    return text;
}

static void copy__has_all_pods_in_the_order_in_which_they_came(void **state)
{
    see(*state, "b");
    see(*state, "a");
    see(*state, "c");
    see(*state, "b");
    assert_string_equal(copied(*state), "b,a,c");
    assert_int_equal(((struct fixture *)*state)->known_pods.count, 3);
}

static void copy__has_everything_that_was_told_of_a_pod(void **state)
{
    struct fixture *fixture = *state;
    struct pod_seen seen = {
        .name = "a", .address = "h:1", .is_ready = true, .is_terminating = true, .started_at_ms = 7};
    struct pod_seen *pods;
    size_t count;

    see(fixture, "a");
    assert_int_equal(known_pods_see(&fixture->known_pods, &seen), 0);
    known_pods_find(&fixture->known_pods, "a")->hold_back = true;
    assert_int_equal(known_pods_copy(&fixture->known_pods, &fixture->arena, &pods, &count), 0);
    assert_int_equal(count, 1);
    assert_string_equal(pods[0].address, "h:1");
    assert_null(pods[0].incarnation);
    assert_true(pods[0].is_ready && pods[0].is_terminating && pods[0].hold_back && !pods[0].is_kept);
    assert_int_equal(pods[0].started_at_ms, 7);
    assert_int_equal(pods[0].source, POD_SOURCE_KUBERNETES);
}

static void a_new_incarnation__is_not_held_back_for_the_old_one(void **state)
{
    struct fixture *fixture = *state;

    see_change(fixture, "a", "uid:0");
    known_pods_find(&fixture->known_pods, "a")->hold_back = true;
    see_change(fixture, "a", "uid:0");
    assert_true(known_pods_find(&fixture->known_pods, "a")->hold_back);
    see_change(fixture, "a", "uid:1");
    assert_false(known_pods_find(&fixture->known_pods, "a")->hold_back);
}

static void list__forgets_what_it_does_not_name(void **state)
{
    struct fixture *fixture = *state;

    see(fixture, "a");
    see(fixture, "b");
    known_pods_list_begin(&fixture->known_pods);
    see(fixture, "b");
    see(fixture, "c");
    known_pods_list_end(&fixture->known_pods);
    assert_string_equal(copied(fixture), "b,c");
    assert_null(known_pods_find(&fixture->known_pods, "a"));
    assert_int_equal(fixture->known_pods.count, 2);
}

static void changes__come_in_order_and_each_pod_once_with_its_newest_state(void **state)
{
    see_change(*state, "a", "1");
    see_change(*state, "b", "1");
    see_change(*state, "a", "2");
    assert_string_equal(taken(*state), "seen a 2");
    assert_string_equal(taken(*state), "seen b 1");
    assert_string_equal(taken(*state), "");
}

static void absent__is_told_once_and_forgotten(void **state)
{
    struct fixture *fixture = *state;

    see(fixture, "a");
    known_pods_absent(&fixture->known_pods, "a");
    known_pods_absent(&fixture->known_pods, "a");
    known_pods_absent(&fixture->known_pods, "nobody");
    assert_null(known_pods_find(&fixture->known_pods, "a"));
    assert_string_equal(copied(fixture), "");
    see(fixture, "a");
    known_pods_absent(&fixture->known_pods, "a");
    assert_string_equal(taken(fixture), "absent a");
    assert_string_equal(taken(fixture), "");
    assert_int_equal(fixture->known_pods.count, 0);
}

static void gone__is_told_also_of_a_pod_that_was_absent_before(void **state)
{
    struct fixture *fixture = *state;

    see(fixture, "a");
    assert_int_equal(known_pods_gone(&fixture->known_pods, "a"), 0);
    assert_int_equal(known_pods_gone(&fixture->known_pods, "b"), 0);
    assert_int_equal(fixture->known_pods.count, 0);
    assert_string_equal(taken(fixture), "gone a");
    assert_string_equal(taken(fixture), "gone b");
    assert_string_equal(taken(fixture), "");
}

static void outside__is_told_as_draining_and_is_not_part_of_a_sync(void **state)
{
    struct fixture *fixture = *state;
    struct pod_seen seen = seen_of("a", "uid:3");

    assert_int_equal(known_pods_outside(&fixture->known_pods, &seen), 0);
    assert_null(known_pods_find(&fixture->known_pods, "a"));
    assert_string_equal(taken(fixture), "seen a uid:3 draining");
    assert_string_equal(taken(fixture), "");
    assert_int_equal(known_pods_outside(&fixture->known_pods, &seen), 0);
    assert_string_equal(copied(fixture), "");
    assert_string_equal(taken(fixture), "");
}

static void outside__does_not_count_for_a_pod_that_is_back(void **state)
{
    struct fixture *fixture = *state;
    struct pod_seen seen = seen_of("a", "uid:3");

    see_change(fixture, "a", "uid:4");
    assert_int_equal(known_pods_outside(&fixture->known_pods, &seen), 0);
    assert_string_equal(taken(fixture), "seen a uid:4");
    assert_int_equal(fixture->known_pods.count, 1);
}

static void kept__stays_as_it_was_known(void **state)
{
    struct fixture *fixture = *state;
    struct pod_seen *pods;
    size_t count;

    see(fixture, "a");
    known_pods_list_begin(&fixture->known_pods);
    assert_int_equal(known_pods_keep(&fixture->known_pods, "a"), 0);
    assert_int_equal(known_pods_keep(&fixture->known_pods, "b"), 0);
    known_pods_list_end(&fixture->known_pods);
    assert_int_equal(known_pods_copy(&fixture->known_pods, &fixture->arena, &pods, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(pods[0].incarnation, "uid:0");
    assert_false(pods[0].is_kept);
    assert_string_equal(pods[1].name, "b");
    assert_true(pods[1].is_kept);
    see_change(fixture, "b", "uid:5");
    assert_false(known_pods_find(&fixture->known_pods, "b")->is_kept);
    assert_string_equal(taken(fixture), "seen b uid:5");
}

static void what_does_not_run_yet__has_no_incarnation_for_the_store(void **state)
{
    struct fixture *fixture = *state;
    struct pod_seen seen = {.name = "a", .address = "", .incarnation = "uid-2:0"};
    struct command command;

    see_change(fixture, "a", "uid-1:0");
    assert_int_equal(known_pods_see_change(&fixture->known_pods, &seen), 0);
    assert_int_equal(known_pods_take_change(&fixture->known_pods, &fixture->arena, &command), 1);
    assert_null(command.pod_seen.pod.incarnation);
    assert_string_equal(known_pods_find(&fixture->known_pods, "a")->incarnation, "uid-2:0");
    seen.started_at_ms = 1;
    assert_int_equal(known_pods_see_change(&fixture->known_pods, &seen), 0);
    assert_string_equal(taken(fixture), "seen a uid-2:0");
}

static void gone_and_back__is_told_as_the_new_one(void **state)
{
    struct fixture *fixture = *state;

    see_change(fixture, "a", "1");
    known_pods_absent(&fixture->known_pods, "a");
    see_change(fixture, "a", "2");
    assert_int_equal(fixture->known_pods.count, 1);
    assert_string_equal(taken(fixture), "seen a 2");
    assert_int_equal(known_pods_gone(&fixture->known_pods, "a"), 0);
    see_change(fixture, "a", "3");
    assert_string_equal(taken(fixture), "seen a 3");
    assert_string_equal(taken(fixture), "");
}

static void copy__contains_the_changes_that_waited(void **state)
{
    struct fixture *fixture = *state;

    see_change(fixture, "a", "1");
    see_change(fixture, "b", "1");
    known_pods_absent(&fixture->known_pods, "a");
    assert_string_equal(copied(fixture), "b");
    assert_string_equal(taken(fixture), "");
}

static void change__during_a_list_survives_it(void **state)
{
    struct fixture *fixture = *state;

    known_pods_list_begin(&fixture->known_pods);
    see(fixture, "a");
    known_pods_list_end(&fixture->known_pods);
    see_change(fixture, "b", "1");
    known_pods_list_begin(&fixture->known_pods);
    see(fixture, "a");
    see(fixture, "b");
    known_pods_list_end(&fixture->known_pods);
    assert_string_equal(taken(fixture), "seen b uid:0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(copy__has_all_pods_in_the_order_in_which_they_came),
        TEST(copy__has_everything_that_was_told_of_a_pod),
        TEST(a_new_incarnation__is_not_held_back_for_the_old_one),
        TEST(list__forgets_what_it_does_not_name),
        TEST(changes__come_in_order_and_each_pod_once_with_its_newest_state),
        TEST(absent__is_told_once_and_forgotten),
        TEST(gone__is_told_also_of_a_pod_that_was_absent_before),
        TEST(outside__is_told_as_draining_and_is_not_part_of_a_sync),
        TEST(outside__does_not_count_for_a_pod_that_is_back),
        TEST(kept__stays_as_it_was_known),
        TEST(what_does_not_run_yet__has_no_incarnation_for_the_store),
        TEST(gone_and_back__is_told_as_the_new_one),
        TEST(copy__contains_the_changes_that_waited),
        TEST(change__during_a_list_survives_it),
    };

    return cmocka_run_group_tests_name("picture", tests, NULL, NULL);
}
