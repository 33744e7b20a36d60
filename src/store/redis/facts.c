/*
 * facts.c - what Redis tells operators who look for a fault: its clock, the routers, and its own state.
 *
 * Two requests: a script for the clock and the routers, and INFO. A user of Redis may lack the right to
 * INFO, as on managed services; then only the first part is told. CONFIG is not used, because even more
 * services forbid it.
 */
#include <stdlib.h>

#include "store/redis/answer.h"

enum {
    FACTS_MAGIC = 0x66616374,
    ROUTERS_MAX = 256,
};

/* The value of the carrier key of routers that do not tell their version. */
#define OLDER_ROUTER "1"

struct facts_request {
    unsigned magic;
    struct redis_store *store;
    struct arena *arena;
    struct store_facts *facts;
    store_facts_fn done;
    void *arg;
};

/* The value of "name:value\r\n" in an INFO; empty if it is not there. */
static struct slice info_value(struct slice info, const char *name)
{
    size_t len = strlen(name);

    while (info.len > 0) {
        const char *end = memchr(info.data, '\n', info.len);
        size_t line = end ? (size_t)(end - info.data) : info.len;
        size_t trimmed = line > 0 && info.data[line - 1] == '\r' ? line - 1 : line;

        if (trimmed > len && memcmp(info.data, name, len) == 0 && info.data[len] == ':')
            return (struct slice){info.data + len + 1, trimmed - len - 1};
        line += end != NULL;
        info = (struct slice){info.data + line, info.len - line};
    }
    return (struct slice){"", 0};
}

static uint64_t info_number(struct slice info, const char *name)
{
    struct slice value = info_value(info, name);
    uint64_t number = 0;

    for (size_t i = 0; i < value.len && value.data[i] >= '0' && value.data[i] <= '9'; i++) {
        if (number > (UINT64_MAX - 9) / 10)
            return UINT64_MAX;
        number = number * 10 + (uint64_t)(value.data[i] - '0');
    }
    return number;
}

static const char *info_text(struct slice info, const char *name, struct arena *arena)
{
    struct slice value = info_value(info, name);
    const char *copy = arena_copy(arena, value.data, value.len);

    return copy ? copy : "";
}

static void facts_read_info(struct facts_request *request, struct slice info)
{
    struct store_facts *facts = request->facts;

    facts->has_server = true;
    facts->server.version = info_text(info, "redis_version", request->arena);
    facts->server.role = info_text(info, "role", request->arena);
    facts->server.eviction_policy = info_text(info, "maxmemory_policy", request->arena);
    facts->server.logs_writes = info_number(info, "aof_enabled") == 1;
    facts->server.fails_to_log = slice_equals(info_value(info, "aof_last_write_status"), "err");
    facts->server.fails_to_save = slice_equals(info_value(info, "rdb_last_bgsave_status"), "err");
    facts->server.max_memory = info_number(info, "maxmemory");
    facts->server.used_memory = info_number(info, "used_memory");
    facts->server.evicted_keys = info_number(info, "evicted_keys");
    facts->server.replicas = info_number(info, "connected_slaves");
}

static void facts_answer(struct facts_request *request, int err)
{
    request->magic = 0;
    request->done(request->arg, err);
}

/* Without the right to ask, or with another answer than expected, this part is not told. */
static void facts_informed(void *arg, int err, const redisReply *reply)
{
    struct facts_request *request = arg;

    MAGIC_CHECK(request, FACTS_MAGIC);
    if (err == 0 && reply->type == REDIS_REPLY_STRING)
        facts_read_info(request, (struct slice){reply->str, reply->len});
    facts_answer(request, 0);
}

static int facts_read_routers(struct facts_request *request, const redisReply *reply)
{
    struct store_facts *facts = request->facts;
    struct store_router *routers;
    struct answer answer;

    answer_init(&answer, reply, request->arena);
    facts->clock_ms = answer_u64(&answer);
    routers = arena_alloc(request->arena, (answer_left(&answer) / 3 + 1) * sizeof(*routers));
    if (!routers)
        return -ENOMEM;
    facts->routers = routers;
    while (answer_left(&answer) > 0) {
        struct store_router *router = &routers[facts->router_count];

        router->name = answer_text(&answer);
        router->version = answer_text(&answer);
        if (strcmp(router->version, OLDER_ROUTER) == 0)
            router->version = "older";
        router->silent_ms = answer_u64(&answer);
        facts->router_count += !answer.err;
    }
    return answer.err;
}

static void facts_told(void *arg, int err, const redisReply *reply)
{
    static const struct slice info[] = {SLICE("INFO")};
    struct facts_request *request = arg;

    MAGIC_CHECK(request, FACTS_MAGIC);
    if (err == 0)
        err = facts_read_routers(request, reply);
    if (err == 0)
        err = redis_link_command(request->store->link, info, ARRAY_LEN(info), 0, facts_informed, request);
    if (err < 0)
        facts_answer(request, err);
}

int redis_ask_facts(struct store *store, struct arena *arena, struct store_facts *ret_facts,
                    store_facts_fn done, void *arg)
{
    struct redis_store *redis = redis_of(store);
    struct facts_request *request = arena_alloc(arena, sizeof(*request));
    struct args args;

    if (!redis->tiers)
        return -ENOTCONN;
    if (!request)
        return -ENOMEM;
    *ret_facts = (struct store_facts){0};
    *request = (struct facts_request){FACTS_MAGIC, redis, arena, ret_facts, done, arg};
    args_begin_with(&args, redis, redis->tiers, arena, SCRIPT_ROUTERS_ARGS);
    args_add_u64(&args, ROUTERS_MAX - 1);
    assert(args.failed || redis_script_takes(redis_script(SCRIPT_ROUTERS), args.count));
    return args.failed ? -ENOMEM
                       : redis_link_call(redis->link, redis_script(SCRIPT_ROUTERS), redis->keys.active,
                                         args.items, args.count, facts_told, request);
}
