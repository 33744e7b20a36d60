/*
 * fuzz_api.c - the whole API, end to end: requests as they come from a socket, handlers, core, answers.
 *
 * An input is a mode and then parts, with the byte 0xff between them. A part is a request ("PUT
 * /api/v1/tiers", header lines, an empty line, a body; lines end with LF here), "+60": so many seconds go by,
 * "~a,b": exactly these pods are there, or "%": the pods are spread anew. After each the invariants of core
 * must hold, no answer may be a 500, and each must be what its content type says. In the end the state must
 * survive being written down and read again. In the mode 'L' every key, token and signature is asked for, and
 * since nobody has one but the keys of two roles that only look, no request may change anything.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/utf8.h"
#include "client.h"
#include "core/core.h"
#include "fuzz.h"
#include "store/embedded/record_codec.h"

enum {
    PARTS_MAX = 16,
    PODS_AT_ONCE = 16,
    ARENA_MAX = 16 * 1024 * 1024,
    DUMP_MAX = 16 * 1024 * 1024,
    START_MS = 1000000000,
    XML_DEPTH_MAX = 16,
    LOOKS_MAX = 50,
};

static const struct core_settings core_settings = {
    .lease_ttl_ms = 900000,
    .call_max_duration_ms = 14400000,
    .connect_timeout_ms = 300000,
    .draining_ttl_ms = 360000,
    .heartbeat_ttl_ms = 60000,
    .hold_max_wait_ms = 120000,
    .hold_max_calls = 4,
    .hold_ageing_ms = 6000,
    .rescues = true,
};

/* A store that is nothing but core. */
struct memory_store {
    struct store store;
    struct core *core;
    uint64_t now_ms;
    uint64_t commands;
    uv_timer_t timer;
    struct list pending;
    call_ended_fn on_ended;
    void *on_ended_arg;
};

struct pending {
    struct list link;
    struct result *result; /* in the arena of the command */
    store_done_fn done;
    void *arg;
    int err;
};

static struct {
    uv_loop_t loop;
    struct memory_store memory;
    struct metrics *metrics;
    struct api *api;
    struct http_server *server;
    bool is_locked;
    unsigned looks; /* at the request that is under way */
} world;

static void memory_answer(uv_timer_t *timer)
{
    struct memory_store *memory = timer->data;

    while (!list_is_empty(&memory->pending)) {
        struct pending *pending = LIST_ENTRY(memory->pending.next, struct pending, link);

        list_remove(&pending->link);
        pending->done(pending->arg, pending->err, pending->err ? NULL : pending->result);
        free(pending);
    }
}

static int memory_execute(struct store *store, const struct command *command, struct arena *arena,
                          store_done_fn done, void *arg)
{
    struct memory_store *memory = CONTAINER_OF(store, struct memory_store, store);
    struct pending *pending = calloc(1, sizeof(*pending));
    struct result *result = arena_alloc(arena, sizeof(*result));

    assert(pending);
    if (!result) {
        free(pending);
        return -ENOMEM;
    }
    memset(result, 0, sizeof(*result));
    pending->result = result;
    list_init(&pending->link);
    pending->done = done;
    pending->arg = arg;
    pending->err = core_execute(memory->core, command, memory->now_ms, arena, result);
    memory->commands++;
    list_append(&memory->pending, &pending->link);
    uv_timer_start(&memory->timer, memory_answer, 0, 0);
    return 0;
}

static void memory_on_ended(struct store *store, call_ended_fn fn, void *arg)
{
    struct memory_store *memory = CONTAINER_OF(store, struct memory_store, store);

    memory->on_ended = fn;
    memory->on_ended_arg = arg;
}

static void memory_health(const struct store *store UNUSED, struct store_health *ret_health)
{
    *ret_health = (struct store_health){.is_ready = true, .name = "memory", .detail = ""};
}

static void memory_stats(const struct store *store, struct store_stats *ret_stats)
{
    *ret_stats =
        (struct store_stats){.commands = CONTAINER_OF(store, const struct memory_store, store)->commands};
}

static const struct store_ops memory_ops = {
    .execute = memory_execute,
    .on_ended = memory_on_ended,
    .health = memory_health,
    .stats = memory_stats,
};

static void lock(bool is_locked);

/* Whoever waits on purpose is sent away after a while, as by a change of keys: time passes only in parts. */
static bool is_busy(void *arg UNUSED)
{
    if (++world.looks % LOOKS_MAX == 0)
        lock(world.is_locked);
    return !list_is_empty(&world.memory.pending);
}

static void make_ticket(void *arg UNUSED, const char *call_sid, const char *pod, struct slice path UNUSED,
                        char *ticket)
{
    snprintf(ticket, API_TICKET_SIZE, "%zu-%zu", strlen(call_sid), strlen(pod));
}

static void world_init(void)
{
    static const struct api_settings settings = {
        .base_url = "wss://voice.example",
        .ws_url_template =
            "{base}/ws/pod/{pod}/{ticket}/{call_sid}{flow_suffix}?t={template}&m={merchant}&p={provider}",
        .busy_message = "all \"lines\" are <busy> & so on",
        .fallback_ws_url = "",
        .identity = "router-0",
        .loop = &world.loop,
        .make_ticket = make_ticket,
        .public_base_url = "https://voice.example",
        .rescues = true,
        .hold_max_wait_ms = 120000,
    };
    char error[256] = "";
    int rc;

    log_configure(LOG_DEBUG, LOG_JSON);
    assert(api_check_template(settings.ws_url_template, error, sizeof(error)));
    client_server_init(&world.loop, &world.server);
    world.memory.store.ops = &memory_ops;
    list_init(&world.memory.pending);
    uv_timer_init(&world.loop, &world.memory.timer);
    world.memory.timer.data = &world.memory;
    rc = store_start_events(&world.memory.store, &world.loop, "router-0");
    assert(rc == 0);
    rc = metrics_new(&world.metrics);
    assert(rc == 0);
    rc = api_new(&settings, &world.memory.store, world.metrics, &world.api);
    assert(rc == 0);
    rc = api_serve(world.api, world.server);
    assert(rc == 0);
}

static void check_core(const struct core *core)
{
    char error[512] = "";

    if (!core_check(core, error, sizeof(error))) {
        fprintf(stderr, "%s\n", error);
        abort();
    }
}

static void add_record(void *arg, const struct record *record)
{
    record_encode(arg, record);
}

static void dump(const struct core *core, struct strbuf *buf)
{
    strbuf_init(buf, NULL, DUMP_MAX);
    core_dump(core, add_record, buf);
    assert(!strbuf_failed(buf));
}

/* A new core that reads what this one has written is the same. */
static void check_dump(const struct core *core)
{
    struct strbuf written, again;
    struct core *copy;
    int rc = core_new(&core_settings, &copy);

    assert(rc == 0);
    dump(core, &written);
    for (size_t at = 0; at < written.len;) {
        struct record record;
        size_t used = 0;

        rc = record_decode(written.data + at, written.len - at, &record, &used);
        assert(rc == 0);
        rc = core_apply(copy, &record);
        assert(rc == 0);
        at += used;
    }
    core_loaded(copy, world.memory.now_ms);
    check_core(copy);
    assert(core_call_count(copy) == core_call_count(core));
    assert(core_pod_count(copy) == core_pod_count(core));
    dump(copy, &again);
    assert(again.len > 0 && written.len > 0);
    strbuf_release(&written);
    strbuf_release(&again);
    core_free(copy);
}

/* Only the characters that XML may have, and no markup that a client has brought. */
static void check_xml_text(struct slice text)
{
    for (size_t i = 0; i < text.len;) {
        size_t len = utf8_length(text.data + i, text.len - i);

        assert(len > 0);
        assert((unsigned char)text.data[i] >= ' ' || strchr("\t\r\n", text.data[i]));
        assert(text.data[i] != '<');
        if (text.data[i] == '&') {
            const char *end = memchr(text.data + i, ';', text.len - i);

            assert(end && end - (text.data + i) <= 6);
        }
        i += len;
    }
}

static void check_xml_tag(struct slice tag)
{
    struct input input = {(const uint8_t *)tag.data, tag.len};

    (void)input_until(&input, '"');
    while (input.size > 0) {
        check_xml_text(input_until(&input, '"'));
        (void)input_until(&input, '"');
    }
}

/* Are the elements closed in the order in which they were opened? */
static void check_xml(struct slice text)
{
    struct input input = {(const uint8_t *)text.data, text.len};
    struct slice open[XML_DEPTH_MAX];
    size_t depth = 0, elements = 0;

    assert(text.len > 5 && memcmp(text.data, "<?xml", 5) == 0);
    while (input.size > 0) {
        struct slice tag;

        check_xml_text(input_until(&input, '<'));
        if (input.size == 0)
            break;
        tag = input_until(&input, '>');
        assert(tag.len > 0);
        if (tag.data[0] == '/') {
            assert(depth > 0);
            depth--;
            assert(open[depth].len == tag.len - 1);
            assert(memcmp(open[depth].data, tag.data + 1, tag.len - 1) == 0);
            continue;
        }
        check_xml_tag(tag);
        if (tag.data[0] == '?' || tag.data[tag.len - 1] == '/')
            continue;
        assert(depth < XML_DEPTH_MAX && (depth > 0 || elements == 0));
        elements++;
        for (open[depth] = tag, open[depth].len = 0;
             open[depth].len < tag.len && tag.data[open[depth].len] != ' '; open[depth].len++)
            ;
        depth++;
    }
    assert(depth == 0 && elements > 0);
}

static void check_answer(const struct client_answer *answer)
{
    static const int statuses[] = {200, 201, 202, 204, 302, 400, 401, 403, 404, 405,
                                   409, 413, 415, 417, 426, 429, 431, 503, 505};
    bool is_known = false;

    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        is_known = is_known || answer->status == statuses[i];
    assert(is_known);
    if (answer->body.len == 0)
        return;
    assert(answer->type.data);
    if (memmem(answer->type.data, answer->type.len, "json", 4))
        assert(json_is_valid(answer->body));
    else if (memmem(answer->type.data, answer->type.len, "xml", 3))
        check_xml(answer->body);
    else
        assert(memmem(answer->type.data, answer->type.len, "text/", 5));
}

static void request(struct slice part)
{
    struct client client = {&world.loop, world.server, "192.0.2.7", false, is_busy, NULL};
    struct input input = {(const uint8_t *)part.data, part.len};
    struct slice line = input_until(&input, '\n');
    struct client_answer answer;
    struct strbuf buf, sent;
    struct slice left;

    world.looks = 0;
    strbuf_init(&sent, NULL, DUMP_MAX);
    strbuf_init(&buf, NULL, CLIENT_ANSWER_MAX);
    strbuf_append(&sent, line.data, line.len);
    strbuf_append_str(&sent, " HTTP/1.1\r\nHost: router.example\r\n");
    while (input.size > 0 && (line = input_until(&input, '\n')).len > 0) {
        strbuf_append(&sent, line.data, line.len);
        strbuf_append_str(&sent, "\r\n");
    }
    strbuf_printf(&sent, "Content-Length: %zu\r\n\r\n", input.size);
    strbuf_append(&sent, (const char *)input.data, input.size);
    client_talk(&client, strbuf_slice(&sent), CLIENT_WHOLE, &buf);
    left = strbuf_slice(&buf);
    while (client_next(&left, &answer))
        check_answer(&answer);
    strbuf_release(&sent);
    strbuf_release(&buf);
}

static void execute(const struct command *command)
{
    struct result result;
    struct arena arena;
    int rc;

    arena_init(&arena, ARENA_MAX);
    rc = core_execute(world.memory.core, command, world.memory.now_ms, &arena, &result);
    assert(rc == 0);
    arena_release(&arena);
}

static void pass_time(struct slice part)
{
    struct command sweep = {.type = COMMAND_SWEEP};
    struct command serve = {.type = COMMAND_SERVE};
    uint64_t seconds = 0;

    for (size_t i = 1; i < part.len && i < 7; i++)
        seconds = seconds * 10 + (uint64_t)(unsigned char)part.data[i] % 10;
    world.memory.now_ms += seconds * 1000;
    execute(&sweep);
    execute(&serve);
}

static void sync_pods(struct slice part)
{
    struct input input = {(const uint8_t *)part.data + 1, part.len - 1};
    struct command command = {.type = COMMAND_SYNC};
    struct pod_seen pods[PODS_AT_ONCE];
    char names[PODS_AT_ONCE][POD_NAME_MAX + 2];
    size_t count = 0;

    while (input.size > 0 && count < PODS_AT_ONCE) {
        struct slice name = input_until(&input, ',');

        snprintf(names[count], sizeof(names[count]), "%.*s", (int)name.len, name.data);
        pods[count] = (struct pod_seen){.name = names[count],
                                        .address = "192.0.2.1:8080",
                                        .incarnation = "1",
                                        .source = POD_SOURCE_STATIC,
                                        .is_ready = true};
        count++;
    }
    command.sync.source = POD_SOURCE_STATIC;
    command.sync.pods = pods;
    command.sync.count = count;
    execute(&command);
}

static void carry_out(struct slice part, bool is_locked)
{
    struct command rebalance = {.type = COMMAND_REBALANCE};
    struct strbuf before, after;

    if (part.len == 0)
        return;
    if (part.data[0] == '+') {
        pass_time(part);
    } else if (part.data[0] == '~') {
        sync_pods(part);
    } else if (part.data[0] == '%') {
        execute(&rebalance);
    } else if (!is_locked) {
        request(part);
    } else {
        dump(world.memory.core, &before);
        request(part);
        dump(world.memory.core, &after);
        assert(before.len == after.len && memcmp(before.data, after.data, after.len) == 0);
        strbuf_release(&before);
        strbuf_release(&after);
    }
    check_core(world.memory.core);
}

static void lock(bool is_locked)
{
    static const char *const none[SECRET_KINDS] = {"", "", "", ""};
    static const char *const keys[SECRET_KINDS] = {"b2f0c5e7a1d94c3e8f6a", "e3a8d1f05b7c4926b1d0",
                                                   "0d9c8b7a6f5e4d3c2b1a", "7c6d5e4f3a2b1c0d9e8f"};
    /* Inputs may have these two: whoever only looks changes nothing either. */
    static const char readers[] = "viewer read key-of-viewer\nmeter metrics key-of-meter\n";
    int rc = api_set_secrets(world.api, is_locked ? keys : none, is_locked ? readers : "");

    assert(rc == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    int rc;

    if (!world.server)
        world_init();
    rc = core_new(&core_settings, &world.memory.core);
    assert(rc == 0);
    core_on_ended(world.memory.core, world.memory.on_ended, world.memory.on_ended_arg);
    world.memory.now_ms = START_MS;
    world.is_locked = input_byte(&input) == 'L';
    lock(world.is_locked);
    for (int i = 0; input.size > 0 && i < PARTS_MAX; i++)
        carry_out(input_until(&input, FUZZ_SEPARATOR), world.is_locked);
    check_dump(world.memory.core);
    world.memory.core = core_free(world.memory.core);
    log_flush();
    return 0;
}
