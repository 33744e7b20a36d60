/*
 * torture_core.c - the Nth allocation of memory fails, for each N.
 *
 * One scenario touches every command. It is run again and again, with one failing allocation each time, until
 * it runs through without reaching the failure. Whatever was answered: every invariant must hold afterwards,
 * and the records must still tell the whole story.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "core/core.h"

enum {
    ARENA_MAX = 1024 * 1024,
    DUMP_MAX = 1024 * 1024,
};

/* The linker sends the calls of the code under test here. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);

static uint64_t until_failure; /* 0: none is planned */
static bool has_failed;

static bool must_fail(void)
{
    if (until_failure == 0 || --until_failure > 0)
        return false;
    has_failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return must_fail() ? NULL : __real_realloc(pointer, size);
}

char *__wrap_strdup(const char *text)
{
    return must_fail() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t len)
{
    return must_fail() ? NULL : __real_strndup(text, len);
}

#define SEEN(pod_name, ready, uid, ...)                                                                      \
    {                                                                                                        \
        .name = pod_name, .address = "10.0.0.1:80", .incarnation = uid, .source = POD_SOURCE_KUBERNETES,     \
        .is_ready = ready, __VA_ARGS__                                                                       \
    }

static const struct pod_seen synced[] = {SEEN("pod-a", true, "1"), SEEN("pod-b", false, "1"),
                                         SEEN("pod-d", true, "2")};
static const struct pod_seen kept[] = {{.name = "pod-a", .is_kept = true},
                                       {.name = "pod-z", .is_kept = true}};
static const char *const some_sids[] = {"CA1", "CA2", "CA9"};
static const char *const lost_sids[] = {"CA7", "CA8", "CA2"};
static const char *const lost_pods[] = {"pod-d", "pod-a", "pod-d"};

static const char *const movable_sids[] = {"CW0"};
static const char *const movable_pods[] = {"pod-g"};
static const bool movable[] = {true};
static const char *const waiting_sids[] = {"CW5", "CW6"};
static const struct keep_call kept_calls[] = {
    {{.call_sid = "CW1", .merchant_id = "w", .provider = ""}},
    {{.call_sid = "CW0", .merchant_id = "", .provider = ""}, .is_first = true},
    {{.call_sid = "CW7",
      .merchant_id = "w",
      .provider = "plivo",
      .since_ms = 1769999990000,
      .until_ms = 1770000090000}},
    {{.call_sid = "CW8", .merchant_id = "", .provider = "", .since_ms = 1769999990000, .until_ms = 1}},
    {{.call_sid = "CW8", .merchant_id = "", .provider = ""}},
    {{.call_sid = "CA5", .merchant_id = "", .provider = ""}},
};

#define ALLOCATE(sid, merchant)                                                                              \
    {                                                                                                        \
        .type = COMMAND_ALLOCATE, .allocate = { sid, merchant, "twilio", .attempt = __LINE__ }               \
    }
#define WAIT(sid, merchant)                                                                                  \
    {                                                                                                        \
        .type = COMMAND_ALLOCATE, .allocate = {                                                              \
            sid,                                                                                             \
            merchant,                                                                                        \
            "twilio",                                                                                        \
            .attempt = __LINE__,                                                                             \
            .waits = true,                                                                                   \
            .holder = "router-0"                                                                             \
        }                                                                                                    \
    }
#define SEE(...)                                                                                             \
    {                                                                                                        \
        .type = COMMAND_POD_SEEN, .pod_seen = {.pod = SEEN(__VA_ARGS__) }                                    \
    }

static const struct command scenario[] = {
    {.type = COMMAND_TIERS_SET,
     .tiers_set = {"{\"gold\":1,\"standard\":1,\"s\":{\"type\":\"shared\",\"target\":1},\"merchant:m\":1}"}},
    {.type = COMMAND_MERCHANT_SET, .merchant_set = {"m", "{\"pool\":\"m\",\"fallback\":[\"s\"]}"}},
    SEE("pod-a", true, "1"),
    SEE("pod-b", true, "1"),
    SEE("pod-c", true, "1"),
    SEE("pod-d", true, "1"),
    ALLOCATE("CA1", "m"),
    ALLOCATE("CA2", ""),
    ALLOCATE("CA2", ""),
    ALLOCATE("CA3", "m"),
    ALLOCATE("CA4", ""),
    ALLOCATE("CA5", ""),
    ALLOCATE("CA6", ""),
    {.type = COMMAND_RENEW, .renew = {some_sids, 3}},
    {.type = COMMAND_PRESENT, .present = {"router-0", false}},
    {.type = COMMAND_HEARTBEAT, .heartbeat = {"pod-c", some_sids, 3}},
    {.type = COMMAND_STATUS},
    {.type = COMMAND_PODS, .pods = {.state = -1}},
    {.type = COMMAND_POD, .pod = {"pod-c"}},
    {.type = COMMAND_CALLS},
    {.type = COMMAND_CALL, .call = {"CA1"}},
    {.type = COMMAND_MERCHANTS, .merchants = {.limit = 1}},
    {.type = COMMAND_MERCHANT, .merchant = {"m"}},
    {.type = COMMAND_TIERS},
    {.type = COMMAND_DRAIN, .drain = {"pod-a", 1000}},
    {.type = COMMAND_UNDRAIN, .undrain = {"pod-a"}},
    {.type = COMMAND_RELEASE, .release = {"CA4"}},
    {.type = COMMAND_MOVE_CALL, .move = {"CA1", "pod-a", 1000, NULL}},
    {.type = COMMAND_MOVE_CALL, .move = {"CA1", "pod-a", 1000, NULL}},
    {.type = COMMAND_MOVE_CALL, .move = {"CA2", "pod-b", 1000, NULL}},
    {.type = COMMAND_MOVE_CALL, .move = {"CA3", "pod-c", 1000, NULL}},
    SEE("pod-b", false, "1"),
    SEE("pod-c", true, "2"),
    {.type = COMMAND_TIERS_SET, .tiers_set = {"{\"gold\":1,\"other\":2}"}},
    {.type = COMMAND_REBALANCE},
    {.type = COMMAND_SCALE, .scale = {.by_set = true}},
    {.type = COMMAND_STATUS, .status = {.with_sets = true}},
    ALLOCATE("CA1", "m"), /* its lease has run out */
    ALLOCATE("CA5", ""),
    {.type = COMMAND_HOLD, .hold = {"CA5", "router-0"}},
    {.type = COMMAND_RELEASE, .release = {"CA2"}},
    {.type = COMMAND_LEAVE, .leave = {"CA5", "router-0", 0}},
    {.type = COMMAND_RELEASE, .release = {.call_sid = "CA5", .why = FINISH_CLOSED}},
    {.type = COMMAND_RENEW, .renew = {lost_sids, 3, "router-0", lost_pods}},
    {.type = COMMAND_HEARTBEAT, .heartbeat = {"pod-d", lost_sids, 3}},
    {.type = COMMAND_HOLD, .hold = {"CA2", "router-0"}},
    {.type = COMMAND_ALLOCATE, .allocate = {"CB1", "", "twilio", .attempt = 1}},
    {.type = COMMAND_ALLOCATE, .allocate = {"CB1", "", "twilio", .attempt = 2}},
    {.type = COMMAND_ALLOCATE, .allocate = {"CB1", "", "twilio", .attempt = 3}},
    {.type = COMMAND_UNDO, .undo = {"CB1", 1}},
    {.type = COMMAND_UNDO, .undo = {"CB1", 3}},
    {.type = COMMAND_UNDO, .undo = {"CB1", 2}},
    SEE("pod-d", true, "3", .started_at_ms = 1770000030000),
    {.type = COMMAND_POD_GONE, .pod_gone = {"pod-d", POD_SOURCE_KUBERNETES, .is_absent = true}},
    {.type = COMMAND_SYNC, .sync = {POD_SOURCE_KUBERNETES, kept, ARRAY_LEN(kept), .spares_calls = true}},
    {.type = COMMAND_SYNC, .sync = {POD_SOURCE_KUBERNETES, synced, ARRAY_LEN(synced)}},
    {.type = COMMAND_SWEEP},
    {.type = COMMAND_POD_GONE, .pod_gone = {"pod-a", POD_SOURCE_KUBERNETES}},
    {.type = COMMAND_MERCHANT_SET, .merchant_set = {"m", "{\"tier\":\"nowhere\"}", {.by = "ops"}}},
    {.type = COMMAND_HISTORY, .history = {"m"}},
    {.type = COMMAND_MERCHANT_REMOVE, .merchant_remove = {"m"}},
    {.type = COMMAND_HISTORY},
    /* The line. There is one pod. */
    {.type = COMMAND_TIERS_SET, .tiers_set = {"{\"gold\":1,\"s\":{\"type\":\"shared\",\"target\":1}}"}},
    {.type = COMMAND_SYNC, .sync = {POD_SOURCE_KUBERNETES, NULL, 0}},
    SEE("pod-g", true, "1"),
    {.type = COMMAND_MERCHANT_SET, .merchant_set = {"w", "{\"fallback\":[\"gold\"],\"priority\":2}"}},
    ALLOCATE("CW0", ""),
    {.type = COMMAND_RENEW, .renew = {movable_sids, 1, "router-0", movable_pods, .can_move = movable}},
    WAIT("CW1", "w"),
    WAIT("CW2", ""),
    WAIT("CW3", "w"),
    WAIT("CW2", ""),
    {.type = COMMAND_MERCHANT_SET, .merchant_set = {"w", "{\"fallback\":[\"s\",\"gold\"]}"}},
    WAIT("CW1", "w"), /* its chain is longer now */
    {.type = COMMAND_KEEP, .keep = {kept_calls, ARRAY_LEN(kept_calls), "router-0"}},
    {.type = COMMAND_WAITING, .waiting = {.limit = 2}},
    {.type = COMMAND_CALL, .call = {"CW1"}},
    {.type = COMMAND_STORY, .call = {"CW1"}},
    {.type = COMMAND_HOLD, .hold = {"CW2", "router-0"}},
    {.type = COMMAND_POD_GONE, .pod_gone = {"pod-g", POD_SOURCE_KUBERNETES}}, /* CW0 joins the line */
    SEE("pod-h", true, "1"),                                                  /* and is granted */
    {.type = COMMAND_HOLD, .hold = {"CW0", "router-0"}},
    {.type = COMMAND_RELEASE, .release = {"CW3"}},
    {.type = COMMAND_MOVE_CALL, .move = {"CW0", "pod-h", 1000, .carrier = "router-0"}},
    {.type = COMMAND_UNDRAIN, .undrain = {"pod-h"}},
    SEE("pod-i", true, "1"),
    SEE("pod-j", true, "1"),
    WAIT("CW1", "w"),
    {.type = COMMAND_DEPART, .depart = {movable_sids, 1, "router-0"}},
    {.type = COMMAND_ALLOCATE, .allocate = {"CW0", "", "", .is_resume = true}},
    {.type = COMMAND_ALLOCATE, .allocate = {"CW3", "", "", .is_resume = true}},
    {.type = COMMAND_ALLOCATE, .allocate = {"CW9", "", "", .is_resume = true, .resume_pod = "pod-j"}},
    {.type = COMMAND_SERVE},
    WAIT("CW5", "w"),
    WAIT("CW6", "w"),
    {.type = COMMAND_UNDO, .undo = {"CW6", __LINE__ - 1}},
    {.type = COMMAND_HEARTBEAT, .heartbeat = {"pod-h", waiting_sids, 2}},
    {.type = COMMAND_DRAIN, .drain = {"pod-i", 1000}},
    {.type = COMMAND_SERVE, .serve = {.limit = 1}},
    {.type = COMMAND_SWEEP},
    {.type = COMMAND_SYNC, .sync = {POD_SOURCE_KUBERNETES, NULL, 0}},
    {.type = COMMAND_STATUS},
};

static void replicate(void *arg, const struct record *record)
{
    /* The replica is on another machine, so to speak: its memory does not fail. */
    uint64_t planned = until_failure;
    int rc;

    until_failure = 0;
    rc = core_apply(arg, record);
    until_failure = planned;
    if (rc) {
        fprintf(stderr, "a record of type %d cannot be applied: %d\n", (int)record->type, rc);
        abort();
    }
}

static void dump_line(void *arg, const struct record *record)
{
    struct strbuf *buf = arg;

    if (record->type == RECORD_POD)
        strbuf_printf(buf, "%s %s %s %d%d;", record->pod.name, record->pod.tier, record->pod.incarnation,
                      record->pod.is_ready, record->pod.draining_until_ms > 0);
    else if (record->type == RECORD_CALL)
        strbuf_printf(buf, "%s", "call;"); /* in no particular order: their number counts here */
    else if (record->type == RECORD_RENEWED || record->type == RECORD_RENEWED_BY)
        strbuf_printf(buf, "%s", "renewed;");
    else if (record->type == RECORD_CONNECTED)
        strbuf_printf(buf, "%s", "connected;");
    else if (record->type == RECORD_PLACED)
        strbuf_printf(buf, "%s", "placed;");
    else if (record->type == RECORD_TOMBSTONE)
        strbuf_printf(buf, "%s over;", record->tombstone.call_sid);
    else if (record->type == RECORD_VERSION)
        strbuf_printf(buf, "%s", "version;"); /* in no particular order */
    else if (record->type == RECORD_WAITING)
        strbuf_printf(buf, "%s waits %s;", record->waiting.call_sid, record->waiting.pools);
    else if (record->type == RECORD_GRANTED)
        strbuf_printf(buf, "%s", "granted;");
    else if (record->type == RECORD_TIERS)
        strbuf_printf(buf, "%s;", record->tiers.text);
}

static bool is_replicated(const struct core *core, const struct core *replica)
{
    struct strbuf one, other;
    bool is_equal;

    strbuf_init(&one, NULL, DUMP_MAX);
    strbuf_init(&other, NULL, DUMP_MAX);
    core_dump(core, dump_line, &one);
    core_dump(replica, dump_line, &other);
    is_equal = strcmp(one.data, other.data) == 0;
    if (!is_equal)
        fprintf(stderr, "state:   %s\nrecords: %s\n", one.data, other.data);
    strbuf_release(&one);
    strbuf_release(&other);
    return is_equal;
}

/* Runs the scenario with the Nth allocation failing. False: something is broken. */
static bool run(uint64_t n)
{
    const struct core_settings settings = {.lease_ttl_ms = 900000,
                                           .call_max_duration_ms = 3600000,
                                           .connect_timeout_ms = 5000,
                                           .draining_ttl_ms = 360000,
                                           .heartbeat_ttl_ms = 90000,
                                           .hold_max_wait_ms = 30000,
                                           .hold_max_calls = 100,
                                           .hold_ageing_ms = 1000,
                                           .rescues = true};
    struct core *core = NULL;
    struct core *replica = NULL;
    struct arena arena;
    char error[256];
    bool is_sound = true;

    until_failure = 0;
    has_failed = false;
    if (core_new(&settings, &core) || core_new(&settings, &replica))
        return false;
    core_on_record(core, replicate, replica);
    arena_init(&arena, ARENA_MAX);
    until_failure = n;
    for (size_t i = 0; is_sound && i < ARRAY_LEN(scenario); i++) {
        struct result result;
        int rc = core_execute(core, &scenario[i], 1770000000000 + i * 1000, &arena, &result);

        if (rc && rc != -ENOMEM) {
            fprintf(stderr, "command %zu answered %d\n", i, rc);
            is_sound = false;
        }
        if (!core_check(core, error, sizeof(error))) {
            fprintf(stderr, "command %zu: %s\n", i, error);
            is_sound = false;
        }
        arena_release(&arena); /* so that every command asks for memory */
    }
    until_failure = 0;
    is_sound = is_sound && is_replicated(core, replica);
    core_free(core);
    core_free(replica);
    arena_release(&arena);
    return is_sound;
}

int main(void)
{
    uint64_t n = 1;

    do {
        if (!run(n)) {
            printf("allocation %" PRIu64 " failed, and something broke\n", n);
            return 1;
        }
        n++;
    } while (has_failed);
    printf("%" PRIu64 " single failures of memory, nothing broken\n", n - 2);
    return n > 50 ? 0 : 1; /* fewer would mean that the failures do not arrive */
}
