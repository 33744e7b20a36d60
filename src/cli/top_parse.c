/*
 * top_parse.c - reads the router's answers into the model of `smart-router top`.
 */
#include "cli/top_parse.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/json.h"

enum {
    JSON_MAX = 64 * 1024 * 1024,
    POOLS_MAX = 64 * 1024, /* the names of one call's pools */
};

/* ---- members ---- */

static const cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = json_get_string(object, key);

    return text ? text : "";
}

static uint64_t number_of(const cJSON *object, const char *key)
{
    const cJSON *number = member(object, key);

    if (!cJSON_IsNumber(number) || !(number->valuedouble >= 0))
        return 0;
    return number->valuedouble < 1e15 ? (uint64_t)number->valuedouble : (uint64_t)1e15;
}

uint64_t top_parse_time(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    uint64_t ms = 0, unit = 100;
    time_t seconds;

    if (!rest)
        return 0;
    if (*rest == '.') {
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            ms += (uint64_t)(*rest - '0') * unit;
    }
    seconds = timegm(&tm);
    return strcmp(rest, "Z") == 0 && seconds > 0 ? (uint64_t)seconds * 1000 + ms : 0;
}

static uint64_t time_of(const cJSON *object, const char *key)
{
    return top_parse_time(text_of(object, key));
}

/* ---- status ---- */

static void parse_head(struct top_status *status, const cJSON *root)
{
    snprintf(status->identity, sizeof(status->identity), "%s", text_of(root, "identity"));
    snprintf(status->leader, sizeof(status->leader), "%s", text_of(root, "leader"));
    snprintf(status->version, sizeof(status->version), "%s", text_of(root, "version"));
    snprintf(status->store, sizeof(status->store), "%s", text_of(root, "store"));
    status->is_leader = cJSON_IsTrue(member(root, "is_leader"));
    status->is_up = strcmp(text_of(root, "status"), "up") == 0;
    status->uptime_s = number_of(root, "uptime_seconds");
    if (!status->is_up)
        return; /* the numbers are not known: the last ones stay */
    status->pods = number_of(root, "pods");
    status->active_calls = number_of(root, "active_calls");
    status->waiting = number_of(root, "waiting");
}

static void parse_pools(struct top_model *model, const cJSON *tiers)
{
    const cJSON *tier;

    top_load_begin(model, TOP_POOLS);
    cJSON_ArrayForEach(tier, tiers)
    {
        struct top_pool pool = {
            .name = tier->string,
            .type = text_of(tier, "type"),
            .assigned = number_of(tier, "assigned"),
            .available = number_of(tier, "available"),
            .busy = number_of(tier, "busy"),
            .draining = number_of(tier, "draining"),
            .suspended = number_of(tier, "suspended"),
            .calls = number_of(tier, "calls"),
            .capacity = number_of(tier, "capacity"),
            .waiting = number_of(tier, "waiting"),
        };

        if (top_add_pool(model, &pool) < 0)
            break;
    }
    top_load_commit(model, TOP_POOLS);
}

int top_parse_status(struct top_model *model, struct slice body)
{
    struct arena arena;
    const cJSON *root, *tiers;
    int err = -EINVAL;

    arena_init(&arena, JSON_MAX);
    root = json_parse(&arena, body);
    if (cJSON_IsObject(root) && json_get_string(root, "status")) {
        err = 0;
        parse_head(&model->status, root);
        model->has_status = true;
        tiers = member(root, "tiers");
        if (cJSON_IsObject(tiers))
            parse_pools(model, tiers);
        else
            top_load_failed(model, TOP_POOLS, "the store of the router is not reachable");
        model->version++;
    }
    arena_release(&arena);
    return err;
}

/* ---- pages ---- */

static uint64_t draining_until(const cJSON *item)
{
    const cJSON *until = member(item, "draining_until");

    if (cJSON_IsNull(until))
        return UINT64_MAX;
    if (cJSON_IsString(until))
        return time_of(item, "draining_until");
    return cJSON_IsTrue(member(item, "is_draining")) ? UINT64_MAX : 0;
}

static int parse_pod(struct top_model *model, const cJSON *item)
{
    const struct top_pod pod = {
        .name = text_of(item, "pod_name"),
        .tier = text_of(item, "tier"),
        .state = text_of(item, "state"),
        .calls = (uint64_t)cJSON_GetArraySize(member(item, "calls")),
        .heartbeat_ms = time_of(item, "last_heartbeat_at"),
        .until_ms = draining_until(item),
    };

    return top_add_pod(model, &pod);
}

static int parse_call(struct top_model *model, const cJSON *item)
{
    const struct top_call call = {
        .sid = text_of(item, "call_sid"),
        .pod = text_of(item, "pod_name"),
        .pool = text_of(item, "source_pool"),
        .merchant = text_of(item, "merchant_id"),
        .provider = text_of(item, "provider"),
        .state = text_of(item, "state"),
        .allocated_ms = time_of(item, "allocated_at"),
    };

    return top_add_call(model, &call);
}

/* "gold merchant:acme": there is little room, and "pool:" says nothing. */
static void append_pools(struct strbuf *buf, const cJSON *pools)
{
    static const char prefix[] = "pool:";
    const cJSON *pool;

    cJSON_ArrayForEach(pool, pools)
    {
        const char *name = cJSON_IsString(pool) ? pool->valuestring : "?";

        if (strncmp(name, prefix, sizeof(prefix) - 1) == 0)
            name += sizeof(prefix) - 1;
        strbuf_printf(buf, "%s%s", buf->len > 0 ? " " : "", name);
    }
}

static int parse_waiter(struct top_model *model, const cJSON *item)
{
    struct top_waiter waiter = {
        .sid = text_of(item, "call_sid"),
        .merchant = text_of(item, "merchant_id"),
        .provider = text_of(item, "provider"),
        .state = cJSON_IsTrue(member(item, "rescued")) ? "rescued" : "waiting",
        .position = number_of(item, "position"),
        .priority = number_of(item, "priority"),
        .waited_ms = number_of(item, "waited_seconds") * 1000,
        .until_ms = time_of(item, "until"),
    };
    struct strbuf pools;
    int err;

    strbuf_init(&pools, NULL, POOLS_MAX);
    append_pools(&pools, member(item, "pools"));
    waiter.pools = pools.len > 0 && !strbuf_failed(&pools) ? pools.data : "";
    err = top_add_waiter(model, &waiter);
    strbuf_release(&pools);
    return err;
}

static int parse_item(struct top_model *model, enum top_view view, const cJSON *item)
{
    return view == TOP_PODS    ? parse_pod(model, item)
           : view == TOP_CALLS ? parse_call(model, item)
                               : parse_waiter(model, item);
}

const char *top_parse_member(enum top_view view)
{
    assert(top_has_pages(view));
    return view == TOP_PODS ? "pods" : view == TOP_CALLS ? "calls" : "waiting";
}

int top_parse_page(struct top_model *model, enum top_view view, struct slice body, struct strbuf *cursor)
{
    const char *key = top_parse_member(view);
    struct arena arena;
    const cJSON *root, *items, *item;
    int err = -EINVAL;

    arena_init(&arena, JSON_MAX);
    root = json_parse(&arena, body);
    items = member(root, key);
    if (cJSON_IsArray(items)) {
        err = 0;
        strbuf_reset(cursor);
        strbuf_append_str(cursor, text_of(root, "next_cursor"));
        cJSON_ArrayForEach(item, items)
        {
            if (parse_item(model, view, item) < 0) {
                strbuf_reset(cursor); /* full: further pages have no room either */
                strbuf_append_str(cursor, "");
                break;
            }
        }
    }
    arena_release(&arena);
    return err;
}

/* ---- events ---- */

static void append_member(struct strbuf *buf, const cJSON *root, const char *key, const char *label)
{
    const char *text = text_of(root, key);

    if (text[0])
        strbuf_printf(buf, "%s%s%s", buf->len > 0 ? " " : "", label, text);
}

void top_parse_event(struct top_model *model, struct slice data, uint64_t wall_ms)
{
    struct arena arena;
    struct strbuf detail;
    const cJSON *root;

    arena_init(&arena, JSON_MAX);
    strbuf_init(&detail, &arena, TOP_TEXT_MAX);
    root = json_parse(&arena, data);
    if (json_get_string(root, "event")) {
        uint64_t time_ms = time_of(root, "time");
        struct top_event event = {
            .kind = text_of(root, "event"),
            .call = text_of(root, "call_sid"),
            .pod = text_of(root, "pod_name"),
            .time_ms = time_ms > 0 ? time_ms : wall_ms,
        };

        append_member(&detail, root, "reason", "");
        append_member(&detail, root, "source_pool", "");
        append_member(&detail, root, "tier", "");
        append_member(&detail, root, "from_pod", "from ");
        append_member(&detail, root, "merchant_id", "merchant ");
        append_member(&detail, root, "provider", "");
        if (cJSON_IsNumber(member(root, "count")))
            strbuf_printf(&detail, "%s%" PRIu64, detail.len > 0 ? " " : "", number_of(root, "count"));
        if (strncmp(event.kind, "leader_", 7) == 0)
            append_member(&detail, root, "replica", "");
        event.detail = strbuf_slice(&detail).data;
        top_add_event(model, &event);
    }
    arena_release(&arena);
}

/* ---- answers to requests of the operator ---- */

void top_parse_refusal(int status, struct slice body, char *text, size_t size)
{
    struct arena arena;
    const char *error;

    arena_init(&arena, JSON_MAX);
    error = json_get_string(json_parse(&arena, body), "error");
    if (error)
        snprintf(text, size, "%d %s", status, error);
    else
        snprintf(text, size, "status %d", status);
    arena_release(&arena);
}

void top_parse_answer(struct top_model *model, const struct top_request *request, int status,
                      struct slice body)
{
    static const char *const verbs[] = {
        [TOP_DRAIN] = "drained", [TOP_UNDRAIN] = "undrained", [TOP_RELEASE] = "released"};
    char refusal[TOP_TEXT_MAX + 1];
    struct arena arena;
    const cJSON *root;
    uint64_t left;

    if (status != 200) {
        top_parse_refusal(status, body, refusal, sizeof(refusal));
        top_say(model, true, "%s is not %s: %s", request->name, verbs[request->action], refusal);
        return;
    }
    arena_init(&arena, JSON_MAX);
    root = json_parse(&arena, body);
    left = number_of(root, "calls_left");
    switch (request->action) {
    case TOP_DRAIN:
        top_say(model, false, "%s is draining, %" PRIu64 " call%s left, until %s", request->name, left,
                left == 1 ? "" : "s",
                json_get_string(root, "draining_until") ? text_of(root, "draining_until")
                                                        : "it is undrained");
        break;
    case TOP_UNDRAIN:
        top_say(model, false, "%s is not draining any more", request->name);
        break;
    case TOP_RELEASE:
        if (cJSON_IsTrue(member(root, "is_kept")) && !text_of(root, "pod_name")[0])
            top_say(model, true,
                    "%s is not released: it has lost its pod a moment ago, try again in a minute",
                    request->name);
        else if (cJSON_IsTrue(member(root, "is_kept")))
            top_say(model, true, "%s is not released: it has got a pod meanwhile, release it there",
                    request->name);
        else if (!text_of(root, "pod_name")[0])
            top_say(model, false, "%s is released: it waited for a pod", request->name);
        else if (text_of(root, "released_to_pool")[0])
            top_say(model, false, "%s is released, %s is back in %s", request->name,
                    text_of(root, "pod_name"), text_of(root, "released_to_pool"));
        else
            top_say(model, false, "%s is released, %s gets no new call", request->name,
                    text_of(root, "pod_name"));
        break;
    }
    arena_release(&arena);
}
