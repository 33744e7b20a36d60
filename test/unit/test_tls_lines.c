/* test_tls_lines.c - who goes on in which turn, counted, by a clock that the test owns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tls/lines.h"

enum {
    LINE_MAX = 64,
    MANY = 100,
    QUICK_NS = 1000,
};

/* Stands for a connection. */
struct waiting {
    struct list link;
    char kind;        /* h, a, o, g: its line */
    bool comes_again; /* gets in line again, at once */
    unsigned went_on; /* so often */
};

static uint64_t now_ns;
static uint64_t cost_ns; /* of whatever goes on */
static struct tls_lines lines;
static char order[4096]; /* the kinds of those who went on; '|' ends a turn */
static size_t order_len;

uint64_t __wrap_clock_elapsed_ns(void);
uint64_t __wrap_clock_elapsed_ns(void)
{
    return now_ns;
}

static struct list *line_of(char kind)
{
    switch (kind) {
    case 'h':
        return &lines.hellos;
    case 'a':
        return &lines.answered;
    case 'o':
        return &lines.owing;
    default:
        return &lines.again;
    }
}

static void note(char what)
{
    assert_true(order_len < sizeof(order) - 1);
    order[order_len++] = what;
    order[order_len] = 0;
}

static void go_on(struct list *link)
{
    struct waiting *waiting = LIST_ENTRY(link, struct waiting, link);

    list_remove(link);
    note(waiting->kind);
    waiting->went_on++;
    now_ns += cost_ns;
    if (waiting->comes_again)
        tls_lines_add(line_of(waiting->kind), link);
}

static void open_goes_on(struct list *link)
{
    go_on(link);
    assert_true(order[order_len - 1] == 'o' || order[order_len - 1] == 'g');
}

static void handshake_steps(struct list *link)
{
    go_on(link);
    assert_true(order[order_len - 1] == 'h' || order[order_len - 1] == 'a');
}

static int setup(void **state UNUSED)
{
    tls_lines_init(&lines, LINE_MAX, open_goes_on, handshake_steps);
    now_ns = 1;
    cost_ns = QUICK_NS;
    order_len = 0;
    order[0] = 0;
    return 0;
}

static void add(struct waiting *all, size_t count, char kind, bool comes_again)
{
    for (size_t i = 0; i < count; i++) {
        all[i] = (struct waiting){.kind = kind, .comes_again = comes_again};
        list_init(&all[i].link);
        tls_lines_add(line_of(kind), &all[i].link);
    }
}

static void turn(void)
{
    tls_lines_turn(&lines);
    note('|');
}

static size_t count_of(char what)
{
    size_t count = 0;

    for (size_t i = 0; i < order_len; i++)
        count += order[i] == what;
    return count;
}

static void owing__one_goes_on_in_each_turn_however_many_wait(void **state UNUSED)
{
    struct waiting owing[MANY];

    add(owing, MANY, 'o', true);
    for (unsigned i = 0; i < 3; i++)
        turn();
    assert_string_equal(order, "o|o|o|");
    for (unsigned i = 3; i < MANY; i++)
        turn();
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(owing[i].went_on, 1); /* and nobody twice before the others */
}

static void owing__takes_turns_with_handshakes(void **state UNUSED)
{
    struct waiting owing[MANY];
    struct waiting hellos[MANY];

    add(owing, MANY, 'o', false);
    add(hellos, MANY, 'h', false);
    for (unsigned i = 0; i < 4; i++)
        turn();
    assert_string_equal(order, "o|hhhhhhhh|o|hhhhhhhh|");
}

static void handshakes__get_so_many_steps_in_a_turn(void **state UNUSED)
{
    struct waiting hellos[MANY];

    add(hellos, MANY, 'h', false);
    turn();
    assert_int_equal(count_of('h'), LINES_STEPS_MAX);
}

static void handshakes__begin_no_step_when_their_time_is_over(void **state UNUSED)
{
    struct waiting hellos[MANY];

    add(hellos, MANY, 'h', false);
    cost_ns = LINES_STEPS_NS / 3 + 1;
    turn();
    assert_string_equal(order, "hhh|");
    /* One that takes long is not held up for ever. */
    cost_ns = (uint64_t)10 * LINES_STEPS_NS;
    turn();
    assert_string_equal(order, "hhh|h|");
}

static void handshakes__of_both_lines_step_in_turns(void **state UNUSED)
{
    struct waiting hellos[MANY];
    struct waiting answered[MANY];

    add(hellos, MANY, 'h', false);
    add(answered, MANY, 'a', false);
    turn();
    assert_string_equal(order, "ahahahah|");
}

static void handshakes__step_in_turns_across_the_turns_of_the_loop_too(void **state UNUSED)
{
    struct waiting hellos[MANY];
    struct waiting answered[MANY];

    add(hellos, MANY, 'h', true);
    add(answered, 1, 'a', true);
    cost_ns = LINES_STEPS_NS;
    for (unsigned i = 0; i < 6; i++)
        turn();
    assert_string_equal(order, "a|h|a|h|a|h|");
}

static void handshakes__of_one_line_have_all_the_steps(void **state UNUSED)
{
    struct waiting answered[MANY];

    add(answered, MANY, 'a', false);
    turn();
    assert_string_equal(order, "aaaaaaaa|");
}

static void again__each_goes_on_once_in_a_turn(void **state UNUSED)
{
    struct waiting again[3];

    add(again, ARRAY_LEN(again), 'g', true);
    turn();
    turn();
    assert_string_equal(order, "ggg|ggg|");
}

static void again__stops_when_the_time_is_over_and_the_rest_comes_first(void **state UNUSED)
{
    struct waiting again[10];

    add(again, ARRAY_LEN(again), 'g', true);
    cost_ns = LINES_SHARE_NS / 4;
    for (unsigned i = 0; i < 5; i++)
        turn();
    assert_string_equal(order, "gggg|gggg|gggg|gggg|gggg|");
    for (unsigned i = 0; i < ARRAY_LEN(again); i++)
        assert_int_equal(again[i].went_on, 2);
}

static void again__goes_on_beside_those_who_are_costly(void **state UNUSED)
{
    struct waiting owing[MANY];
    struct waiting again[2];

    add(owing, MANY, 'o', true);
    add(again, ARRAY_LEN(again), 'g', true);
    cost_ns = (uint64_t)2 * LINES_SHARE_NS;
    turn();
    turn();
    assert_string_equal(order, "og|og|");
}

static void polled__have_time_until_it_is_used_up_and_again_after_the_next_poll(void **state UNUSED)
{
    now_ns = 5000;
    assert_true(tls_lines_have_time(&lines, 10));
    now_ns += LINES_SHARE_NS - 1;
    assert_true(tls_lines_have_time(&lines, 10));
    now_ns += 1;
    assert_false(tls_lines_have_time(&lines, 10));
    now_ns += LINES_SHARE_NS;
    assert_false(tls_lines_have_time(&lines, 10));
    assert_true(tls_lines_have_time(&lines, 11));
}

static void behind__when_either_line_of_handshakes_is_full(void **state UNUSED)
{
    struct waiting hellos[LINE_MAX];
    struct waiting answered[LINE_MAX];

    assert_true(tls_lines_are_empty(&lines));
    add(hellos, LINE_MAX - 1, 'h', false);
    add(answered, LINE_MAX - 1, 'a', false);
    assert_false(tls_lines_are_empty(&lines));
    assert_false(tls_lines_are_behind(&lines));
    add(hellos + LINE_MAX - 1, 1, 'h', false);
    assert_true(tls_lines_are_behind(&lines));
    turn();
    assert_false(tls_lines_are_behind(&lines));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(owing__one_goes_on_in_each_turn_however_many_wait, setup),
        cmocka_unit_test_setup(owing__takes_turns_with_handshakes, setup),
        cmocka_unit_test_setup(handshakes__get_so_many_steps_in_a_turn, setup),
        cmocka_unit_test_setup(handshakes__begin_no_step_when_their_time_is_over, setup),
        cmocka_unit_test_setup(handshakes__of_both_lines_step_in_turns, setup),
        cmocka_unit_test_setup(handshakes__step_in_turns_across_the_turns_of_the_loop_too, setup),
        cmocka_unit_test_setup(handshakes__of_one_line_have_all_the_steps, setup),
        cmocka_unit_test_setup(again__each_goes_on_once_in_a_turn, setup),
        cmocka_unit_test_setup(again__stops_when_the_time_is_over_and_the_rest_comes_first, setup),
        cmocka_unit_test_setup(again__goes_on_beside_those_who_are_costly, setup),
        cmocka_unit_test_setup(polled__have_time_until_it_is_used_up_and_again_after_the_next_poll, setup),
        cmocka_unit_test_setup(behind__when_either_line_of_handshakes_is_full, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
