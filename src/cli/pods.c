/*
 * pods.c - smart-router pods, pod, drain and undrain.
 */
#include "cli/commands.h"
#include "cli/text.h"
#include "cli/view.h"

enum { LINE_MAX_LEN = 1024 * 1024 };

static const struct table_column columns[] = {
    {"POD", .min = 12},
    {"TIER", .min = 8},
    {"STATE"},
    {"CALLS", .is_right = true},
    {"HEARTBEAT", .is_right = true, .omitted = 3},
    {"SOURCE", .omitted = 1},
    {"ADDRESS", .min = 12, .omitted = 2},
};

static void add_pod(struct table *table, const cJSON *pod)
{
    const char *state = json_get_string(pod, "state"), *address = json_get_string(pod, "address");

    table_add(table, json_get_string(pod, "pod_name"));
    table_add(table, json_get_string(pod, "tier"));
    table_add_coloured(table, view_colour_of_state(state), state);
    table_add_u64(table, (uint64_t)cJSON_GetArraySize(member(pod, "calls")));
    table_add_age(table, json_get_string(pod, "last_heartbeat_at"));
    table_add(table, json_get_string(pod, "source"));
    table_add(table, address && address[0] ? address : NULL);
}

static void add_pods(void *arg, const cJSON *page)
{
    const cJSON *pod;

    cJSON_ArrayForEach(pod, member(page, "pods"))
    {
        add_pod(arg, pod);
    }
}

static int show_pods(struct view *view)
{
    struct table table;
    int status;

    view_path(view, "/api/v1/pods?limit=1000", NULL);
    view_query(view, "tier", view->options->tier);
    view_query(view, "state", view->options->state);
    table_init(&table, columns, ARRAY_LEN(columns));
    status = view_pages(view, add_pods, &table);
    if (status == EXIT_OK && !view->is_json)
        view_table(view, &table);
    else
        table_release(&table);
    return status;
}

int command_pods(const struct cli_options *options)
{
    return view_run(options, show_pods);
}

/* "draining for another 9m59s", "draining until it is undrained". */
static void append_state(struct strbuf *buf, const cJSON *pod)
{
    const char *state = json_get_string(pod, "state"), *until = json_get_string(pod, "draining_until");
    uint64_t ms;

    strbuf_append_str(buf, state ? state : "-");
    if (!member_is_true(pod, "is_draining"))
        return;
    if (until && text_read_time(until, &ms))
        strbuf_printf(buf, " until %s", until);
    else if (cJSON_IsNull(member(pod, "draining_until")))
        strbuf_append_str(buf, " until it is undrained");
    if (member_is_true(pod, "is_surplus"))
        strbuf_append_str(buf, ", because autoscaling does not want it");
}

static void show_one_pod(struct view *view, const cJSON *pod)
{
    const char *heartbeat = json_get_string(pod, "last_heartbeat_at"),
               *address = json_get_string(pod, "address");
    const cJSON *call;
    struct strbuf line;

    strbuf_init(&line, NULL, LINE_MAX_LEN);
    view_field(view, "pod", json_get_string(pod, "pod_name"));
    view_field(view, "tier", json_get_string(pod, "tier"));
    append_state(&line, pod);
    view_field(view, "state", strbuf_failed(&line) ? NULL : line.data);
    view_field(view, "ready", member_is_true(pod, "is_ready") ? "yes" : "no");
    view_field(view, "source", json_get_string(pod, "source"));
    view_field(view, "address", address && address[0] ? address : NULL);
    strbuf_reset(&line);
    text_append_age_of(&line, heartbeat);
    strbuf_append_str(&line, heartbeat ? " ago" : "");
    view_field(view, "heartbeat", heartbeat && !strbuf_failed(&line) ? line.data : "never");
    strbuf_reset(&line);
    cJSON_ArrayForEach(call, member(pod, "calls"))
    {
        strbuf_printf(&line, "%s%s", line.len > 0 ? " " : "", cJSON_IsString(call) ? call->valuestring : "?");
    }
    view_field(view, "calls", line.len > 0 && !strbuf_failed(&line) ? line.data : "none");
    strbuf_release(&line);
}

static int show_pod(struct view *view)
{
    cJSON *json;
    int status;

    view_path(view, "/api/v1/pod/", view->options->operand);
    status = view_get(view, &json);
    if (status == EXIT_OK && !view->is_json)
        show_one_pod(view, json);
    return status;
}

int command_pod(const struct cli_options *options)
{
    return view_run(options, show_pod);
}

static void show_drain(struct view *view, const cJSON *json)
{
    const char *until = json_get_string(json, "draining_until");
    uint64_t calls = member_u64(json, "calls_left");

    view_safe(view, json_get_string(json, "pod_name"));
    strbuf_append_str(&view->out, ": draining");
    if (until) {
        strbuf_append_str(&view->out, " until ");
        view_safe(view, until);
    } else if (cJSON_IsNull(member(json, "draining_until"))) {
        strbuf_append_str(&view->out, " until it is undrained");
    }
    strbuf_append_str(&view->out, ", ");
    strbuf_append_u64(&view->out, calls);
    strbuf_append_str(&view->out, calls == 1 ? " call left\n" : " calls left\n");
}

static int drain(struct view *view)
{
    const struct cli_options *options = view->options;
    struct json_writer writer;
    struct strbuf body;
    cJSON *json;
    int status;

    view_path(view, "/api/v1/drain", NULL);
    view_body(view, &body, &writer);
    json_put_string(&writer, "pod_name", options->operand);
    if (options->flags & CLI_TTL)
        json_put_u64(&writer, "ttl_seconds", (options->ttl_ms + 999) / 1000);
    json_object_end(&writer);
    status = strbuf_failed(&body) ? EXIT_USAGE : view_ask(view, NULL, body.data, &json);
    strbuf_release(&body);
    if (status == EXIT_OK && !view->is_json)
        show_drain(view, json);
    return status;
}

int command_drain(const struct cli_options *options)
{
    return view_run(options, drain);
}

static int undrain(struct view *view)
{
    struct json_writer writer;
    struct strbuf body;
    cJSON *json;
    int status;

    view_path(view, "/api/v1/undrain", NULL);
    view_body(view, &body, &writer);
    json_put_string(&writer, "pod_name", view->options->operand);
    json_object_end(&writer);
    status = strbuf_failed(&body) ? EXIT_USAGE : view_ask(view, NULL, body.data, &json);
    strbuf_release(&body);
    if (status == EXIT_OK && !view->is_json) {
        view_safe(view, json_get_string(json, "pod_name"));
        strbuf_append_str(&view->out, ": not draining\n");
    }
    return status;
}

int command_undrain(const struct cli_options *options)
{
    return view_run(options, undrain);
}
