/*
 * test_script_interface.c - the names that scripts share with core, and the number of their arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/command.h"
#include "store/redis/script.h"
#include "store/redis/script_interface.h"

/* Core writes these names in tables, which the build cannot read. */
static void names__are_those_of_core(void **state UNUSED)
{
    assert_string_equal(SCRIPT_SOURCE_API, pod_source_name(POD_SOURCE_API));
    assert_string_equal(SCRIPT_SOURCE_STATIC, pod_source_name(POD_SOURCE_STATIC));
    assert_string_equal(SCRIPT_SOURCE_KUBERNETES, pod_source_name(POD_SOURCE_KUBERNETES));
    assert_string_equal(SCRIPT_RENEWED_BY_CLIENT, renewer_name(RENEWED_BY_CLIENT));
    assert_string_equal(SCRIPT_RENEWED_BY_POD, renewer_name(RENEWED_BY_POD));
    assert_string_equal(SCRIPT_RENEWED_BY_GATEWAY, renewer_name(RENEWED_BY_GATEWAY));
    assert_string_equal(SCRIPT_TOMBSTONE_RELEASED, finish_reason_name(FINISH_RELEASED));
    assert_string_equal(SCRIPT_TOMBSTONE_CLOSED, finish_reason_name(FINISH_CLOSED));
    assert_string_equal(SCRIPT_TOMBSTONE_TIMED_OUT, finish_reason_name(FINISH_TIMED_OUT));
    assert_string_equal(SCRIPT_WAIT_TIMED_OUT, wait_end_name(WAIT_TIMED_OUT));
    assert_string_equal(SCRIPT_WAIT_ABANDONED, wait_end_name(WAIT_ABANDONED));
    assert_string_equal(SCRIPT_PAST_UNDONE, past_end_name(PAST_UNDONE));
    assert_string_equal(SCRIPT_PAST_MOVED, past_end_name(PAST_MOVED));
}

static void takes__neither_more_nor_fewer_than_all_arguments(void **state UNUSED)
{
    const struct redis_script *leave = redis_script(SCRIPT_LEAVE);
    size_t all = SCRIPT_COMMON_ARGS + SCRIPT_LEAVE_ARGS;

    assert_true(redis_script_takes(leave, all));
    assert_false(redis_script_takes(leave, all - 1));
    assert_false(redis_script_takes(leave, all + 1));
}

static void takes__optional_arguments_or_not(void **state UNUSED)
{
    const struct redis_script *merchant = redis_script(SCRIPT_MERCHANT);
    size_t all = SCRIPT_COMMON_ARGS + SCRIPT_MERCHANT_ARGS;

    assert_true(redis_script_takes(merchant, all));
    assert_true(redis_script_takes(merchant, all - 1));
    assert_false(redis_script_takes(merchant, all - 2));
    assert_false(redis_script_takes(merchant, all + 1));
}

static void takes__whole_groups_only(void **state UNUSED)
{
    const struct redis_script *renew = redis_script(SCRIPT_RENEW);
    size_t fixed = SCRIPT_COMMON_ARGS + SCRIPT_RENEW_ARGS;

    for (size_t more = 0; more < 3 * SCRIPT_RENEW_EACH; more++)
        assert_int_equal(redis_script_takes(renew, fixed + more), more % SCRIPT_RENEW_EACH == 0);
}

static void takes__a_list_of_any_length(void **state UNUSED)
{
    const struct redis_script *allocate = redis_script(SCRIPT_RELEASE_AND_ALLOCATE);
    size_t fixed = SCRIPT_COMMON_ARGS + SCRIPT_RELEASE_AND_ALLOCATE_ARGS;

    assert_false(redis_script_takes(allocate, fixed - 1));
    assert_true(redis_script_takes(allocate, fixed + 1));
    assert_true(redis_script_takes(allocate, fixed + 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names__are_those_of_core),
        cmocka_unit_test(takes__neither_more_nor_fewer_than_all_arguments),
        cmocka_unit_test(takes__optional_arguments_or_not),
        cmocka_unit_test(takes__whole_groups_only),
        cmocka_unit_test(takes__a_list_of_any_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
