/*
 * reference.c - docs/METRICS.md: every family of the registry, its type, its labels and their
 * meaning.
 */
#include "base/wrap.h"
#include "metrics/metrics_internal.h"

enum {
    REFERENCE_PARAGRAPH_MAX = 16 * 1024,
    REFERENCE_VALUES_MAX = 32, /* of one label; a label with more is described by its meaning alone */
};

static const struct {
    const char *name;
    const char *meaning;
} labels[] = {
    {"code", "the code of a close frame; `1006`: there was none, `3xxx` and `4xxx`: those of applications."},
    {"credential", "which key, token or signature was missing or wrong."},
    {"direction", "to the pod or to the client."},
    {"endpoint", "the pattern of the route, such as `/api/v1/call/{sid}`; `other` if there is none."},
    {"kind", "what the lines are about."},
    {"listener", "`http` is HTTP_PORT, `metrics` is METRICS_PORT."},
    {"method", "the method of the request; `other` for all that no handler answered."},
    {"operation", "the command of the store, such as `allocate`."},
    {"outcome", "how it ended."},
    {"pool",
     "the source pool as calls show it: `pool:gold`, `merchant:9shines`; `none` where there is none, `other` "
     "beyond 512 pools. `tier` names the same pool as all other metrics do."},
    {"provider", "the telephony provider."},
    {"reason", "why it happened, from the list of the metric."},
    {"result", "the answer, or how it ended, from the list of the metric."},
    {"role", "the role of the key."},
    {"side", "the client's or the pod's."},
    {"status", "how it ended. Of HTTP: the status; durations share `4xx`, `held` (long polls and streams) "
               "and `other`."},
    {"task", "the background task of the leader."},
    {"tier",
     "the name of a pool, as in the configuration of tiers: `gold`, `merchant:9shines`. Metrics of pools can "
     "be joined on it. `none` and `other` as in `pool`; `all` is the sum of `smart_router_desired_pods`."},
    {"version", "the version of the router."},
};

static const char reference_intro[] =
    "Every router shows its metrics at `GET /metrics`, on METRICS_PORT and on HTTP_PORT, in the text format "
    "of Prometheus. `smart-router metrics` prints this list. [OPERATIONS.md](OPERATIONS.md) has the alarms, "
    "and `deploy/monitoring` the rules and a dashboard.";

static const char reference_rules[] =
    "Gauges of pools and calls come from the store, when they are asked for: every router that shares a "
    "store "
    "shows the same values, so use `max` over routers, not `sum`. They are missing, not 0, while the store "
    "does not answer. Counters belong to one router: use `sum`. Times are seconds since 1970: of several "
    "routers the newest one is right, so use `max`. Metrics of the leader's work are missing on routers "
    "that never led, those of TLS without TLS_CERT_FILE, those of the watch without Kubernetes.";

static const char reference_bounds[] =
    "No label grows with the number of calls or with what a client sends. A metric has at most 2,048 series "
    "with labels; more share one whose labels are all `other`.";

static const char *label_meaning(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        if (strcmp(labels[i].name, name) == 0)
            return labels[i].meaning;
    return NULL;
}

static const char *series_value(const struct metrics_series *series, size_t label)
{
    const char *value = series->key;

    while (label-- > 0)
        value += strlen(value) + 1;
    return value;
}

/* Adds the value of one series, unless it is there; false: there is no room. */
static bool value_add(const struct metrics_series *series, size_t label,
                      const char *values[REFERENCE_VALUES_MAX], size_t *count)
{
    const char *value = series_value(series, label);

    for (size_t i = 0; i < *count; i++)
        if (strcmp(values[i], value) == 0)
            return true;
    if (*count == REFERENCE_VALUES_MAX)
        return false;
    values[(*count)++] = value;
    return true;
}

/* The values that the label has from the start on, each once; 0: none, or too many to be listed. */
static size_t label_values(const struct metrics_family *family, size_t label,
                           const char *ret_values[REFERENCE_VALUES_MAX])
{
    size_t count = 0;

    LIST_FOR_EACH (link, &family->series) {
        if (!value_add(LIST_ENTRY(link, struct metrics_series, link), label, ret_values, &count))
            return 0;
    }
    if (family->overflow->is_present && !value_add(family->overflow, label, ret_values, &count))
        return 0;
    return count;
}

static void write_labels(struct strbuf *text, const struct metrics_family *family)
{
    strbuf_append_str(text, " Labels: ");
    for (size_t i = 0; i < family->label_count; i++) {
        const char *values[REFERENCE_VALUES_MAX];
        /* The version is another one after each release; pools and tiers have only their special values. */
        bool is_open = strcmp(family->label_names[i], "version") == 0 ||
                       strcmp(family->label_names[i], "pool") == 0 ||
                       strcmp(family->label_names[i], "tier") == 0;
        size_t count = is_open ? 0 : label_values(family, i, values);

        strbuf_printf(text, "%s`%s`", i > 0 ? ", " : "", family->label_names[i]);
        for (size_t j = 0; j < count; j++)
            strbuf_printf(text, "%s`%s`", j == 0 ? " (" : ", ", values[j]);
        if (count > 0)
            strbuf_append_char(text, ')');
    }
    strbuf_append_char(text, '.');
}

static void write_family(struct strbuf *buf, const struct metrics_family *family)
{
    struct strbuf text;

    strbuf_init(&text, NULL, REFERENCE_PARAGRAPH_MAX);
    strbuf_printf(&text, "- **`%s`** (%s", family->name, metrics_type_name(family->type));
    if (family->bound_count > 0) {
        strbuf_append_str(&text, " from ");
        metrics_write_number(&text, family->bounds[0]);
        strbuf_append_str(&text, " to ");
        metrics_write_number(&text, family->bounds[family->bound_count - 1]);
    }
    strbuf_printf(&text, "): %s", family->help);
    if (family->label_count > 0)
        write_labels(&text, family);
    if (strbuf_failed(&text))
        buf->failed = true;
    else
        wrap_append(buf, text.data, "  ");
    strbuf_release(&text);
}

/* The family whose name is next after `name`; NULL: that was the last one. */
static const struct metrics_family *family_after(const struct metrics *metrics, const char *name)
{
    const struct metrics_family *next = NULL;

    LIST_FOR_EACH (link, &metrics->families) {
        const struct metrics_family *family = LIST_ENTRY(link, struct metrics_family, link);

        if (strcmp(family->name, name) > 0 && (!next || strcmp(family->name, next->name) < 0))
            next = family;
    }
    return next;
}

static void write_label_meanings(struct strbuf *buf)
{
    strbuf_append_str(buf, "\n## Labels\n\n");
    for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
        struct strbuf text;

        strbuf_init(&text, NULL, REFERENCE_PARAGRAPH_MAX);
        strbuf_printf(&text, "- **`%s`**: %s", labels[i].name, labels[i].meaning);
        if (strbuf_failed(&text))
            buf->failed = true;
        else
            wrap_append(buf, text.data, "  ");
        strbuf_release(&text);
    }
}

bool metrics_write_reference(const struct metrics *metrics, struct strbuf *buf, const char **ret_label)
{
    strbuf_append_str(buf, "# Metrics\n"
                           "\n"
                           "<!-- Made by `smart-router metrics --markdown`: do not edit. -->\n"
                           "\n");
    wrap_append(buf, reference_intro, "");
    strbuf_append_char(buf, '\n');
    wrap_append(buf, reference_rules, "");
    strbuf_append_char(buf, '\n');
    wrap_append(buf, reference_bounds, "");
    strbuf_append_str(buf, "\n## Families\n\n");
    for (const struct metrics_family *family = family_after(metrics, ""); family;
         family = family_after(metrics, family->name)) {
        for (size_t i = 0; i < family->label_count; i++) {
            if (!label_meaning(family->label_names[i])) {
                *ret_label = family->label_names[i];
                return false;
            }
        }
        write_family(buf, family);
    }
    write_label_meanings(buf);
    return true;
}

void metrics_write_list(const struct metrics *metrics, struct strbuf *buf)
{
    for (const struct metrics_family *family = family_after(metrics, ""); family;
         family = family_after(metrics, family->name)) {
        strbuf_printf(buf, "%s", family->name);
        for (size_t i = 0; i < family->label_count; i++)
            strbuf_printf(buf, "%s%s", i == 0 ? "{" : ",", family->label_names[i]);
        strbuf_printf(buf, "%s %s: %s\n", family->label_count > 0 ? "}" : "", metrics_type_name(family->type),
                      family->help);
    }
}
