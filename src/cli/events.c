/*
 * events.c - smart-router events: prints what happens, as it happens, until Ctrl-C.
 *
 * The stream is opened again when it breaks off: the router may restart. Only the first attempt can fail.
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "cli/view.h"

enum {
    LINE_MAX_LEN = 256 * 1024, /* of the stream; an event has less than 4 KiB */
    OUT_MAX = 1024 * 1024,
    ARENA_MAX = 4 * 1024 * 1024,
    RETRY_MS = 1000,
    SILENCE_MAX_MS = 45 * 1000, /* the router sends a comment every 15 s */
    ID_MAX = 512,
    EVENT_WIDTH = 14,
};

struct events {
    const struct cli_options *options;
    struct terminal terminal;
    struct strbuf line; /* what has come of the current line */
    struct strbuf out;
    struct arena arena;
    char last_id[ID_MAX];
    bool is_cut;    /* the line is too long, and left out */
    bool is_broken; /* the output cannot be written */
    bool was_open;  /* the stream was there once */
};

/* The members that say most come first; the others follow in the order of the event. */
static bool is_told_apart(const char *name)
{
    return strcmp(name, "event") == 0 || strcmp(name, "id") == 0 || strcmp(name, "time") == 0 ||
           strcmp(name, "replica") == 0;
}

static enum colour colour_of(const char *event, const char *reason)
{
    if (strcmp(event, "wait_ended") == 0)
        return reason && strcmp(reason, "timed_out") == 0 ? COLOUR_BAD : COLOUR_WARNING;
    if (strcmp(event, "refused") == 0 || strcmp(event, "ended") == 0 || strcmp(event, "leader_lost") == 0 ||
        strcmp(event, "dropped") == 0)
        return COLOUR_BAD;
    if (strcmp(event, "draining") == 0 || strcmp(event, "moved") == 0 || strcmp(event, "pod_left") == 0 ||
        strcmp(event, "call_waiting") == 0)
        return COLOUR_WARNING;
    return strcmp(event, "allocated") == 0 ? COLOUR_GOOD : COLOUR_NONE;
}

static void append_event(struct events *events, const cJSON *json)
{
    const char *time = json_get_string(json, "time"), *event = json_get_string(json, "event");
    struct strbuf name;
    const cJSON *item;

    text_append_safe(&events->out, slice_of(time ? time : "-"));
    strbuf_append_str(&events->out, "  ");
    strbuf_init(&name, NULL, LINE_MAX_LEN);
    text_append_safe(&name, slice_of(event ? event : "?"));
    terminal_append(&events->terminal, &events->out,
                    colour_of(event ? event : "", json_get_string(json, "reason")), strbuf_slice(&name));
    for (size_t i = name.len; i < EVENT_WIDTH; i++)
        strbuf_append_char(&events->out, ' ');
    strbuf_release(&name);
    cJSON_ArrayForEach(item, json)
    {
        struct strbuf value;

        if (is_told_apart(item->string))
            continue;
        strbuf_init(&value, NULL, LINE_MAX_LEN);
        if (cJSON_IsString(item))
            strbuf_append_str(&value, item->valuestring);
        else
            text_append_value(&value, item);
        strbuf_append_char(&events->out, ' ');
        text_append_safe(&events->out, slice_of(item->string));
        strbuf_append_char(&events->out, '=');
        text_append_safe(&events->out, strbuf_slice(&value));
        strbuf_release(&value);
    }
    strbuf_append_char(&events->out, '\n');
}

static void show_event(struct events *events, struct slice data)
{
    cJSON *json;

    arena_reset(&events->arena);
    json = json_parse(&events->arena, data);
    if (!cJSON_IsObject(json))
        return;
    if (json_get_string(json, "id"))
        snprintf(events->last_id, sizeof(events->last_id), "%s", json_get_string(json, "id"));
    if (!(events->options->flags & CLI_JSON))
        append_event(events, json);
    else if (events->terminal.is_terminal)
        text_append_safe_json(&events->out, data);
    else
        strbuf_append(&events->out, data.data, data.len);
    if (events->options->flags & CLI_JSON)
        strbuf_append_char(&events->out, '\n');
}

/* One line of the stream. Only data is needed: it has the name and the id, too. */
static void take_line(struct events *events)
{
    static const char data[] = "data:";
    struct slice line = strbuf_slice(&events->line);
    size_t len = sizeof(data) - 1;

    if (line.len > len && memcmp(line.data, data, len) == 0 && !events->is_cut)
        show_event(events, (struct slice){line.data + len, line.len - len});
    events->is_cut = false;
    strbuf_reset(&events->line);
}

static bool take_piece(void *arg, struct slice piece)
{
    struct events *events = arg;

    events->was_open = true;
    strbuf_reset(&events->out);
    for (size_t i = 0; i < piece.len; i++) {
        if (piece.data[i] == '\n') {
            take_line(events);
            continue;
        }
        strbuf_append_char(&events->line, piece.data[i]);
        if (strbuf_failed(&events->line)) {
            strbuf_reset(&events->line);
            events->is_cut = true;
        }
    }
    if (terminal_write(&events->out) != EXIT_OK)
        events->is_broken = true;
    return !events->is_broken;
}

static void interrupted(int number UNUSED)
{
    _exit(EXIT_OK);
}

static void pause_a_second(void)
{
    const struct timespec time = {.tv_sec = RETRY_MS / 1000, .tv_nsec = (RETRY_MS % 1000) * 1000000L};

    (void)nanosleep(&time, NULL);
}

/* Opens the stream and reads it to its end. True: it should be opened again. */
static bool follow(struct events *events, struct client *client, int *ret_status)
{
    const struct client_request request = {.path = "/api/v1/events", .timeout_ms = SILENCE_MAX_MS};
    int answer = 0;
    int err = client_stream(client, &request, events->last_id[0] ? events->last_id : NULL, take_piece, events,
                            &answer);

    *ret_status = EXIT_FAILED;
    if (events->is_broken)
        return false;
    if (answer == 0 && !events->was_open) {
        cli_say("no answer from %s: %s", client_url(client), client_error(client));
        *ret_status = EXIT_UNREACHABLE;
        return false;
    }
    if (answer != 0 && answer != 200 && (answer < 500 || !events->was_open)) {
        cli_say("%s", client_refusal(client, answer));
        return false;
    }
    if (answer == 200 && !events->was_open) {
        cli_say("%s sends no events: is this a Smart Router?", client_url(client));
        return false;
    }
    cli_say("the stream has ended, trying again%s%s", err < 0 ? ": " : "",
            err < 0 ? client_error(client) : "");
    return true;
}

int command_events(const struct cli_options *options)
{
    CLEANUP(client_freep) struct client *client = NULL;
    struct events events = {.options = options};
    int status = client_new(options, CLIENT_API, &client);

    if (status != EXIT_OK)
        return status;
    terminal_look(&events.terminal);
    strbuf_init(&events.line, NULL, LINE_MAX_LEN);
    strbuf_init(&events.out, NULL, OUT_MAX);
    arena_init(&events.arena, ARENA_MAX);
    signal(SIGINT, interrupted);
    while (follow(&events, client, &status))
        pause_a_second();
    strbuf_release(&events.line);
    strbuf_release(&events.out);
    arena_release(&events.arena);
    return status;
}
