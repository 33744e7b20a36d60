/*
 * metrics.c - families and series of metrics, and the Prometheus text of all of them.
 */
#include "metrics/metrics_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 1024 }; /* all label values of one series together */

int metrics_new(struct metrics **ret_metrics)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));

    assert(ret_metrics);
    if (!metrics)
        return -ENOMEM;
    list_init(&metrics->families);
    *ret_metrics = metrics;
    return 0;
}

static struct metrics_series *series_free(struct metrics_series *series)
{
    if (!series)
        return NULL;
    free(series->counts);
    free(series->key);
    free(series);
    return NULL;
}

static struct metrics_series *series_new(struct metrics_family *family, const char *key, size_t key_len)
{
    struct metrics_series *series = calloc(1, sizeof(*series));

    if (!series)
        return NULL;
    series->family = family;
    list_init(&series->link);
    series->key_len = key_len;
    series->key = malloc(key_len + 1);
    if (family->bound_count > 0)
        series->counts = calloc(family->bound_count, sizeof(*series->counts));
    if (!series->key || (family->bound_count > 0 && !series->counts))
        return series_free(series);
    memcpy(series->key, key, key_len);
    series->key[key_len] = '\0';
    return series;
}

static void family_free(struct metrics_family *family)
{
    LIST_FOR_EACH (link, &family->series) {
        list_remove(link);
        series_free(LIST_ENTRY(link, struct metrics_series, link));
    }
    series_free(family->overflow);
    map_release(&family->by_key);
    list_remove(&family->link);
    free(family);
}

struct metrics *metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return NULL;
    LIST_FOR_EACH (link, &metrics->families)
        family_free(LIST_ENTRY(link, struct metrics_family, link));
    free(metrics);
    return NULL;
}

static struct metrics_family *metrics_find(struct metrics *metrics, const char *name)
{
    LIST_FOR_EACH (link, &metrics->families) {
        struct metrics_family *family = LIST_ENTRY(link, struct metrics_family, link);

        if (strcmp(family->name, name) == 0)
            return family;
    }
    return NULL;
}

/* Joins label values so that different ones never give the same key. False: they are too long. */
static bool key_join(const char *const *values, size_t count, char key[KEY_MAX], size_t *ret_len)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        size_t value_size = strlen(values[i]) + 1;

        if (value_size > KEY_MAX - len)
            return false;
        memcpy(key + len, values[i], value_size);
        len += value_size;
    }
    *ret_len = len;
    return true;
}

struct metrics_family *metrics_family(struct metrics *metrics, enum metrics_type type, const char *name,
                                      const char *help, const char *const *label_names, size_t label_count,
                                      const double *bounds, size_t bound_count)
{
    static const char *const others[METRICS_LABELS_MAX] = {"other", "other", "other"};
    struct metrics_family *family;
    char key[KEY_MAX];
    size_t key_len = 0;

    assert(metrics);
    assert(label_count <= METRICS_LABELS_MAX);
    assert((type == METRICS_HISTOGRAM) == (bound_count > 0));
    for (size_t i = 1; i < bound_count; i++)
        assert(bounds[i - 1] < bounds[i]);

    /* Two modules may count the same thing, each where it happens. */
    family = metrics_find(metrics, name);
    if (family) {
        assert(family->type == type && family->label_count == label_count);
        return family;
    }

    family = calloc(1, sizeof(*family));
    if (!family)
        return NULL;
    family->type = type;
    family->name = name;
    family->help = help;
    family->label_count = label_count;
    for (size_t i = 0; i < label_count; i++)
        family->label_names[i] = label_names[i];
    family->bounds = bounds;
    family->bound_count = bound_count;
    map_init(&family->by_key);
    list_init(&family->series);
    list_init(&family->link);
    if (!key_join(others, label_count, key, &key_len)) /* cannot happen: these are short */
        key_len = 0;
    family->overflow = series_new(family, key, key_len);
    if (!family->overflow) {
        family_free(family);
        return NULL;
    }
    list_append(&metrics->families, &family->link);
    return family;
}

static struct metrics_series *family_overflow(struct metrics_family *family)
{
    family->overflow->is_present = true;
    return family->overflow;
}

struct metrics_family *metrics_store_durations(struct metrics *metrics)
{
    static const double bounds[] = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                    0.005,   0.01,     0.025,   0.05,   0.1,     0.25,   0.5,   1};
    static const char *const labels[] = {"operation"};

    return metrics_family(metrics, METRICS_HISTOGRAM, "smart_router_store_duration_seconds",
                          "Time that the store took to answer.", labels, 1, bounds, ARRAY_LEN(bounds));
}

struct metrics_family *metrics_releases(struct metrics *metrics)
{
    static const char *const labels[] = {"pool", "status", "tier"};

    return metrics_family(metrics, METRICS_COUNTER, "smart_router_releases_total",
                          "Releases asked for, by the pool that the pod came from.", labels, 3, NULL, 0);
}

struct metrics_family *metrics_waits(struct metrics *metrics)
{
    static const double bounds[] = {0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600};
    static const char *const labels[] = {"outcome"};

    return metrics_family(
        metrics, METRICS_HISTOGRAM, "smart_router_wait_seconds",
        "How long calls waited for a pod, by how the wait ended; full: they could not join. Without calls "
        "that were rescued and got another pod.",
        labels, 1, bounds, ARRAY_LEN(bounds));
}

struct metrics_series *metrics_series(struct metrics_family *family, const char *const *label_values)
{
    struct metrics_series *series;
    struct map_node *node;
    char key[KEY_MAX];
    size_t key_len;

    assert(family);
    if (family->label_count == 0)
        return family_overflow(family);
    if (!key_join(label_values, family->label_count, key, &key_len))
        return family_overflow(family);
    if (key_len == family->overflow->key_len && memcmp(key, family->overflow->key, key_len) == 0)
        return family_overflow(family); /* or the same line would be written twice */
    node = map_get(&family->by_key, key, key_len);
    if (node)
        return CONTAINER_OF(node, struct metrics_series, node);

    if (family->series_count >= METRICS_SERIES_MAX || map_reserve(&family->by_key) < 0)
        return family_overflow(family);
    series = series_new(family, key, key_len);
    if (!series)
        return family_overflow(family);
    series->is_present = true;
    map_put(&family->by_key, &series->node, series->key, series->key_len);
    list_append(&family->series, &series->link);
    family->series_count++;
    return series;
}

void metrics_add(struct metrics_series *series, double amount)
{
    series->value += amount;
    series->is_present = true;
}

void metrics_set(struct metrics_series *series, double value)
{
    series->value = value;
    series->is_present = true;
}

void metrics_observe(struct metrics_series *series, double value)
{
    const struct metrics_family *family = series->family;

    for (size_t i = 0; i < family->bound_count; i++) {
        if (value <= family->bounds[i]) {
            series->counts[i]++;
            break;
        }
    }
    series->count++;
    series->value += value;
    series->is_present = true;
}

double metrics_value(const struct metrics_series *series)
{
    return series->value;
}

void metrics_family_clear(struct metrics_family *family)
{
    assert(family->type == METRICS_GAUGE);
    family->overflow->is_present = false;
    LIST_FOR_EACH (link, &family->series)
        LIST_ENTRY(link, struct metrics_series, link)->is_present = false;
}

/* The shortest text that reads back as the same number, or nearly always so: 0.1 and not 0.1000000000000001.
 */
void metrics_write_number(struct strbuf *buf, double value)
{
    char text[40];

    if (isnan(value)) {
        strbuf_append_str(buf, "NaN");
    } else if (isinf(value)) {
        strbuf_append_str(buf, value > 0 ? "+Inf" : "-Inf");
    } else if (fabs(value) < 9007199254740992.0 && trunc(value) == value) {
        strbuf_append_i64(buf, (int64_t)value);
    } else {
        snprintf(text, sizeof(text), "%.15g", value);
        if (strtod(text, NULL) != value)
            snprintf(text, sizeof(text), "%.17g", value);
        strbuf_append_str(buf, text);
    }
}

static void write_escaped(struct strbuf *buf, const char *text, bool escape_quotes)
{
    for (; *text; text++) {
        if (*text == '\\')
            strbuf_append_str(buf, "\\\\");
        else if (*text == '\n')
            strbuf_append_str(buf, "\\n");
        else if (*text == '"' && escape_quotes)
            strbuf_append_str(buf, "\\\"");
        else
            strbuf_append_char(buf, *text);
    }
}

/* One line up to the value: name, suffix, labels; `bound` is the le label of a bucket, or NULL. */
static void write_name(struct strbuf *buf, const struct metrics_series *series, const char *suffix,
                       const double *bound)
{
    const struct metrics_family *family = series->family;
    const char *value = series->key;

    strbuf_append_str(buf, family->name);
    strbuf_append_str(buf, suffix);
    if (family->label_count > 0 || bound) {
        char separator = '{';

        for (size_t i = 0; i < family->label_count; i++) {
            strbuf_append_char(buf, separator);
            strbuf_append_str(buf, family->label_names[i]);
            strbuf_append_str(buf, "=\"");
            write_escaped(buf, value, true);
            strbuf_append_char(buf, '"');
            value += strlen(value) + 1;
            separator = ',';
        }
        if (bound) {
            strbuf_append_char(buf, separator);
            strbuf_append_str(buf, "le=\"");
            metrics_write_number(buf, *bound);
            strbuf_append_char(buf, '"');
        }
        strbuf_append_char(buf, '}');
    }
    strbuf_append_char(buf, ' ');
}

static void write_histogram(struct strbuf *buf, const struct metrics_series *series)
{
    const struct metrics_family *family = series->family;
    const double infinity = INFINITY;
    uint64_t below = 0;

    for (size_t i = 0; i < family->bound_count; i++) {
        below += series->counts[i];
        write_name(buf, series, "_bucket", &family->bounds[i]);
        strbuf_append_u64(buf, below);
        strbuf_append_char(buf, '\n');
    }
    write_name(buf, series, "_bucket", &infinity);
    strbuf_append_u64(buf, series->count);
    strbuf_append_char(buf, '\n');
    write_name(buf, series, "_sum", NULL);
    metrics_write_number(buf, series->value);
    strbuf_append_char(buf, '\n');
    write_name(buf, series, "_count", NULL);
    strbuf_append_u64(buf, series->count);
    strbuf_append_char(buf, '\n');
}

static void write_series(struct strbuf *buf, const struct metrics_series *series)
{
    if (!series->is_present)
        return;
    if (series->family->type == METRICS_HISTOGRAM) {
        write_histogram(buf, series);
        return;
    }
    write_name(buf, series, "", NULL);
    metrics_write_number(buf, series->value);
    strbuf_append_char(buf, '\n');
}

const char *metrics_type_name(enum metrics_type type)
{
    static const char *const names[] = {"counter", "gauge", "histogram"};

    return names[type];
}

static void write_head(struct strbuf *buf, const struct metrics_family *family)
{
    strbuf_printf(buf, "# HELP %s ", family->name);
    write_escaped(buf, family->help, false);
    strbuf_printf(buf, "\n# TYPE %s %s\n", family->name, metrics_type_name(family->type));
}

bool metrics_write_some(const struct metrics *metrics, struct metrics_cursor *cursor, struct strbuf *buf,
                        size_t bytes)
{
    size_t until = bytes < SIZE_MAX - buf->len ? buf->len + bytes : SIZE_MAX;

    if (!cursor->family)
        cursor->family = metrics->families.next;
    while (cursor->family != &metrics->families) {
        const struct metrics_family *family = LIST_ENTRY(cursor->family, struct metrics_family, link);

        if (!cursor->series) {
            write_head(buf, family);
            cursor->series = family->series.next;
        }
        while (cursor->series != &family->series) {
            if (buf->len >= until)
                return false;
            write_series(buf, LIST_ENTRY(cursor->series, struct metrics_series, link));
            cursor->series = cursor->series->next;
        }
        write_series(buf, family->overflow);
        cursor->series = NULL;
        cursor->family = cursor->family->next;
    }
    return true;
}

void metrics_write(const struct metrics *metrics, struct strbuf *buf)
{
    struct metrics_cursor cursor = {0};
    bool is_done = metrics_write_some(metrics, &cursor, buf, SIZE_MAX);

    assert(is_done);
}
