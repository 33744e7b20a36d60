/* test_secrets.c - keys and tokens: their lists, and how they are compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/secrets.h"

static struct secrets *with_keys(const char *keys)
{
    const char *const texts[SECRET_KINDS] = {keys, "", "", ""};
    struct secrets *secrets = NULL;

    assert_int_equal(secrets_new(texts, &secrets), 0);
    return secrets;
}

static void match__takes_each_value_and_nothing_near_it(void **state UNUSED)
{
    struct secrets *secrets = with_keys("first-key,second");

    assert_true(secrets_match(secrets, SECRET_API_KEY, SLICE("first-key")));
    assert_true(secrets_match(secrets, SECRET_API_KEY, SLICE("second")));
    assert_false(secrets_match(secrets, SECRET_API_KEY, SLICE("first-ke")));
    assert_false(secrets_match(secrets, SECRET_API_KEY, SLICE("first-keyx")));
    assert_false(secrets_match(secrets, SECRET_API_KEY, SLICE("first-kez")));
    assert_false(secrets_match(secrets, SECRET_API_KEY, SLICE("girst-key")));
    assert_false(secrets_match(secrets, SECRET_API_KEY, SLICE("first-key,second")));
    assert_false(secrets_match(secrets, SECRET_API_KEY, SLICE("")));
    secrets_free(secrets);
}

static void match__every_changed_bit_is_seen(void **state UNUSED)
{
    struct secrets *secrets = with_keys("0123456789abcdef");
    char given[] = "0123456789abcdef";

    for (size_t i = 0; i < 8 * (sizeof(given) - 1); i++) {
        given[i / 8] = (char)(given[i / 8] ^ 1 << i % 8);
        assert_false(secrets_match(secrets, SECRET_API_KEY, (struct slice){given, sizeof(given) - 1}));
        given[i / 8] = (char)(given[i / 8] ^ 1 << i % 8);
    }
    assert_true(secrets_match(secrets, SECRET_API_KEY, slice_of(given)));
    secrets_free(secrets);
}

static void match__kinds_are_apart(void **state UNUSED)
{
    const char *const texts[SECRET_KINDS] = {"key", "twilio", "plivo1,plivo2", ""};
    struct secrets *secrets = NULL;

    assert_int_equal(secrets_new(texts, &secrets), 0);
    assert_int_equal(secrets_count(secrets, SECRET_API_KEY), 1);
    assert_int_equal(secrets_count(secrets, SECRET_PLIVO), 2);
    assert_int_equal(secrets_count(secrets, SECRET_EXOTEL), 0);
    assert_true(slice_equals(secrets_at(secrets, SECRET_PLIVO, 1), "plivo2"));
    assert_true(secrets_match(secrets, SECRET_TWILIO, SLICE("twilio")));
    assert_false(secrets_match(secrets, SECRET_API_KEY, SLICE("twilio")));
    assert_false(secrets_match(secrets, SECRET_EXOTEL, SLICE("")));
    secrets_free(secrets);
}

static void new__copies_what_it_is_given(void **state UNUSED)
{
    char text[] = "a-key";
    struct secrets *secrets = with_keys(text);

    text[0] = 'b';
    assert_true(secrets_match(secrets, SECRET_API_KEY, SLICE("a-key")));
    secrets_free(secrets);
}

static void new__one_bad_list_is_refused_with_all(void **state UNUSED)
{
    const char *const texts[SECRET_KINDS] = {"good", "good", "b ad", "good"};
    struct secrets *secrets = NULL;

    assert_int_equal(secrets_new(texts, &secrets), -EINVAL);
    assert_null(secrets);
}

static char *repeated(const char *text, size_t times)
{
    size_t len = strlen(text);
    char *all = malloc(len * times + 1);

    assert_non_null(all);
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * len, text, len);
    all[len * times] = '\0';
    return all;
}

static void check__says_what_is_wrong_and_never_the_value(void **state UNUSED)
{
    static const char *const bad[] = {
        ",",       "secret,",  ",secret",  "secret,,other", "sec ret",    "secret, other",
        " secret", "secret\t", "secret\n", "secr\001et",    "secr\177et", "secr\xc3\xa9t",
    };
    char error[256];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        error[0] = '\0';
        assert_false(secrets_check(bad[i], error, sizeof(error)));
        assert_true(error[0] != '\0');
        assert_null(strstr(error, "secr"));
    }
    assert_true(secrets_check("", error, sizeof(error)));
    assert_true(secrets_check("!a~", error, sizeof(error)));
}

static void check__lists_and_values_have_limits(void **state UNUSED)
{
    char *longest = repeated("x", SECRET_VALUE_MAX);
    char *longer = repeated("x", SECRET_VALUE_MAX + 1);
    char *most = repeated("k,", SECRETS_MAX);
    char *more = repeated("k,", SECRETS_MAX + 1);
    char error[256];

    most[2 * SECRETS_MAX - 1] = '\0';
    more[2 * SECRETS_MAX + 1] = '\0';
    assert_true(secrets_check(longest, error, sizeof(error)));
    assert_false(secrets_check(longer, error, sizeof(error)));
    assert_true(secrets_check(most, error, sizeof(error)));
    assert_false(secrets_check(more, error, sizeof(error)));
    free(longest);
    free(longer);
    free(most);
    free(more);
}

static void shortest__looks_at_all_values(void **state UNUSED)
{
    assert_int_equal(secrets_shortest(""), 0);
    assert_int_equal(secrets_shortest("12345"), 5);
    assert_int_equal(secrets_shortest("12345,123,1234"), 3);
    assert_int_equal(secrets_shortest("1,12345"), 1);
    assert_int_equal(secrets_shortest("12345,12"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(match__takes_each_value_and_nothing_near_it),
        cmocka_unit_test(match__every_changed_bit_is_seen),
        cmocka_unit_test(match__kinds_are_apart),
        cmocka_unit_test(new__copies_what_it_is_given),
        cmocka_unit_test(new__one_bad_list_is_refused_with_all),
        cmocka_unit_test(check__says_what_is_wrong_and_never_the_value),
        cmocka_unit_test(check__lists_and_values_have_limits),
        cmocka_unit_test(shortest__looks_at_all_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
