/* test_over.c - calls that are over: who is remembered, and who is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "api/over.h"

static void a_call_is_remembered(void **state UNUSED)
{
    struct over *over;

    assert_int_equal(over_new(&over), 0);
    assert_false(over_has(over, "CA1"));
    over_add(over, "CA1");
    over_add(over, "CA1");
    assert_true(over_has(over, "CA1"));
    assert_false(over_has(over, "CA"));
    over_free(over);
}

static void the_oldest_is_forgotten_for_the_newest(void **state UNUSED)
{
    struct over *over;
    char call_sid[32];

    assert_int_equal(over_new(&over), 0);
    for (unsigned i = 0; i < OVER_MAX + 10; i++) {
        snprintf(call_sid, sizeof(call_sid), "CA%u", i);
        over_add(over, call_sid);
    }
    assert_false(over_has(over, "CA9"));
    assert_true(over_has(over, "CA10"));
    assert_true(over_has(over, call_sid));
    over_free(over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_remembered),
        cmocka_unit_test(the_oldest_is_forgotten_for_the_newest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
