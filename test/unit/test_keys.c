/* test_keys.c - the keys of the API: how API_KEYS is read, and whose secret is whose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/keys.h"
#include "api/secrets.h"

static struct keys *read_keys(const char *api_key, const char *api_keys)
{
    struct keys *keys = NULL;
    char error[256] = "";

    assert_int_equal(keys_new(api_key, api_keys, &keys, error, sizeof(error)), 0);
    return keys;
}

static void assert_key(const struct key *key, const char *name, enum role role, const char *pattern)
{
    assert_non_null(key);
    assert_string_equal(key->name, name);
    assert_int_equal(key->role, role);
    if (pattern)
        assert_string_equal(key->pattern, pattern);
    else
        assert_null(key->pattern);
}

static void match__finds_the_key_and_nothing_near_it(void **state UNUSED)
{
    struct keys *keys = read_keys("", "a read 0123456789abcdef\nb agent=gold-* short\n");
    char given[] = "0123456789abcdef";

    assert_key(keys_match(keys, slice_of(given)), "a", ROLE_READ, NULL);
    assert_key(keys_match(keys, SLICE("short")), "b", ROLE_AGENT, "gold-*");
    assert_false(keys_at(keys, 0)->is_short);
    assert_true(keys_at(keys, 1)->is_short);
    for (size_t i = 0; i < 8 * (sizeof(given) - 1); i++) {
        given[i / 8] = (char)(given[i / 8] ^ 1 << i % 8);
        assert_null(keys_match(keys, (struct slice){given, sizeof(given) - 1}));
        given[i / 8] = (char)(given[i / 8] ^ 1 << i % 8);
    }
    for (size_t len = 0; len < sizeof(given) - 1; len++)
        assert_null(keys_match(keys, (struct slice){given, len}));
    assert_null(keys_match(keys, (struct slice){given, sizeof(given)}));
    assert_null(keys_match(keys, SLICE("a")));
    assert_null(keys_match(keys, SLICE("read")));
    keys_free(keys);
}

static void new__reads_all_roles(void **state UNUSED)
{
    struct keys *keys = read_keys("", "# comment\n\n\t1 admin a\n2\tcall  b\r\n  3 agent c \n4 agent=* d\n"
                                      "5 agent=voice-agent-0 e\n6 metrics f\n7 read g");
    static const struct {
        enum role role;
        const char *pattern;
    } expected[] = {
        {ROLE_ADMIN, NULL},
        {ROLE_CALL, NULL},
        {ROLE_AGENT, NULL},
        {ROLE_AGENT, "*"},
        {ROLE_AGENT, "voice-agent-0"},
        {ROLE_METRICS, NULL},
        {ROLE_READ, NULL},
    };

    assert_int_equal(keys_count(keys), ARRAY_LEN(expected));
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        char name[2] = {(char)('1' + i), '\0'};
        char secret[2] = {(char)('a' + i), '\0'};

        assert_key(keys_at(keys, i), name, expected[i].role, expected[i].pattern);
        assert_ptr_equal(keys_match(keys, slice_of(secret)), keys_at(keys, i));
    }
    keys_free(keys);
}

static void new__values_of_api_key_are_admins_with_numbers(void **state UNUSED)
{
    struct keys *keys = read_keys("new,new,old", "a read b\n");

    assert_int_equal(keys_count(keys), 3);
    assert_key(keys_match(keys, SLICE("new")), "API_KEY", ROLE_ADMIN, NULL);
    assert_key(keys_match(keys, SLICE("old")), "API_KEY 3", ROLE_ADMIN, NULL);
    assert_null(keys_match(keys, SLICE("new,new")));
    keys_free(keys);
    keys = read_keys("", "");
    assert_int_equal(keys_count(keys), 0);
    assert_null(keys_match(keys, SLICE("")));
    keys_free(keys);
}

static void new__copies_what_it_is_given(void **state UNUSED)
{
    char api_key[] = "k";
    char text[] = "a read b\n";
    struct keys *keys = read_keys(api_key, text);

    memset(api_key, 'x', 1);
    memset(text, 'x', sizeof(text) - 1);
    assert_key(keys_match(keys, SLICE("b")), "a", ROLE_READ, NULL);
    assert_key(keys_match(keys, SLICE("k")), "API_KEY", ROLE_ADMIN, NULL);
    keys_free(keys);
}

static void new__an_error_has_the_line_and_nothing_of_it(void **state UNUSED)
{
    static const struct {
        const char *text;
        const char *error;
    } bad[] = {
        {"\n#\nhidden\n", "line 3 must be `name role secret`"},
        {"a read\n", "line 1 must be `name role secret`"},
        {"a read hidden b\n", "line 1 must be `name role secret`"},
        {"hidden! read a\n",
         "line 1 has a name that is not allowed: 1 to 31 characters of A-Z a-z 0-9 . _ -"},
        {"API_KEY read hidden\n", "line 1 has the name API_KEY, which is reserved"},
        {"a hidden b\n",
         "line 1 has an unknown role; allowed: admin, call, agent, agent=PATTERN, metrics, read"},
        {"a agent=hidden! b\n",
         "line 1 has a bad pattern: what follows agent= must be a pod's name, or the beginning of "
         "one with a * behind it: \"voice-agent-*\""},
        {"a agent=metadata b\n",
         "line 1 has a bad pattern: what follows agent= must be a pod's name, or the beginning "
         "of one with a * behind it: \"voice-agent-*\""},
        {"a read hid\x7f"
         "den\n",
         "line 1 has a secret with a character that is not printable ASCII"},
        {"a read hidden\nb read hidden\n", "line 2 has the same secret as line 1"},
        {"a read hidden\nb read b\na read c\n", "line 3 has the same name as line 1"},
        {"a read of-api-key\n", "line 1 has a secret of API_KEY"},
        {"# hidden\n", "the text has no key: a line must be `name role secret`"},
        {"\n", "the text has no key: a line must be `name role secret`"},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct keys *keys = NULL;
        char error[256] = "";

        assert_int_equal(keys_new("of-api-key", bad[i].text, &keys, error, sizeof(error)), -EINVAL);
        assert_null(keys);
        assert_string_equal(error, bad[i].error);
    }
}

static void new__has_limits(void **state UNUSED)
{
    enum { SIZE = 64 * 1024 };
    struct keys *keys = NULL;
    char *text = calloc(1, SIZE);
    char error[256] = "";
    size_t len = 0;

    assert_non_null(text);
    for (unsigned i = 0; i < KEYS_MAX; i++)
        len += (size_t)snprintf(text + len, SIZE - len, "k%u read s%u\n", i, i);
    keys = read_keys("k", text);
    assert_int_equal(keys_count(keys), KEYS_MAX + 1);
    assert_key(keys_match(keys, SLICE("s999")), "k999", ROLE_READ, NULL);
    keys = keys_free(keys);
    snprintf(text + len, SIZE - len, "one read more\n");
    assert_int_equal(keys_new("k", text, &keys, error, sizeof(error)), -EINVAL);
    assert_string_equal(error, "line 1001 is one key too many: there may be 1000");

    snprintf(text, SIZE, "a read ");
    memset(text + 7, 's', SECRET_VALUE_MAX);
    text[7 + SECRET_VALUE_MAX] = '\0';
    keys_free(read_keys("", text));
    text[7 + SECRET_VALUE_MAX] = 's';
    text[8 + SECRET_VALUE_MAX] = '\0';
    assert_int_equal(keys_new("", text, &keys, error, sizeof(error)), -EINVAL);
    assert_string_equal(error, "line 1 has a secret of more than 1024 characters");
    memset(text, 'n', KEY_NAME_MAX);
    snprintf(text + KEY_NAME_MAX, SIZE - KEY_NAME_MAX, " read s");
    keys_free(read_keys("", text));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(match__finds_the_key_and_nothing_near_it),
        cmocka_unit_test(new__reads_all_roles),
        cmocka_unit_test(new__values_of_api_key_are_admins_with_numbers),
        cmocka_unit_test(new__copies_what_it_is_given),
        cmocka_unit_test(new__an_error_has_the_line_and_nothing_of_it),
        cmocka_unit_test(new__has_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
