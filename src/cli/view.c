/*
 * view.c - asks, prints, and repeats.
 */
#include "cli/view.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/text.h"

enum {
    OUT_MAX = 512 * 1024 * 1024,
    JSON_MAX = 256 * 1024 * 1024,
    PATH_MAX_LEN = 16 * 1024,
    PAGES_MAX = 100000,
    FIELD_COLUMN = 16,
};

void view_path(struct view *view, const char *path, const char *name)
{
    strbuf_reset(&view->path);
    strbuf_append_str(&view->path, path);
    if (name)
        client_append_escaped(view->client, &view->path, name);
}

void view_query(struct view *view, const char *name, const char *value)
{
    bool is_first = !strbuf_failed(&view->path) && !strchr(view->path.data, '?');

    if (!value)
        return;
    strbuf_printf(&view->path, "%c%s=", is_first ? '?' : '&', name);
    client_append_escaped(view->client, &view->path, value);
}

void view_body(struct view *view UNUSED, struct strbuf *body, struct json_writer *json)
{
    strbuf_init(body, NULL, PATH_MAX_LEN);
    json_begin(json, body);
    json_object_begin(json);
}

/* The router's JSON as it is; on a terminal without what could steer it. */
static void view_json(struct view *view)
{
    struct slice body = client_body(view->client);

    if (view->terminal.is_terminal)
        text_append_safe_json(&view->out, body);
    else
        strbuf_append(&view->out, body.data, body.len);
    if (body.len == 0 || body.data[body.len - 1] != '\n')
        strbuf_append_char(&view->out, '\n');
}

static int view_refused(struct view *view, int status, const cJSON *json)
{
    const char *hint = "";

    if (status == 401)
        hint = ": give the file with a key in --api-key-file or SMART_ROUTER_API_KEY_FILE";
    if (status == 404 && !json)
        hint = ": is this a Smart Router, and not an older one?";
    view->is_away = status >= 500 || status == 429 || status == 408;
    cli_say("%s%s", client_refusal(view->client, status), hint);
    return EXIT_FAILED;
}

int view_ask(struct view *view, const char *method, const char *json, cJSON **ret_json)
{
    const struct client_request request = {
        .path = view->path.data, .json = json, .method = method, .timeout_ms = view->options->timeout_ms};
    int status = 0;

    *ret_json = NULL;
    view->is_away = false;
    arena_reset(&view->arena);
    if (strbuf_failed(&view->path)) {
        cli_say("an argument is too long");
        return EXIT_USAGE;
    }
    if (client_ask(view->client, &request, &status) < 0) {
        cli_say("no answer from %s: %s", client_url(view->client), client_error(view->client));
        view->is_away = true;
        return EXIT_UNREACHABLE;
    }
    *ret_json = json_parse(&view->arena, client_body(view->client));
    if (*ret_json && view->is_json)
        view_json(view);
    if (status < 200 || status > 299)
        return view_refused(view, status, *ret_json);
    if (!view->takes_any && !cJSON_IsObject(*ret_json)) {
        cli_say("the answer of %s%s is no JSON object: is this a Smart Router?", client_url(view->client),
                view->path.data);
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

int view_get(struct view *view, cJSON **ret_json)
{
    return view_ask(view, NULL, NULL, ret_json);
}

/* The path without its cursor is the first `len` bytes. False: the list is at its end. */
static bool next_page(struct view *view, size_t len, const cJSON *page, char *last, size_t last_size)
{
    const char *cursor = json_get_string(page, "next_cursor");

    if (!cursor || !cursor[0] || strcmp(cursor, last) == 0 || strlen(cursor) >= last_size)
        return false;
    snprintf(last, last_size, "%s", cursor);
    view->path.len = len;
    view->path.data[len] = '\0';
    view_query(view, "cursor", last);
    return true;
}

int view_pages(struct view *view, view_page_fn fn, void *arg)
{
    size_t len = view->path.len;
    char last[PATH_MAX_LEN / 4] = "";

    for (unsigned i = 0; i < PAGES_MAX; i++) {
        cJSON *page;
        int status = view_get(view, &page);

        if (status != EXIT_OK)
            return status;
        if (!view->is_json)
            fn(arg, page);
        if (!next_page(view, len, page, last, sizeof(last)))
            return EXIT_OK;
    }
    cli_say("%s has too many pages", client_url(view->client));
    return EXIT_FAILED;
}

void view_text(struct view *view, enum colour colour, const char *text)
{
    terminal_append(&view->terminal, &view->out, colour, slice_of(text));
}

void view_safe(struct view *view, const char *text)
{
    text_append_safe(&view->out, slice_of(text ? text : "-"));
}

void view_table(struct view *view, struct table *table)
{
    table_write(table, &view->terminal, &view->out);
    table_release(table);
}

void view_field(struct view *view, const char *name, const char *text)
{
    terminal_append(&view->terminal, &view->out, COLOUR_DIM, slice_of(name));
    for (size_t i = strlen(name); i < FIELD_COLUMN; i++)
        strbuf_append_char(&view->out, ' ');
    view_safe(view, text);
    strbuf_append_char(&view->out, '\n');
}

const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

uint64_t member_u64(const cJSON *object, const char *name)
{
    const cJSON *item = member(object, name);

    /* 2^53: beyond it a number of JSON is not exact. */
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= 9007199254740992.0
               ? (uint64_t)item->valuedouble
               : 0;
}

bool member_is_true(const cJSON *object, const char *name)
{
    return cJSON_IsTrue(member(object, name));
}

enum colour view_colour_of_state(const char *state)
{
    static const struct {
        const char *state;
        enum colour colour;
    } colours[] = {
        {"available", COLOUR_GOOD},   {"connected", COLOUR_GOOD},  {"active", COLOUR_GOOD},
        {"draining", COLOUR_WARNING}, {"suspended", COLOUR_BAD},   {"expired", COLOUR_BAD},
        {"waiting", COLOUR_WARNING},  {"granted", COLOUR_WARNING},
    };

    for (size_t i = 0; state && i < ARRAY_LEN(colours); i++) {
        if (strcmp(colours[i].state, state) == 0)
            return colours[i].colour;
    }
    return COLOUR_NONE;
}

/* ---- once, or again and again ---- */

/* Ctrl-C is how a watch ends: that is no failure. */
static void interrupted(int number UNUSED)
{
    _exit(EXIT_OK);
}

static void sleep_ms(uint64_t ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&time, &time) < 0 && errno == EINTR) {
    }
}

/* On a terminal each picture takes the place of the last one. */
static int view_show(struct view *view, bool is_repeated)
{
    static const char clear[] = "\033[H\033[2J";

    if (is_repeated && view->terminal.is_terminal && !view->is_json)
        fwrite(clear, 1, sizeof(clear) - 1, stdout);
    return terminal_write(&view->out);
}

static int view_watch(struct view *view, view_fn fn)
{
    for (;;) {
        bool is_done;
        int status;

        view->is_done = false;
        strbuf_reset(&view->out);
        terminal_look(&view->terminal); /* its size may have changed */
        status = fn(view);
        is_done = status == EXIT_OK || view->is_done;
        if (!is_done && !view->is_away)
            return status;
        if (is_done && view_show(view, true) != EXIT_OK)
            return EXIT_FAILED;
        sleep_ms(view->options->watch_ms);
        if (is_done && !view->terminal.is_terminal && !view->is_json)
            fputc('\n', stdout);
    }
}

static int view_once(struct view *view, view_fn fn)
{
    int status = fn(view);
    int shown = view_show(view, false);

    return status != EXIT_OK ? status : shown;
}

int view_run(const struct cli_options *options, view_fn fn)
{
    struct view view = {.options = options, .is_json = options->flags & CLI_JSON};
    int status = client_new(options, CLIENT_API, &view.client);

    if (status != EXIT_OK)
        return status;
    arena_init(&view.arena, JSON_MAX);
    strbuf_init(&view.out, NULL, OUT_MAX);
    strbuf_init(&view.path, NULL, PATH_MAX_LEN);
    terminal_look(&view.terminal);
    if (options->flags & CLI_WATCH)
        signal(SIGINT, interrupted);
    status = options->flags & CLI_WATCH ? view_watch(&view, fn) : view_once(&view, fn);
    strbuf_release(&view.path);
    strbuf_release(&view.out);
    arena_release(&view.arena);
    client_free(view.client);
    return status;
}
