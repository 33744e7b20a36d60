/* test_finished_calls.c - calls that are over: who is remembered, and who is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/finished_calls.h"

static void a_call_is_remembered(void **state UNUSED)
{
    struct finished_calls *over;

    assert_int_equal(finished_calls_new(&over), 0);
    assert_false(finished_calls_has(over, "CA1"));
    finished_calls_add(over, "CA1");
    finished_calls_add(over, "CA1");
    assert_true(finished_calls_has(over, "CA1"));
    assert_false(finished_calls_has(over, "CA"));
    finished_calls_free(over);
}

static void the_oldest_is_forgotten_for_the_newest(void **state UNUSED)
{
    struct finished_calls *over;
    char call_sid[32];

    assert_int_equal(finished_calls_new(&over), 0);
    for (unsigned i = 0; i < FINISHED_CALLS_MAX + 10; i++) {
        snprintf(call_sid, sizeof(call_sid), "CA%u", i);
        finished_calls_add(over, call_sid);
    }
    assert_false(finished_calls_has(over, "CA9"));
    assert_true(finished_calls_has(over, "CA10"));
    assert_true(finished_calls_has(over, call_sid));
    finished_calls_free(over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_remembered),
        cmocka_unit_test(the_oldest_is_forgotten_for_the_newest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
