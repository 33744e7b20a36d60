/* test_form.c - what browsers and telephony providers put into bodies and queries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "http/form.h"

static struct form parse(struct arena *arena, const char *text, size_t len)
{
    struct form form;

    assert_int_equal(form_parse(arena, (struct slice){text, len}, &form), 0);
    return form;
}

#define PARSE(arena, literal) parse(arena, literal, sizeof(literal) - 1)

static void form__decodes_fields_in_order(void **state UNUSED)
{
    struct arena arena;
    struct form form;

    arena_init(&arena, 1 << 20);
    form = PARSE(&arena, "CallSid=CA1&From=%2B15551234&Say=a+b%20c&Empty=&Bare");
    assert_int_equal(form.count, 5);
    assert_string_equal(form_get(&form, "CallSid"), "CA1");
    assert_string_equal(form_get(&form, "From"), "+15551234");
    assert_string_equal(form_get(&form, "Say"), "a b c");
    assert_string_equal(form_get(&form, "Empty"), "");
    assert_string_equal(form_get(&form, "Bare"), "");
    assert_null(form_get(&form, "callsid"));
    assert_string_equal(form.fields[1].name, "From");
    arena_release(&arena);
}

static void form__takes_the_first_of_equal_names(void **state UNUSED)
{
    struct arena arena;
    struct form form;

    arena_init(&arena, 1 << 20);
    form = PARSE(&arena, "a=1&a=2&b=x=y=z");
    assert_string_equal(form_get(&form, "a"), "1");
    assert_int_equal(form.count, 3);
    assert_string_equal(form_get(&form, "b"), "x=y=z");
    arena_release(&arena);
}

static void form__takes_broken_escapes_literally(void **state UNUSED)
{
    struct arena arena;
    struct form form;

    arena_init(&arena, 1 << 20);
    form = PARSE(&arena, "a=%&b=%4&c=%zz&d=%4g&e=100%&f=%%41&%6eame=v");
    assert_string_equal(form_get(&form, "a"), "%");
    assert_string_equal(form_get(&form, "b"), "%4");
    assert_string_equal(form_get(&form, "c"), "%zz");
    assert_string_equal(form_get(&form, "d"), "%4g");
    assert_string_equal(form_get(&form, "e"), "100%");
    assert_string_equal(form_get(&form, "f"), "%A");
    assert_string_equal(form_get(&form, "name"), "v");
    arena_release(&arena);
}

static void form__an_escape_never_reaches_into_the_next_field(void **state UNUSED)
{
    struct arena arena;
    struct form form;

    arena_init(&arena, 1 << 20);
    form = PARSE(&arena, "a=%4&1=b%3");
    assert_string_equal(form_get(&form, "a"), "%4");
    assert_string_equal(form_get(&form, "1"), "b%3");
    arena_release(&arena);
}

static void form__skips_empty_pieces(void **state UNUSED)
{
    struct arena arena;
    struct form form;

    arena_init(&arena, 1 << 20);
    form = PARSE(&arena, "&&a=1&&b=2&");
    assert_int_equal(form.count, 2);
    form = PARSE(&arena, "");
    assert_int_equal(form.count, 0);
    assert_null(form_get(&form, ""));
    form = PARSE(&arena, "&");
    assert_int_equal(form.count, 0);
    form = PARSE(&arena, "=v");
    assert_string_equal(form_get(&form, ""), "v");
    arena_release(&arena);
}

static void form__shows_a_hidden_nul_by_the_length(void **state UNUSED)
{
    struct arena arena;
    struct form form;

    arena_init(&arena, 1 << 20);
    form = PARSE(&arena, "a=x%00y");
    assert_string_equal(form_get(&form, "a"), "x");
    assert_int_equal(form.fields[0].value_len, 3);
    arena_release(&arena);
}

static void form__refuses_too_many_fields(void **state UNUSED)
{
    struct arena arena;
    struct form form = {NULL, 77};
    char text[2 * (FORM_FIELDS_MAX + 1)];

    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < sizeof(text); i += 2)
        memcpy(text + i, "a&", 2);
    assert_int_equal(form_parse(&arena, (struct slice){text, sizeof(text)}, &form), -E2BIG);
    assert_int_equal(form.count, 77);
    assert_int_equal(form_parse(&arena, (struct slice){text, sizeof(text) - 2}, &form), 0);
    assert_int_equal(form.count, FORM_FIELDS_MAX);
    arena_release(&arena);
}

static void form__says_when_memory_is_out(void **state UNUSED)
{
    static char text[32 * 1024];
    struct arena arena;
    struct form form = {NULL, 77};

    memset(text, 'x', sizeof(text));
    arena_init(&arena, 8 * 1024);
    assert_int_equal(form_parse(&arena, (struct slice){text, sizeof(text)}, &form), -ENOMEM);
    assert_int_equal(form.count, 77);
    arena_release(&arena);
}

static void percent_encode__leaves_only_unreserved_characters(void **state UNUSED)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 1000);
    percent_encode(&buf, SLICE("aZ09-._~ /+%&\"\xff\0"));
    assert_string_equal(buf.data, "aZ09-._~%20%2F%2B%25%26%22%FF%00");
    strbuf_release(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(form__decodes_fields_in_order),
        cmocka_unit_test(form__takes_the_first_of_equal_names),
        cmocka_unit_test(form__takes_broken_escapes_literally),
        cmocka_unit_test(form__an_escape_never_reaches_into_the_next_field),
        cmocka_unit_test(form__skips_empty_pieces),
        cmocka_unit_test(form__shows_a_hidden_nul_by_the_length),
        cmocka_unit_test(form__refuses_too_many_fields),
        cmocka_unit_test(form__says_when_memory_is_out),
        cmocka_unit_test(percent_encode__leaves_only_unreserved_characters),
    };

    return cmocka_run_group_tests_name("form", tests, NULL, NULL);
}
