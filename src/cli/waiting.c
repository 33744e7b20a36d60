/*
 * waiting.c - smart-router waiting: the line, the first call first; and one call that waits, for
 * smart-router call.
 */
#include "cli/waiting.h"

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/text.h"

enum { LINE_MAX_LEN = 64 * 1024 };

static const struct table_column columns[] = {
    {"POSITION", .is_right = true},
    {"CALL", .min = 10},
    {"WAITED", .is_right = true},
    {"LEFT", .is_right = true, .omitted = 5},
    {"MERCHANT", .min = 8, .omitted = 4},
    {"PRIORITY", .is_right = true, .omitted = 2},
    {"PROVIDER", .min = 8, .omitted = 1},
    {"RESCUED", .omitted = 3},
    {"POOLS", .min = 8},
};

/* "pool:gold pool:basic": in the order of the call's chain. */
static void append_pools(struct strbuf *buf, const cJSON *call)
{
    const cJSON *pool;

    cJSON_ArrayForEach(pool, member(call, "pools"))
    {
        strbuf_printf(buf, "%s%s", buf->len > 0 ? " " : "", cJSON_IsString(pool) ? pool->valuestring : "?");
    }
}

/* How much of its time a call still has, by the clock of this machine. */
static void append_left(struct strbuf *buf, const cJSON *call)
{
    uint64_t until_ms, now_ms = clock_wall_ms();

    if (text_read_time(json_get_string(call, "until"), &until_ms))
        text_append_age(buf, until_ms > now_ms ? (until_ms - now_ms) / 1000 : 0);
}

static void append_waited(struct strbuf *buf, const cJSON *call)
{
    text_append_age(buf, member_u64(call, "waited_seconds"));
}

static void add_written(struct table *table, const cJSON *call,
                        void (*append)(struct strbuf *buf, const cJSON *call))
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, LINE_MAX_LEN);
    append(&buf, call);
    table_add(table, buf.len > 0 && !strbuf_failed(&buf) ? buf.data : NULL);
    strbuf_release(&buf);
}

static void add_text(struct table *table, const cJSON *call, const char *name)
{
    const char *text = json_get_string(call, name);

    table_add(table, text && text[0] ? text : NULL);
}

static void add_waiting_calls(void *arg, const cJSON *page)
{
    struct table *table = arg;
    const cJSON *call;

    cJSON_ArrayForEach(call, member(page, "waiting"))
    {
        table_add_u64(table, member_u64(call, "position"));
        add_text(table, call, "call_sid");
        add_written(table, call, append_waited);
        add_written(table, call, append_left);
        add_text(table, call, "merchant_id");
        table_add_u64(table, member_u64(call, "priority"));
        add_text(table, call, "provider");
        if (member_is_true(call, "rescued"))
            table_add_coloured(table, COLOUR_WARNING, "yes");
        else
            table_add(table, "no");
        add_written(table, call, append_pools);
    }
}

static int show_waiting(struct view *view)
{
    struct table table;
    int status;

    view_path(view, "/api/v1/waiting?limit=1000", NULL);
    table_init(&table, columns, ARRAY_LEN(columns));
    status = view_pages(view, add_waiting_calls, &table);
    if (status == EXIT_OK && !view->is_json)
        view_table(view, &table);
    else
        table_release(&table);
    return status;
}

int command_waiting(const struct cli_options *options)
{
    return view_run(options, show_waiting);
}

bool waiting_is_state(const cJSON *call)
{
    const char *state = json_get_string(call, "state");

    return state && strcmp(state, "waiting") == 0;
}

/* "12s of 2m00s": the second part only if its end is known. */
static void show_times(struct view *view, const cJSON *call)
{
    struct strbuf line;

    strbuf_init(&line, NULL, LINE_MAX_LEN);
    append_waited(&line, call);
    if (json_get_string(call, "until")) {
        strbuf_append_str(&line, ", at most ");
        append_left(&line, call);
        strbuf_append_str(&line, " more");
    }
    view_field(view, "waited", strbuf_failed(&line) ? NULL : line.data);
    strbuf_release(&line);
}

static void show_number(struct view *view, const char *name, uint64_t number)
{
    struct strbuf line;

    strbuf_init(&line, NULL, LINE_MAX_LEN);
    strbuf_append_u64(&line, number);
    view_field(view, name, strbuf_failed(&line) ? NULL : line.data);
    strbuf_release(&line);
}

static void show_estimate(struct view *view, const cJSON *call)
{
    struct strbuf line;

    if (!cJSON_IsNumber(member(call, "estimated_wait_seconds")))
        return;
    strbuf_init(&line, NULL, LINE_MAX_LEN);
    strbuf_append_str(&line, "in about ");
    text_append_age(&line, member_u64(call, "estimated_wait_seconds"));
    view_field(view, "its turn", strbuf_failed(&line) ? NULL : line.data);
    strbuf_release(&line);
}

void waiting_show_call(struct view *view, const cJSON *call)
{
    const char *merchant = json_get_string(call, "merchant_id"),
               *provider = json_get_string(call, "provider");
    struct strbuf line;

    view_field(view, "call", json_get_string(call, "call_sid"));
    view_field(view, "state",
               member_is_true(call, "rescued") ? "waiting, because its pod broke" : "waiting for a pod");
    show_number(view, "position", member_u64(call, "position"));
    show_times(view, call);
    show_estimate(view, call);
    view_field(view, "merchant", merchant && merchant[0] ? merchant : NULL);
    show_number(view, "priority", member_u64(call, "priority"));
    view_field(view, "provider", provider && provider[0] ? provider : NULL);
    strbuf_init(&line, NULL, LINE_MAX_LEN);
    append_pools(&line, call);
    view_field(view, "pools", line.len > 0 && !strbuf_failed(&line) ? line.data : NULL);
    strbuf_release(&line);
}
