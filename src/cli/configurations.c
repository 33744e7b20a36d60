/*
 * configurations.c - smart-router merchant … and tiers …: shows configurations, changes them, and goes back.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/quantity.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "cli/view.h"

enum {
    FILE_MAX = 1024 * 1024, /* the router takes 64 KiB, and says so */
    VALUE_MAX = 1024 * 1024,
    SHOWN_MAX = 200, /* characters of a text that nobody can read */
};

/* ---- one value after the other ---- */

static void show_value(struct view *view, const char *mark, enum colour colour, const char *name,
                       const cJSON *value)
{
    struct strbuf json, line;

    strbuf_init(&json, NULL, VALUE_MAX);
    strbuf_init(&line, NULL, 4 * VALUE_MAX);
    text_append_value(&json, value);
    strbuf_append_str(&line, mark);
    text_append_safe(&line, slice_of(name));
    strbuf_append_str(&line, ": ");
    text_append_safe(&line, strbuf_slice(&json));
    terminal_append(&view->terminal, &view->out, colour, strbuf_slice(&line));
    strbuf_append_char(&view->out, '\n');
    if (strbuf_failed(&json) || strbuf_failed(&line))
        view->out.failed = true;
    strbuf_release(&json);
    strbuf_release(&line);
}

/* Members of `old` and `new`: those that stay with a blank before them, the others with - and +. */
static void show_members(struct view *view, const cJSON *old, const cJSON *new)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, old)
    {
        const cJSON *other = member(new, item->string);
        bool is_same = other && cJSON_Compare(item, other, true);

        show_value(view, is_same ? "  " : "- ", is_same ? COLOUR_NONE : COLOUR_BAD, item->string, item);
        if (other && !is_same)
            show_value(view, "+ ", COLOUR_GOOD, item->string, other);
    }
    cJSON_ArrayForEach(item, new)
    {
        if (!member(old, item->string))
            show_value(view, "+ ", COLOUR_GOOD, item->string, item);
    }
}

/* Tiers have one line each, and so have the members of a merchant. */
static void show_difference(struct view *view, const cJSON *old, const cJSON *new)
{
    const cJSON *of_old = member(old, "tiers"), *of_new = member(new, "tiers");
    const cJSON *chain_old = member(old, "default_chain"), *chain_new = member(new, "default_chain");

    if (!of_old && !of_new) {
        show_members(view, old, new);
        return;
    }
    show_members(view, of_old, of_new);
    if (chain_old && chain_new && cJSON_Compare(chain_old, chain_new, true)) {
        show_value(view, "  ", COLOUR_NONE, "default_chain", chain_new);
        return;
    }
    if (chain_old)
        show_value(view, "- ", COLOUR_BAD, "default_chain", chain_old);
    if (chain_new)
        show_value(view, "+ ", COLOUR_GOOD, "default_chain", chain_new);
}

static void show_change(struct view *view, const char *what, const cJSON *json)
{
    bool is_trial = member_is_true(json, "dry_run"), is_changed = member_is_true(json, "changed");
    const cJSON *warning;

    view_safe(view, what);
    if (!is_changed)
        strbuf_append_str(&view->out,
                          is_trial ? ": nothing would change: version " : ": nothing changed: version ");
    else
        strbuf_append_str(&view->out,
                          is_trial ? ": not changed (--dry-run); it would be version " : ": version ");
    strbuf_append_u64(&view->out, member_u64(json, "version"));
    strbuf_append_char(&view->out, '\n');
    show_difference(view, member(json, "old"), member(json, "new"));
    if (cJSON_IsNull(member(json, "new")))
        strbuf_append_str(&view->out, is_trial ? "it would be removed\n" : "it is removed\n");
    cJSON_ArrayForEach(warning, member(json, "warnings"))
    {
        view_text(view, COLOUR_WARNING, "warning: ");
        view_safe(view, cJSON_GetStringValue(warning));
        strbuf_append_char(&view->out, '\n');
    }
}

/* Shows what is stored at view->path. Another program may have stored what is no object. */
static int show_stored(struct view *view)
{
    cJSON *json;
    int status;

    view->takes_any = true;
    status = view_get(view, &json);
    if (status != EXIT_OK || (view->is_json && json))
        return status;
    if (!cJSON_IsObject(json)) {
        struct slice text = client_body(view->client);

        cli_say("what is stored is no JSON object: %.*s", (int)min_u64(text.len, SHOWN_MAX), text.data);
        return EXIT_FAILED;
    }
    show_difference(view, json, json);
    return EXIT_OK;
}

/* Sends a change to view->path, and shows it. */
static int change(struct view *view, const char *what, const char *method, const char *body)
{
    cJSON *json;
    int status;

    if (view->options->flags & CLI_DRY_RUN)
        view_query(view, "dry_run", "true");
    status = view_ask(view, method, body, &json);
    if (status == EXIT_OK && !view->is_json)
        show_change(view, what, json);
    return status;
}

/* ---- set: from a file or from standard input ---- */

static int read_all(int fd, struct strbuf *buf)
{
    char piece[64 * 1024];
    ssize_t len;

    while ((len = read(fd, piece, sizeof(piece))) != 0) {
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return -errno;
        strbuf_append(buf, piece, (size_t)len);
        if (strbuf_failed(buf))
            return -EFBIG;
    }
    return 0;
}

static int read_file(const char *name, struct strbuf *buf)
{
    bool is_input = strcmp(name, "-") == 0;
    int fd = is_input ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    int err = fd < 0 ? -errno : read_all(fd, buf);

    if (fd >= 0 && !is_input)
        close(fd);
    if (err < 0) {
        cli_say("%s cannot be read: %s", is_input ? "standard input" : name, strerror(-err));
        return EXIT_USAGE;
    }
    if (!json_is_valid(strbuf_slice(buf))) {
        size_t line, column;

        json_find_fault(strbuf_slice(buf), &line, &column);
        cli_say("%s is no valid JSON: line %zu, column %zu", is_input ? "standard input" : name, line,
                column);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int set(struct view *view, const char *what, const char *file)
{
    struct strbuf body;
    int status;

    strbuf_init(&body, NULL, FILE_MAX);
    status = read_file(file, &body);
    if (status == EXIT_OK)
        status = change(view, what, "PUT", body.data);
    strbuf_release(&body);
    return status;
}

/* ---- history and rollback ---- */

static const struct table_column history_columns[] = {
    {"VERSION", .is_right = true},
    {"AGE", .is_right = true},
    {"KEY", .min = 6, .omitted = 1},
    {"VALUE", .min = 20},
};

static int show_history(struct view *view)
{
    const cJSON *version;
    struct table table;
    cJSON *json;
    int status = view_get(view, &json);

    if (status != EXIT_OK || view->is_json)
        return status;
    table_init(&table, history_columns, ARRAY_LEN(history_columns));
    cJSON_ArrayForEach(version, member(json, "versions"))
    {
        struct strbuf value;

        strbuf_init(&value, NULL, VALUE_MAX);
        text_append_value(&value, member(version, "value"));
        table_add_u64(&table, member_u64(version, "version"));
        table_add_age(&table, json_get_string(version, "at"));
        table_add(&table, json_get_string(version, "key"));
        table_add(&table, cJSON_IsNull(member(version, "value")) ? "removed"
                          : strbuf_failed(&value)                ? NULL
                                                                 : value.data);
        strbuf_release(&value);
    }
    view_table(view, &table);
    return EXIT_OK;
}

static int rollback(struct view *view, const char *what, const char *version)
{
    struct json_writer writer;
    struct strbuf body;
    const char *rest = version;
    uint64_t number = 0;
    int status;

    if (version && (!quantity_digits(&rest, &number) || *rest || number == 0)) {
        cli_say("not a version from the history: %s", version);
        return EXIT_USAGE;
    }
    view_body(view, &body, &writer);
    if (version)
        json_put_u64(&writer, "version", number);
    json_object_end(&writer);
    status = strbuf_failed(&body) ? EXIT_FAILED : change(view, what, NULL, body.data);
    strbuf_release(&body);
    return status;
}

/* ---- merchants ---- */

static const struct table_column merchant_columns[] = {
    {"MERCHANT", .min = 12},
    {"CONFIGURATION", .min = 20},
};

static void add_merchants(void *arg, const cJSON *page)
{
    struct table *table = arg;
    const cJSON *merchant;

    cJSON_ArrayForEach(merchant, member(page, "merchants"))
    {
        struct strbuf value;

        strbuf_init(&value, NULL, VALUE_MAX);
        text_append_value(&value, merchant);
        table_add(table, merchant->string);
        table_add(table, strbuf_failed(&value) ? NULL : value.data);
        strbuf_release(&value);
    }
}

static int show_merchants(struct view *view)
{
    struct table table;
    int status;

    view_path(view, "/api/v1/merchants?limit=1000", NULL);
    table_init(&table, merchant_columns, ARRAY_LEN(merchant_columns));
    status = view_pages(view, add_merchants, &table);
    if (status == EXIT_OK && !view->is_json)
        view_table(view, &table);
    else
        table_release(&table);
    return status;
}

int command_merchant_list(const struct cli_options *options)
{
    return view_run(options, show_merchants);
}

static void merchant_path(struct view *view, const char *rest)
{
    view_path(view, "/api/v1/merchants/", view->options->operand);
    strbuf_append_str(&view->path, rest);
}

static const char *merchant_name(const struct view *view, char *name, size_t size)
{
    snprintf(name, size, "merchant %s", view->options->operand);
    return name;
}

static int show_merchant(struct view *view)
{
    merchant_path(view, "");
    return show_stored(view);
}

int command_merchant_get(const struct cli_options *options)
{
    return view_run(options, show_merchant);
}

static int set_merchant(struct view *view)
{
    char name[256];

    merchant_path(view, "");
    return set(view, merchant_name(view, name, sizeof(name)), view->options->second_operand);
}

int command_merchant_set(const struct cli_options *options)
{
    return view_run(options, set_merchant);
}

static int remove_merchant(struct view *view)
{
    char name[256];

    merchant_path(view, "");
    return change(view, merchant_name(view, name, sizeof(name)), "DELETE", NULL);
}

int command_merchant_rm(const struct cli_options *options)
{
    return view_run(options, remove_merchant);
}

static int show_merchant_history(struct view *view)
{
    merchant_path(view, "/history");
    return show_history(view);
}

int command_merchant_history(const struct cli_options *options)
{
    return view_run(options, show_merchant_history);
}

static int roll_merchant_back(struct view *view)
{
    char name[256];

    merchant_path(view, "/rollback");
    return rollback(view, merchant_name(view, name, sizeof(name)), view->options->second_operand);
}

int command_merchant_rollback(const struct cli_options *options)
{
    return view_run(options, roll_merchant_back);
}

/* ---- tiers ---- */

static int show_tiers(struct view *view)
{
    view_path(view, "/api/v1/tiers", NULL);
    return show_stored(view);
}

int command_tiers_get(const struct cli_options *options)
{
    return view_run(options, show_tiers);
}

static int set_tiers(struct view *view)
{
    view_path(view, "/api/v1/tiers", NULL);
    return set(view, "tiers", view->options->operand);
}

int command_tiers_set(const struct cli_options *options)
{
    return view_run(options, set_tiers);
}

static int show_tiers_history(struct view *view)
{
    view_path(view, "/api/v1/tiers/history", NULL);
    return show_history(view);
}

int command_tiers_history(const struct cli_options *options)
{
    return view_run(options, show_tiers_history);
}

static int roll_tiers_back(struct view *view)
{
    view_path(view, "/api/v1/tiers/rollback", NULL);
    return rollback(view, "tiers", view->options->operand);
}

int command_tiers_rollback(const struct cli_options *options)
{
    return view_run(options, roll_tiers_back);
}
