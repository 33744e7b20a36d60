/*
 * status.c - smart-router status and smart-router autoscale: the pools at a glance.
 */
#include "cli/commands.h"
#include "cli/text.h"
#include "cli/view.h"

enum { LINE_MAX_LEN = 8 * 1024 };

static const struct table_column tier_columns[] = {
    {"TIER", .min = 8},
    {"TYPE", .omitted = 1},
    {"PODS", .is_right = true},
    {"TARGET", .is_right = true, .omitted = 3},
    {"AVAILABLE", .is_right = true, .omitted = 6},
    {"BUSY", .is_right = true, .omitted = 5},
    {"DRAINING", .is_right = true, .omitted = 4},
    {"SUSPENDED", .is_right = true, .omitted = 4},
    {"CALLS", .is_right = true},
    {"FREE", .is_right = true},
    {"CAPACITY", .is_right = true, .omitted = 2},
    {"WAITING", .is_right = true}, /* the last one: it is left out where no call can wait */
};

/* `some` is the colour of a number above 0, `none` that of 0. */
static void add_number(struct table *table, const cJSON *tier, const char *name, enum colour some,
                       enum colour none)
{
    uint64_t number = member_u64(tier, name);
    struct strbuf buf;

    strbuf_init(&buf, NULL, LINE_MAX_LEN);
    strbuf_append_u64(&buf, number);
    table_add_coloured(table, number > 0 ? some : none, strbuf_failed(&buf) ? "?" : buf.data);
    strbuf_release(&buf);
}

static void add_tier(struct table *table, const cJSON *tier, bool has_line)
{
    bool has_pods = member_u64(tier, "assigned") > 0;

    table_add_coloured(table, member_is_true(tier, "is_configured") ? COLOUR_NONE : COLOUR_WARNING,
                       tier->string);
    table_add(table, json_get_string(tier, "type"));
    add_number(table, tier, "assigned", COLOUR_NONE, COLOUR_NONE);
    add_number(table, tier, "target", COLOUR_NONE, COLOUR_NONE);
    add_number(table, tier, "available", COLOUR_GOOD, COLOUR_NONE);
    add_number(table, tier, "busy", COLOUR_NONE, COLOUR_NONE);
    add_number(table, tier, "draining", COLOUR_WARNING, COLOUR_NONE);
    add_number(table, tier, "suspended", COLOUR_BAD, COLOUR_NONE);
    add_number(table, tier, "calls", COLOUR_NONE, COLOUR_NONE);
    add_number(table, tier, "free", COLOUR_GOOD, has_pods ? COLOUR_BAD : COLOUR_NONE);
    add_number(table, tier, "capacity", COLOUR_NONE, COLOUR_NONE);
    if (has_line)
        add_number(table, tier, "waiting", COLOUR_WARNING, COLOUR_NONE);
}

static void show_number(struct view *view, const char *name, uint64_t number)
{
    struct strbuf line;

    strbuf_init(&line, NULL, LINE_MAX_LEN);
    strbuf_append_u64(&line, number);
    view_field(view, name, strbuf_failed(&line) ? NULL : line.data);
    strbuf_release(&line);
}

static void show_router(struct view *view, const cJSON *json)
{
    const char *leader = json_get_string(json, "leader"), *status = json_get_string(json, "status");
    bool is_up = status && strcmp(status, "up") == 0;
    struct strbuf age;

    strbuf_init(&age, NULL, LINE_MAX_LEN);
    text_append_age(&age, member_u64(json, "uptime_seconds"));
    view_field(view, "router", json_get_string(json, "identity"));
    view_field(view, "version", json_get_string(json, "version"));
    view_field(view, "up for", strbuf_failed(&age) ? NULL : age.data);
    strbuf_release(&age);
    if (!leader || !leader[0])
        leader = "nobody";
    view_field(view, "leader", member_is_true(json, "is_leader") ? "this router" : leader);
    view_field(view, "store", json_get_string(json, "store"));
    if (!is_up) {
        view_text(view, COLOUR_BAD, "The store does not answer. smart-router doctor says more.\n");
        return;
    }
    show_number(view, "pods", member_u64(json, "pods"));
    show_number(view, "calls", member_u64(json, "active_calls"));
    if (member(json, "waiting"))
        show_number(view, "waiting", member_u64(json, "waiting"));
}

static int show_status(struct view *view)
{
    const cJSON *tier, *tiers;
    struct table table;
    bool has_line;
    cJSON *json;
    int status;

    view_path(view, "/api/v1/status", NULL);
    status = view_get(view, &json);
    if (status != EXIT_OK || view->is_json)
        return status;
    show_router(view, json);
    tiers = member(json, "tiers");
    if (!tiers)
        return EXIT_OK;
    has_line = member(json, "waiting");
    table_init(&table, tier_columns, ARRAY_LEN(tier_columns) - (has_line ? 0 : 1));
    cJSON_ArrayForEach(tier, tiers)
    {
        add_tier(&table, tier, has_line);
    }
    strbuf_append_char(&view->out, '\n');
    view_table(view, &table);
    return EXIT_OK;
}

int command_status(const struct cli_options *options)
{
    return view_run(options, show_status);
}

static const struct table_column autoscale_columns[] = {
    {"TIER", .min = 8},
    {"WANTED PODS", .is_right = true},
    {"CALLS", .is_right = true},
    {"WAITING", .is_right = true, .omitted = 1},
    {"BUFFER", .is_right = true, .omitted = 2},
    {"CALLS PER POD", .is_right = true, .omitted = 3},
};

static int show_autoscale(struct view *view)
{
    const char *tier = view->options->operand;
    struct table table;
    cJSON *json;
    int status;

    view_path(view, tier ? "/api/v1/autoscale/" : "/api/v1/autoscale", tier);
    status = view_get(view, &json);
    if (status != EXIT_OK || view->is_json)
        return status;
    table_init(&table, autoscale_columns, ARRAY_LEN(autoscale_columns));
    table_add(&table, tier ? tier : "all");
    table_add_u64(&table, member_u64(json, "desired_pods"));
    table_add_u64(&table, member_u64(json, "calls"));
    table_add_u64(&table, member_u64(json, "waiting"));
    table_add_u64(&table, member_u64(json, "buffer"));
    if (tier)
        table_add_u64(&table, member_u64(json, "per_pod"));
    else
        table_add(&table, NULL);
    view_table(view, &table);
    return EXIT_OK;
}

int command_autoscale(const struct cli_options *options)
{
    return view_run(options, show_autoscale);
}
