/*
 * calls.c - smart-router calls, call, why and release.
 */
#include "cli/commands.h"
#include "cli/text.h"
#include "cli/waiting.h"

enum { LINE_MAX_LEN = 64 * 1024 };

static const struct table_column columns[] = {
    {"CALL", .min = 10},
    {"STATE"},
    {"AGE", .is_right = true},
    {"POD", .min = 10},
    {"POOL", .min = 8, .omitted = 2},
    {"MERCHANT", .min = 8, .omitted = 4},
    {"PROVIDER", .min = 8, .omitted = 1},
    {"RENEWED", .is_right = true, .omitted = 3},
};

static void add_text(struct table *table, const cJSON *call, const char *name)
{
    const char *text = json_get_string(call, name);

    table_add(table, text && text[0] ? text : NULL);
}

static void add_call(struct table *table, const cJSON *call)
{
    const char *state = json_get_string(call, "state");

    table_add(table, json_get_string(call, "call_sid"));
    table_add_coloured(table, view_colour_of_state(state), state);
    table_add_age(table, json_get_string(call, "allocated_at"));
    add_text(table, call, "pod_name");
    add_text(table, call, "source_pool");
    add_text(table, call, "merchant_id");
    add_text(table, call, "provider");
    table_add_age(table, json_get_string(call, "last_renewed_at"));
}

static void add_calls(void *arg, const cJSON *page)
{
    const cJSON *call;

    cJSON_ArrayForEach(call, member(page, "calls"))
    {
        add_call(arg, call);
    }
}

static int show_calls(struct view *view)
{
    const struct cli_options *options = view->options;
    struct table table;
    int status;

    view_path(view, "/api/v1/calls?limit=1000", NULL);
    view_query(view, "pod", options->pod);
    view_query(view, "merchant", options->merchant);
    view_query(view, "state", options->state);
    view_query(view, "older_than", options->older_than);
    table_init(&table, columns, ARRAY_LEN(columns));
    status = view_pages(view, add_calls, &table);
    if (status == EXIT_OK && !view->is_json)
        view_table(view, &table);
    else
        table_release(&table);
    return status;
}

int command_calls(const struct cli_options *options)
{
    return view_run(options, show_calls);
}

/* "3m12s ago", with what follows it. */
static void show_time(struct view *view, const char *name, const char *time, const char *rest)
{
    struct strbuf line;

    strbuf_init(&line, NULL, LINE_MAX_LEN);
    text_append_age_of(&line, time);
    strbuf_printf(&line, "%s%s", time ? " ago" : "", rest);
    view_field(view, name, strbuf_failed(&line) ? NULL : line.data);
    strbuf_release(&line);
}

static void show_text(struct view *view, const char *name, const char *text)
{
    view_field(view, name, text && text[0] ? text : NULL);
}

static void show_renewal(struct view *view, const cJSON *call)
{
    const char *by = json_get_string(call, "renewed_by");
    struct strbuf rest;

    strbuf_init(&rest, NULL, LINE_MAX_LEN);
    strbuf_printf(&rest, ", by the %s", by ? by : "?");
    if (json_get_string(call, "last_renewed_at"))
        show_time(view, "renewed", json_get_string(call, "last_renewed_at"),
                  strbuf_failed(&rest) ? "" : rest.data);
    else
        view_field(view, "renewed", "never");
    strbuf_release(&rest);
}

static void show_carriers(struct view *view, const cJSON *call)
{
    const cJSON *carrier;
    struct strbuf line;

    strbuf_init(&line, NULL, LINE_MAX_LEN);
    cJSON_ArrayForEach(carrier, member(call, "carried_by"))
    {
        strbuf_printf(&line, "%s%s", line.len > 0 ? " " : "",
                      cJSON_IsString(carrier) ? carrier->valuestring : "?");
    }
    view_field(view, "carried by", line.len > 0 && !strbuf_failed(&line) ? line.data : "no router");
    strbuf_release(&line);
}

static void show_one_call(struct view *view, const cJSON *call)
{
    if (waiting_is_state(call)) {
        waiting_show_call(view, call);
        return;
    }
    show_text(view, "call", json_get_string(call, "call_sid"));
    show_text(view, "state", json_get_string(call, "state"));
    show_text(view, "pod", json_get_string(call, "pod_name"));
    show_text(view, "pool", json_get_string(call, "source_pool"));
    show_text(view, "merchant", json_get_string(call, "merchant_id"));
    show_text(view, "provider", json_get_string(call, "provider"));
    show_time(view, "allocated", json_get_string(call, "allocated_at"), "");
    show_renewal(view, call);
    show_text(view, "lease until", json_get_string(call, "expires_at"));
    show_carriers(view, call);
}

static const struct table_column refusal_columns[] = {
    {"POOL", .min = 8},
    {"PODS", .is_right = true},
    {"AVAILABLE", .is_right = true},
    {"BUSY", .is_right = true},
    {"DRAINING", .is_right = true, .omitted = 1},
    {"SUSPENDED", .is_right = true, .omitted = 2},
    {"CONFIGURED", .omitted = 3},
};

/* Why a call got no pod: its chain, with what stood in the way of each pool. */
static void show_refusal(struct view *view, const cJSON *refusal)
{
    const cJSON *pool;
    struct table table;

    show_time(view, "refused", json_get_string(refusal, "at"), ": no pool of its chain had a free pod");
    strbuf_append_char(&view->out, '\n');
    table_init(&table, refusal_columns, ARRAY_LEN(refusal_columns));
    cJSON_ArrayForEach(pool, member(refusal, "chain"))
    {
        table_add(&table, json_get_string(pool, "pool"));
        table_add_u64(&table, member_u64(pool, "pods"));
        table_add_u64(&table, member_u64(pool, "available"));
        table_add_u64(&table, member_u64(pool, "busy"));
        table_add_u64(&table, member_u64(pool, "draining"));
        table_add_u64(&table, member_u64(pool, "suspended"));
        table_add(&table, member_is_true(pool, "is_configured") ? "yes" : "no");
    }
    view_table(view, &table);
}

static int show_call(struct view *view)
{
    cJSON *json;
    int status;

    view_path(view, "/api/v1/call/", view->options->operand);
    status = view_get(view, &json);
    if (view->is_json)
        return status;
    if (status == EXIT_OK)
        show_one_call(view, json);
    else if (cJSON_IsObject(member(json, "refusal")))
        show_refusal(view, member(json, "refusal"));
    return status;
}

int command_call(const struct cli_options *options)
{
    return view_run(options, show_call);
}

static void show_step(struct view *view, const cJSON *step)
{
    struct strbuf age;

    strbuf_init(&age, NULL, LINE_MAX_LEN);
    text_append_age_of(&age, json_get_string(step, "time"));
    for (size_t i = age.len; i < 7; i++)
        strbuf_append_char(&view->out, ' ');
    view_safe(view, strbuf_failed(&age) ? NULL : age.data);
    strbuf_append_str(&view->out, " ago  ");
    view_safe(view, json_get_string(step, "sentence"));
    strbuf_append_char(&view->out, '\n');
    strbuf_release(&age);
}

/* The story of a call, in sentences. */
static int show_story(struct view *view)
{
    const cJSON *step;
    cJSON *json;
    int status;

    view_path(view, "/api/v1/call/", view->options->operand);
    strbuf_append_str(&view->path, "/story");
    status = view_get(view, &json);
    if (status != EXIT_OK || view->is_json)
        return status;
    view_safe(view, json_get_string(json, "summary"));
    strbuf_append_char(&view->out, '\n');
    cJSON_ArrayForEach(step, member(json, "story"))
    {
        show_step(view, step);
    }
    return EXIT_OK;
}

int command_why(const struct cli_options *options)
{
    return view_run(options, show_story);
}

static void show_release(struct view *view, const cJSON *json)
{
    const char *pool = json_get_string(json, "released_to_pool"), *pod = json_get_string(json, "pod_name");

    view_safe(view, view->options->operand);
    if (!pod || !pod[0]) {
        strbuf_append_str(&view->out, ": released; it was waiting for a pod\n");
        return;
    }
    strbuf_append_str(&view->out, ": released; ");
    view_safe(view, pod);
    if (pool && pool[0]) {
        strbuf_append_str(&view->out, " is back in ");
        view_safe(view, pool);
    } else {
        strbuf_append_str(&view->out,
                          member_is_true(json, "was_draining") ? " is draining" : " is not in a pool");
    }
    strbuf_append_char(&view->out, '\n');
}

/* An agent's release must not end a call that has left the agent. An operator's may: it names the pod. */
static int show_kept(struct view *view, const cJSON *json)
{
    const char *pod = json_get_string(json, "pod_name");

    view_safe(view, view->options->operand);
    if (!pod || !pod[0]) {
        strbuf_append_str(&view->out,
                          ": not released: it has lost its pod a moment ago, and waits for another "
                          "one. To end it, try again in a minute\n");
        return EXIT_FAILED;
    }
    strbuf_append_str(&view->out,
                      ": not released: it was moved, cut or resumed a moment ago, and its stream decides. "
                      "To end it: smart-router release ");
    view_safe(view, view->options->operand);
    strbuf_append_str(&view->out, " --pod ");
    view_safe(view, pod);
    strbuf_append_char(&view->out, '\n');
    return EXIT_FAILED;
}

static int release(struct view *view)
{
    struct json_writer writer;
    struct strbuf body;
    cJSON *json;
    int status;

    view_path(view, "/api/v1/release", NULL);
    view_body(view, &body, &writer);
    json_put_string(&writer, "call_sid", view->options->operand);
    if (view->options->pod)
        json_put_string(&writer, "pod_name", view->options->pod);
    json_put_string(&writer, "reason", "smart-router release");
    json_object_end(&writer);
    status = strbuf_failed(&body) ? EXIT_USAGE : view_ask(view, NULL, body.data, &json);
    strbuf_release(&body);
    if (status != EXIT_OK)
        return status;
    if (member_is_true(json, "is_kept"))
        return view->is_json ? EXIT_FAILED : show_kept(view, json);
    if (!view->is_json)
        show_release(view, json);
    return EXIT_OK;
}

int command_release(const struct cli_options *options)
{
    return view_run(options, release);
}
