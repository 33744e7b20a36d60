/*
 * fuzz_redis.c - whatever Redis answers: the whole Redis store on a link that is fed from the input.
 *
 * The first byte says which command is carried out, the rest are replies as they come over the wire; each
 * question takes the next one, and when there is none the connection is lost. 'E' is followed by lines of
 * events of other routers, 'U' by a URL and 'S' by a list of sentinels. Every command is answered exactly
 * once, with an error or with a result of which every text can be read.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../conformance/render.h"
#include "base/list.h"
#include "base/log.h"
#include "fuzz.h"
#include "store/feed.h"
#include "store/redis/cluster.h"
#include "store/redis/redis.h"
#include "store/redis/reply.h"

enum {
    TURNS_MAX = 10000,
    QUESTIONS_MAX = 1000,
    DIGITS_MAX = 6,
    ARENA_MAX = 16 * 1024 * 1024,
};

/* Takes the place of the real one. */
struct redis_link {
    struct redis_link_settings settings;
    struct list questions;
    bool is_woken;
    bool is_down;
};

struct question {
    struct list link;
    redis_reply_fn done;
    void *arg;
    bool is_wait;
};

static struct {
    uv_loop_t loop;
    bool is_ready;
    struct redis_link *link;
    unsigned questions;
    unsigned ended;
    size_t events;
} world;

static int ask(struct redis_link *link, redis_reply_fn done, void *arg, bool is_wait)
{
    struct question *question = calloc(1, sizeof(*question));

    assert(question);
    if (link->is_down || world.questions++ > QUESTIONS_MAX) {
        free(question);
        return -ENOTCONN;
    }
    list_init(&question->link);
    question->done = done;
    question->arg = arg;
    question->is_wait = is_wait;
    list_append(&link->questions, &question->link);
    return 0;
}

int redis_link_new(uv_loop_t *loop UNUSED, const struct redis_link_settings *settings,
                   struct redis_link **ret_link)
{
    struct redis_link *link = calloc(1, sizeof(*link));

    assert(link);
    link->settings = *settings;
    list_init(&link->questions);
    *ret_link = world.link = link;
    return 0;
}

int redis_link_subscribe(const struct redis_link *link UNUSED, const char *channel UNUSED,
                         redis_message_fn on_message UNUSED, void *arg UNUSED,
                         struct redis_link **ret_link UNUSED)
{
    return -ENOMEM;
}

void redis_link_flush(struct redis_link *link UNUSED)
{
}

void redis_link_wake(struct redis_link *link)
{
    link->is_woken = true;
}

bool redis_link_is_up(const struct redis_link *link)
{
    return !link->is_down;
}

uint64_t redis_link_up_ms(const struct redis_link *link)
{
    return link->is_down ? 0 : 1;
}

const char *redis_link_detail(const struct redis_link *link)
{
    return link->is_down ? "lost" : "";
}

uint64_t redis_link_failures(const struct redis_link *link)
{
    return link->is_down;
}

int redis_link_call(struct redis_link *link, const struct redis_script *script UNUSED, const char *key UNUSED,
                    const struct slice *args, size_t count, redis_reply_fn done, void *arg)
{
    assert(count <= REDIS_ARGS_MAX);
    for (size_t i = 0; i < count; i++)
        assert(args[i].data || args[i].len == 0);
    return ask(link, done, arg, false);
}

int redis_link_call_until(struct redis_link *link, const struct redis_script *script, const char *key,
                          const struct slice *args, size_t count, uint64_t deadline_ms, redis_reply_fn done,
                          void *arg)
{
    assert(deadline_ms > 0);
    return redis_link_call(link, script, key, args, count, done, arg);
}

int redis_link_command(struct redis_link *link, const struct slice *args, size_t count, size_t key_index,
                       redis_reply_fn done, void *arg)
{
    assert(count <= REDIS_ARGS_MAX && key_index < count && args[0].len > 0);
    return ask(link, done, arg, false);
}

int redis_link_wait(struct redis_link *link, const char *mark_key UNUSED, redis_reply_fn done, void *arg)
{
    return ask(link, done, arg, true);
}

int redis_link_report(struct redis_link *link UNUSED, const char *text)
{
    return reply_errno(text);
}

void redis_link_close(struct redis_link *link, void (*closed)(void *arg), void *arg)
{
    assert(list_is_empty(&link->questions));
    free(link);
    world.link = NULL;
    closed(arg);
}

/* What the link itself looks at. */
static void check_reply(const redisReply *reply)
{
    struct redis_address nodes[4];
    struct redis_address moved;
    size_t count = reply_cluster_nodes(reply, "192.0.2.1", nodes, ARRAY_LEN(nodes));

    assert(count <= ARRAY_LEN(nodes));
    for (size_t i = 0; i < count; i++)
        assert(nodes[i].host[0] && memchr(nodes[i].host, '\0', sizeof(nodes[i].host)));
    if (reply->type == REDIS_REPLY_ERROR || reply->type == REDIS_REPLY_STATUS) {
        assert(reply_errno(reply->str) < 0);
        if (reply_moved_to(reply->str, "192.0.2.1", &moved))
            assert(moved.host[0] && moved.port > 0);
    }
}

/* Answers the oldest question with the next reply, or loses the connection. */
static void answer_next(struct redis_link *link, redisReader *reader)
{
    struct question *question = LIST_ENTRY(link->questions.next, struct question, link);
    void *reply = NULL;

    list_remove(&question->link);
    if (redisReaderGetReply(reader, &reply) != REDIS_OK || !reply) {
        link->is_down = true;
        question->done(question->arg, -ENOTCONN, NULL);
    } else {
        const redisReply *known = reply;

        check_reply(known);
        if (known->type == REDIS_REPLY_ERROR)
            question->done(question->arg, reply_errno(known->str), NULL);
        else if (question->is_wait)
            question->done(question->arg, 0, NULL);
        else
            question->done(question->arg, 0, known);
    }
    if (reply)
        freeReplyObject(reply);
    free(question);
}

static void run_until(redisReader *reader, const bool *is_done)
{
    for (unsigned turn = 0; !*is_done; turn++) {
        assert(turn < TURNS_MAX);
        (void)uv_run(&world.loop, UV_RUN_NOWAIT);
        if (!world.link)
            continue;
        if (world.link->is_woken) {
            world.link->is_woken = false;
            world.link->settings.on_turn(world.link->settings.on_turn_arg);
        }
        if (!list_is_empty(&world.link->questions))
            answer_next(world.link, reader);
    }
}

static void on_ended(void *arg UNUSED, const struct ended_call *call)
{
    world.ended += strlen(call->call_sid) + strlen(call->pod) + strlen(call->pool) +
                       strlen(call->merchant_id) + strlen(call_end_name(call->why)) >
                   0;
}

static struct store *open_store(bool waits)
{
    static const char replies[] =
        ":1\r\n*3\r\n$59\r\n{\"gold\":1,\"s\":{\"type\":\"shared\"},\"merchant:m1\":{\"target\":1}}\r\n"
        "$40\r\n0123456789012345678901234567890123456789\r\n:0\r\n";
    struct redis_settings settings = {
        .link = {.timeout_ms = 1000, .wait_replicas = waits},
        .key_prefix = "",
        .core = {.lease_ttl_ms = 900000,
                 .call_max_duration_ms = 14400000,
                 .connect_timeout_ms = 300000,
                 .draining_ttl_ms = 360000,
                 .heartbeat_ttl_ms = 60000},
        .call_info_ttl_ms = 86400000,
    };
    redisReader *reader = redisReaderCreate();
    struct store_health health;
    struct store *store;
    int rc = redis_open(&world.loop, &settings, &store);

    assert(rc == 0 && reader);
    store_on_ended(store, on_ended, NULL);
    redisReaderFeed(reader, replies, sizeof(replies) - 1);
    world.link->settings.on_change(world.link->settings.on_change_arg, true);
    while (!list_is_empty(&world.link->questions))
        answer_next(world.link, reader);
    redisReaderFree(reader);
    store_health(store, &health);
    assert(health.is_ready);
    return store;
}

static void store_closed(void *arg)
{
    *(bool *)arg = true;
}

struct asked {
    const struct command *command;
    struct arena *arena;
    bool is_done;
};

static void answered(void *arg, int err, const struct result *result)
{
    struct asked *asked = arg;
    struct strbuf buf;

    assert(!asked->is_done);
    asked->is_done = true;
    assert(err <= 0 && (err < 0) == (result == NULL));
    if (err)
        return;
    strbuf_init(&buf, NULL, ARENA_MAX);
    render_result(&buf, asked->command, result, asked->arena);
    strbuf_release(&buf);
}

static void execute(struct store *store, const struct command *command, redisReader *reader)
{
    struct arena arena;
    struct asked asked = {.command = command, .arena = &arena};
    int rc;

    arena_init(&arena, ARENA_MAX);
    rc = store_execute(store, command, &arena, answered, &asked);
    assert(!asked.is_done);
    if (rc == 0)
        run_until(reader, &asked.is_done);
    arena_release(&arena);
}

/* hiredis takes the memory for an array as soon as its length is there. That is not what is tried here. */
static bool has_huge_array(struct slice replies)
{
    size_t digits = 0;

    for (size_t i = 0; i < replies.len && digits < DIGITS_MAX; i++) {
        if (replies.data[i] == '*')
            digits = 1;
        else
            digits = digits > 0 && replies.data[i] >= '0' && replies.data[i] <= '9' ? digits + 1 : 0;
    }
    return digits >= DIGITS_MAX;
}

static void run_command(enum command_type type, bool waits, struct slice replies)
{
    struct command command = sample_command(type);
    struct command look = sample_command(COMMAND_CALL);
    struct store *store = open_store(waits);
    redisReader *reader = redisReaderCreate();
    bool is_closed = false;

    assert(reader);
    redisReaderFeed(reader, replies.data, replies.len);
    execute(store, &command, reader);
    execute(store, &look, reader);
    store_close(store, store_closed, &is_closed);
    run_until(reader, &is_closed);
    redisReaderFree(reader);
}

static void on_event(void *arg UNUSED, const struct event_text *events, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(events[i].json.len <= EVENT_TEXT_MAX &&
               !memchr(events[i].json.data, '\n', events[i].json.len));
        assert(events[i].kind.len <= EVENT_KIND_MAX && events[i].id.len <= EVENT_ID_MAX);
        for (size_t at = 0; at < events[i].json.len; at++)
            assert((unsigned char)events[i].json.data[at] >= ' ' || events[i].json.data[at] == '\t');
        world.events++;
    }
}

static void check_events(struct slice lines)
{
    struct event_text event;

    while (lines.len > 0) {
        size_t before = lines.len;

        if (event_read(&lines, &event))
            on_event(NULL, &event, 1);
        assert(lines.len < before);
    }
}

static void check_url(struct slice text, bool is_list)
{
    struct redis_link_settings settings = {0};
    char credentials[512];
    char error[256] = "";
    char *copy = strndup(text.data, text.len);
    int rc;

    assert(copy);
    if (is_list)
        rc = redis_link_parse_sentinels(copy, &settings, error, sizeof(error));
    else
        rc = redis_link_parse_url(copy, &settings, credentials, sizeof(credentials), error, sizeof(error));
    if (rc) {
        assert(error[0]);
    } else if (is_list) {
        assert(settings.sentinel_count >= 1 && settings.sentinel_count <= REDIS_SENTINELS_MAX);
        for (size_t i = 0; i < settings.sentinel_count; i++)
            assert(settings.sentinels[i].host[0] && settings.sentinels[i].port > 0);
    } else {
        assert(settings.server_count >= 1 && settings.server_count <= REDIS_SERVERS_MAX);
        for (size_t i = 0; i < settings.server_count; i++)
            assert(settings.servers[i].host[0] &&
                   (settings.servers[i].port > 0 || settings.server_count == 1));
        assert(settings.database >= 0);
        if (settings.user)
            assert(strlen(settings.user) + strlen(settings.password) + 2 <= sizeof(credentials));
    }
    free(copy);
}

/* The commands whose letters are in the corpus, in the order of their letters. */
static const enum command_type first_types[] = {
    COMMAND_ALLOCATE,  COMMAND_RELEASE,   COMMAND_RENEW,     COMMAND_HEARTBEAT,    COMMAND_DRAIN,
    COMMAND_UNDRAIN,   COMMAND_MOVE_CALL, COMMAND_POD_SEEN,  COMMAND_POD_GONE,     COMMAND_SYNC,
    COMMAND_SWEEP,     COMMAND_REBALANCE, COMMAND_TIERS_SET, COMMAND_MERCHANT_SET, COMMAND_MERCHANT_REMOVE,
    COMMAND_STATUS,    COMMAND_PODS,      COMMAND_POD,       COMMAND_CALLS,        COMMAND_CALL,
    COMMAND_MERCHANTS, COMMAND_MERCHANT,  COMMAND_TIERS,     COMMAND_LEAVE,        COMMAND_HOLD,
    COMMAND_UNDO,      COMMAND_PRESENT,   COMMAND_HISTORY,
};

static bool is_first_type(enum command_type type)
{
    for (size_t i = 0; i < ARRAY_LEN(first_types); i++) {
        if (first_types[i] == type)
            return true;
    }
    return false;
}

/*
 * Which command an input is the answer to: by its first letter. Commands that are added later have the next
 * letters, in the order of core/command_table.h.
 */
static enum command_type type_of(uint8_t kind)
{
    static_assert(COMMAND_TYPES <= 0x40, "six bits choose the command: letters, then digits");
    size_t at = ((kind & 0x1fU) + ((kind & 0x60) == 0x20 ? 0x20U : 0)) % COMMAND_TYPES;
    size_t later = ARRAY_LEN(first_types);

    if (at < ARRAY_LEN(first_types))
        return first_types[at];
    for (int type = 0; type < COMMAND_TYPES; type++) {
        if (!is_first_type((enum command_type)type) && later++ == at)
            return (enum command_type)type;
    }
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint8_t kind = input_byte(&input);
    struct slice rest = input_rest(&input);

    if (!world.is_ready) {
        uv_loop_init(&world.loop);
        /* Every kind of input makes lines; they are written, and thrown away. */
        log_set_fd(-1);
        world.is_ready = true;
    }
    world.questions = 0;
    if (kind == 'E')
        check_events(rest);
    else if (kind == 'U' || kind == 'S')
        check_url(rest, kind == 'S');
    else if (!has_huge_array(rest))
        run_command(type_of(kind), kind >= 0x80, rest);
    log_flush();
    return 0;
}
