/* test_metrics.c - the registry and its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/version.h"
#include "metrics/metrics.h"
#include "metrics/process.h"

struct fixture {
    struct metrics *metrics;
    struct strbuf text;
};

static int setup(void **state)
{
    static struct fixture fixture;

    assert_int_equal(metrics_new(&fixture.metrics), 0);
    strbuf_init(&fixture.text, NULL, 16 * 1024 * 1024);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    fixture->metrics = metrics_free(fixture->metrics);
    strbuf_release(&fixture->text);
    return 0;
}

static const char *written(struct fixture *fixture)
{
    strbuf_reset(&fixture->text);
    metrics_write(fixture->metrics, &fixture->text);
    assert_false(strbuf_failed(&fixture->text));
    return fixture->text.data ? fixture->text.data : "";
}

static void counter__without_labels_starts_at_zero_and_counts(void **state)
{
    struct fixture *fixture = *state;
    struct metrics_family *family =
        metrics_family(fixture->metrics, METRICS_COUNTER, "drains_total", "Drains.", NULL, 0, NULL, 0);
    struct metrics_series *series = metrics_series(family, NULL);

    assert_string_equal(written(fixture),
                        "# HELP drains_total Drains.\n# TYPE drains_total counter\ndrains_total 0\n");
    metrics_add(series, 1);
    metrics_add(series, 2);
    assert_ptr_equal(metrics_series(family, NULL), series);
    assert_true(metrics_value(series) == 3);
    assert_non_null(strstr(written(fixture), "\ndrains_total 3\n"));
}

static void series__is_found_again_by_its_label_values(void **state)
{
    static const char *const names[] = {"pool", "status"};
    struct fixture *fixture = *state;
    struct metrics_family *family =
        metrics_family(fixture->metrics, METRICS_COUNTER, "a_total", "A.", names, 2, NULL, 0);
    struct metrics_series *one = metrics_series(family, (const char *const[]){"ab", "c"});
    struct metrics_series *two = metrics_series(family, (const char *const[]){"a", "bc"});

    assert_ptr_not_equal(one, two);
    assert_ptr_equal(metrics_series(family, (const char *const[]){"ab", "c"}), one);
    metrics_add(one, 5);
    assert_string_equal(written(fixture), "# HELP a_total A.\n# TYPE a_total counter\n"
                                          "a_total{pool=\"ab\",status=\"c\"} 5\n"
                                          "a_total{pool=\"a\",status=\"bc\"} 0\n");
}

static void write__escapes_label_values_and_help(void **state)
{
    static const char *const names[] = {"tier"};
    struct fixture *fixture = *state;
    struct metrics_family *family = metrics_family(fixture->metrics, METRICS_GAUGE, "g",
                                                   "A \"back\\slash\"\nand a line.", names, 1, NULL, 0);

    metrics_set(metrics_series(family, (const char *const[]){"q\" b\\ n\n."}), 1.5);
    assert_string_equal(written(fixture), "# HELP g A \"back\\\\slash\"\\nand a line.\n# TYPE g gauge\n"
                                          "g{tier=\"q\\\" b\\\\ n\\n.\"} 1.5\n");
}

static void histogram__is_cumulative_and_ends_with_infinity(void **state)
{
    static const double bounds[] = {0.005, 0.1, 2.5};
    struct fixture *fixture = *state;
    struct metrics_family *family =
        metrics_family(fixture->metrics, METRICS_HISTOGRAM, "d_seconds", "D.", NULL, 0, bounds, 3);
    struct metrics_series *series = metrics_series(family, NULL);

    metrics_observe(series, 0.005); /* a bound belongs to its own bucket */
    metrics_observe(series, 0.05);
    metrics_observe(series, 0.06);
    metrics_observe(series, 9);
    assert_string_equal(written(fixture), "# HELP d_seconds D.\n# TYPE d_seconds histogram\n"
                                          "d_seconds_bucket{le=\"0.005\"} 1\n"
                                          "d_seconds_bucket{le=\"0.1\"} 3\n"
                                          "d_seconds_bucket{le=\"2.5\"} 3\n"
                                          "d_seconds_bucket{le=\"+Inf\"} 4\n"
                                          "d_seconds_sum 9.115\n"
                                          "d_seconds_count 4\n");
}

static void series__beyond_the_limit_share_one(void **state)
{
    static const char *const names[] = {"x"};
    struct fixture *fixture = *state;
    struct metrics_family *family =
        metrics_family(fixture->metrics, METRICS_COUNTER, "many_total", "M.", names, 1, NULL, 0);
    char value[32];

    for (int i = 0; i < METRICS_SERIES_MAX + 10; i++) {
        snprintf(value, sizeof(value), "v%d", i);
        metrics_add(metrics_series(family, (const char *const[]){value}), 1);
    }
    assert_non_null(strstr(written(fixture), "many_total{x=\"v2047\"} 1\n"));
    assert_null(strstr(written(fixture), "many_total{x=\"v2048\"}"));
    assert_non_null(strstr(written(fixture), "many_total{x=\"other\"} 10\n"));
    /* The ones that were there before are still found. */
    metrics_add(metrics_series(family, (const char *const[]){"v7"}), 1);
    assert_non_null(strstr(written(fixture), "many_total{x=\"v7\"} 2\n"));
}

static void series__too_long_to_keep_goes_to_other(void **state)
{
    static const char *const names[] = {"x"};
    struct fixture *fixture = *state;
    struct metrics_family *family =
        metrics_family(fixture->metrics, METRICS_COUNTER, "long_total", "L.", names, 1, NULL, 0);
    char value[5000];

    memset(value, 'a', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    metrics_add(metrics_series(family, (const char *const[]){value}), 1);
    assert_non_null(strstr(written(fixture), "long_total{x=\"other\"} 1\n"));
}

static void clear__hides_gauges_until_they_are_set_again(void **state)
{
    static const char *const names[] = {"tier"};
    struct fixture *fixture = *state;
    struct metrics_family *family =
        metrics_family(fixture->metrics, METRICS_GAUGE, "pods", "P.", names, 1, NULL, 0);
    struct metrics_series *gold = metrics_series(family, (const char *const[]){"gold"});
    struct metrics_series *basic = metrics_series(family, (const char *const[]){"basic"});

    metrics_set(gold, 1);
    metrics_set(basic, 2);
    metrics_family_clear(family);
    metrics_set(basic, 3);
    assert_string_equal(written(fixture), "# HELP pods P.\n# TYPE pods gauge\npods{tier=\"basic\"} 3\n");
}

static void family__of_the_same_name_is_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct metrics_family *one =
        metrics_family(fixture->metrics, METRICS_COUNTER, "x_total", "X.", NULL, 0, NULL, 0);
    struct metrics_family *two =
        metrics_family(fixture->metrics, METRICS_COUNTER, "x_total", "X.", NULL, 0, NULL, 0);

    assert_ptr_equal(one, two);
}

static double value_of(const char *text, const char *name)
{
    char needle[128];
    const char *at;

    snprintf(needle, sizeof(needle), "\n%s ", name);
    at = strstr(text, needle);
    assert_non_null(at);
    return strtod(at + strlen(needle), NULL);
}

static void process__tells_what_the_kernel_knows(void **state)
{
    struct fixture *fixture = *state;
    struct metrics_process *process;
    const char *text;

    assert_int_equal(metrics_process_new(fixture->metrics, &process), 0);
    metrics_process_update(process);
    text = written(fixture);
    assert_true(value_of(text, "process_resident_memory_bytes") > 100e3);
    assert_true(value_of(text, "process_virtual_memory_bytes") >=
                value_of(text, "process_resident_memory_bytes"));
    assert_true(value_of(text, "process_cpu_seconds_total") >= 0);
    assert_true(value_of(text, "process_open_fds") >= 3);
    assert_true(value_of(text, "process_max_fds") >= value_of(text, "process_open_fds"));
    assert_true(value_of(text, "process_start_time_seconds") > 1.6e9);
    assert_non_null(strstr(text, "smart_router_build_info{version=\"" SMART_ROUTER_VERSION "\"} 1\n"));
    metrics_process_free(process);
}

/* Three families: one with many series, one without any, one without labels. */
static void fill(struct metrics *metrics)
{
    static const char *const labels[] = {"tier"};
    static const double bounds[] = {1, 2};
    struct metrics_family *many = metrics_family(metrics, METRICS_GAUGE, "many", "Many.", labels, 1, NULL, 0);
    struct metrics_family *none =
        metrics_family(metrics, METRICS_HISTOGRAM, "none", "None.", labels, 1, bounds, ARRAY_LEN(bounds));
    struct metrics_family *one = metrics_family(metrics, METRICS_COUNTER, "one", "One.", NULL, 0, NULL, 0);

    assert_non_null(none);
    metrics_add(metrics_series(one, NULL), 1);
    for (int i = 0; i < 500; i++) {
        char name[16];
        const char *value = name;

        snprintf(name, sizeof(name), "tier-%d", i);
        metrics_set(metrics_series(many, &value), i);
    }
}

static void write_some__in_parts_of_any_size_is_the_whole(void **state)
{
    static const size_t sizes[] = {1, 7, 100, 4096, SIZE_MAX};
    struct fixture *fixture = *state;

    fill(fixture->metrics);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct metrics_cursor cursor = {0};
        struct strbuf parts;
        size_t turns = 1;

        strbuf_init(&parts, NULL, 1024 * 1024);
        while (!metrics_write_some(fixture->metrics, &cursor, &parts, sizes[i])) {
            turns++;
            assert_true(turns < 1000);
        }
        assert_string_equal(parts.data, written(fixture));
        assert_true(sizes[i] == SIZE_MAX ? turns == 1 : turns >= parts.len / (sizes[i] + 64));
        strbuf_release(&parts);
    }
}

static void reference__names_every_family_and_label(void **state)
{
    static const char *const unheard[] = {"unheard_of"};
    struct fixture *fixture = *state;
    const char *label = NULL;

    fill(fixture->metrics);
    assert_true(metrics_write_reference(fixture->metrics, &fixture->text, &label));
    assert_non_null(strstr(fixture->text.data, "- **`many`** (gauge): Many. Labels: `tier`.\n"));
    assert_non_null(
        strstr(fixture->text.data, "- **`none`** (histogram from 1 to 2): None. Labels: `tier`.\n"));
    assert_non_null(strstr(fixture->text.data, "- **`one`** (counter): One.\n"));
    assert_non_null(metrics_family(fixture->metrics, METRICS_GAUGE, "zero", "Zero.", unheard, 1, NULL, 0));
    assert_false(metrics_write_reference(fixture->metrics, &fixture->text, &label));
    assert_string_equal(label, "unheard_of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counter__without_labels_starts_at_zero_and_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(series__is_found_again_by_its_label_values, setup, teardown),
        cmocka_unit_test_setup_teardown(write__escapes_label_values_and_help, setup, teardown),
        cmocka_unit_test_setup_teardown(histogram__is_cumulative_and_ends_with_infinity, setup, teardown),
        cmocka_unit_test_setup_teardown(series__beyond_the_limit_share_one, setup, teardown),
        cmocka_unit_test_setup_teardown(series__too_long_to_keep_goes_to_other, setup, teardown),
        cmocka_unit_test_setup_teardown(clear__hides_gauges_until_they_are_set_again, setup, teardown),
        cmocka_unit_test_setup_teardown(family__of_the_same_name_is_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(write_some__in_parts_of_any_size_is_the_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(reference__names_every_family_and_label, setup, teardown),
        cmocka_unit_test_setup_teardown(process__tells_what_the_kernel_knows, setup, teardown),
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
