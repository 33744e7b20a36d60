/*
 * test_cli_text.c - texts for a terminal: what is escaped, ages, times, and tables that fit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/table.h"
#include "cli/text.h"

enum { TEXT_MAX = 4096 };

static void expect_safe(const char *text, const char *expected)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, TEXT_MAX);
    text_append_safe(&buf, slice_of(text));
    strbuf_append_char(&buf, '\0');
    assert_string_equal(buf.data, expected);
    strbuf_release(&buf);
}

static void safe__plain_texts_stay(void **state UNUSED)
{
    expect_safe("", "");
    expect_safe("voice-agent-0 {\"a\":1}", "voice-agent-0 {\"a\":1}");
    expect_safe("M\xc3\xbcnchen \xe2\x82\xac \xf0\x9f\x93\x9e",
                "M\xc3\xbcnchen \xe2\x82\xac \xf0\x9f\x93\x9e");
}

static void safe__what_steers_a_terminal_is_escaped(void **state UNUSED)
{
    expect_safe("\x1b[2J", "\\x1b[2J");
    expect_safe("a\r\n\tb\x7f", "a\\x0d\\x0a\\x09b\\x7f");
    expect_safe("\xc2\x9b"
                "31m",
                "\\xc2\\x9b31m"); /* CSI as one character */
    expect_safe("\xe2\x80\xae"
                "x",
                "\\xe2\\x80\\xaex"); /* turns the line around */
}

static void safe__what_is_no_utf8_is_escaped(void **state UNUSED)
{
    expect_safe("\xff", "\\xff");
    expect_safe("\x9b", "\\x9b");
    expect_safe("\xc3", "\\xc3");
    expect_safe("\xc0\x9b", "\\xc0\\x9b");                   /* an overlong form */
    expect_safe("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* half of a pair */
    expect_safe("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond the last character */
}

static void expect_age(uint64_t seconds, const char *expected)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, TEXT_MAX);
    text_append_age(&buf, seconds);
    assert_string_equal(buf.data, expected);
    strbuf_release(&buf);
}

static void age__has_two_units(void **state UNUSED)
{
    expect_age(0, "0s");
    expect_age(59, "59s");
    expect_age(192, "3m12s");
    expect_age(3599, "59m59s");
    expect_age(7500, "2h05m");
    expect_age(86400 * 3 + 3600 * 4, "3d04h");
}

static void time__only_whole_times_are_read(void **state UNUSED)
{
    static const char *const wrong[] = {
        "", "x", "2026-02-08", "2026-02-08T10:00:00", "2026-02-08T10:00:00Zx", "1960-01-01T00:00:00Z"};
    uint64_t ms = 7;

    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        assert_false(text_read_time(wrong[i], &ms));
    assert_false(text_read_time(NULL, &ms));
    assert_int_equal(ms, 7);
    assert_true(text_read_time("1970-01-02T00:00:01Z", &ms));
    assert_int_equal(ms, 86401000);
    assert_true(text_read_time("1970-01-01T00:00:00.25Z", &ms));
    assert_int_equal(ms, 250);
}

static void expect_table(size_t columns, const char *expected)
{
    static const struct table_column heads[] = {
        {"NAME", .min = 6}, {"N", .is_right = true}, {"MORE", .min = 4, .omitted = 1}};
    const struct terminal terminal = {.columns = columns};
    struct strbuf buf;
    struct table table;

    table_init(&table, heads, ARRAY_LEN(heads));
    table_add(&table, "voice-agent-17");
    table_add_u64(&table, 5);
    table_add(&table, NULL);
    table_add(&table, "a\x1b");
    table_add_u64(&table, 10);
    table_add(&table, "abcdefgh");
    assert_int_equal(table_rows(&table), 2);
    strbuf_init(&buf, NULL, TEXT_MAX);
    table_write(&table, &terminal, &buf);
    assert_string_equal(buf.data, expected);
    strbuf_release(&buf);
    table_release(&table);
}

static void table__fits_by_cutting_and_then_by_leaving_out(void **state UNUSED)
{
    expect_table(SIZE_MAX,
                 "NAME             N  MORE\nvoice-agent-17   5  -\na\\x1b           10  abcdefgh\n");
    expect_table(28, "NAME             N  MORE\nvoice-agent-17   5  -\na\\x1b           10  abcdefgh\n");
    expect_table(16, "NAME     N  MORE\nvo..17   5  -\na\\x1b   10  a..h\n");
    expect_table(10, "NAME     N\nvo..17   5\na\\x1b   10\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safe__plain_texts_stay),
        cmocka_unit_test(safe__what_steers_a_terminal_is_escaped),
        cmocka_unit_test(safe__what_is_no_utf8_is_escaped),
        cmocka_unit_test(age__has_two_units),
        cmocka_unit_test(time__only_whole_times_are_read),
        cmocka_unit_test(table__fits_by_cutting_and_then_by_leaving_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
