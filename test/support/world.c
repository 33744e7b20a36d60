/* world.c - opens, runs and closes the worlds of world.h, and sends them commands. */
#include "world.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/embedded/embedded_internal.h"
#include "store/redis/redis.h"

enum { TURNS_MAX = 2000000 }; /* of the loop, before a wait is given up */

struct world_kind world_core = {.type = WORLD_CORE, .name = "core"};

uint64_t __wrap_clock_elapsed_ms(void);

/* Stands still, so that a store's time is exactly the one of the test. */
uint64_t __wrap_clock_elapsed_ms(void)
{
    return HOUR;
}

/* One answer in waiting. */
struct waiting {
    uv_loop_t *loop;
    bool is_done;
    int err;
    const struct result *result;
};

static void answered(void *arg, int err, const struct result *result)
{
    struct waiting *waiting = arg;

    assert_false(waiting->is_done);
    assert_int_equal(err == 0, result != NULL);
    *waiting = (struct waiting){waiting->loop, true, err, result};
    uv_stop(waiting->loop); /* an answer from a timer must not wait for the next event */
}

static void execute(struct world *world, const struct command *command)
{
    struct waiting waiting = {.loop = &world->loop};
    int rc = store_execute(world->store, command, &world->arena, answered, &waiting);

    if (rc)
        fail_msg("%s refuses %s: %s", world->kind->name, command_name(command->type), strerror(-rc));
    assert_false(waiting.is_done); /* never inside the call */
    for (int i = 0; !waiting.is_done && i < TURNS_MAX; i++)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_true(waiting.is_done);
    if (waiting.err)
        fail_msg("%s fails at %s: %s", world->kind->name, command_name(command->type),
                 strerror(-waiting.err));
    world->result = *waiting.result;
}

struct result *run(struct world *world, const struct command *command)
{
    char error[256] = "";

    if (world->store)
        execute(world, command);
    else
        assert_int_equal(core_execute(world->core, command, world->now_ms, &world->arena, &world->result), 0);
    if (world->core && !core_check(world->core, error, sizeof(error)))
        fail_msg("%s", error);
    return &world->result;
}

static void lost_calls_told(void *arg, const struct ended_call *call)
{
    struct world *world = arg;

    assert_non_null(call->call_sid);
    world->told++;
    world->told_of[call->why]++;
    snprintf(world->told_merchant, sizeof(world->told_merchant), "%s", call->merchant_id);
}

static void open_embedded(struct world *world, const struct core_settings *core)
{
    struct embedded_settings settings = {.data_dir = world->dir, .fsync = EMBEDDED_FSYNC_NO, .core = *core};
    struct embedded_report report;
    char error[512] = "";

    snprintf(world->dir, sizeof(world->dir), "/tmp/conformance-XXXXXX");
    assert_non_null(mkdtemp(world->dir));
    if (embedded_open(&world->loop, &settings, &world->store, &report, error, sizeof(error)))
        fail_msg("%s", error);
    world->core = embedded_core(world->store);
}

static void open_redis(struct world *world, const struct core_settings *core)
{
    char prefix[32];
    struct redis_settings settings = {
        .key_prefix = prefix, .core = *core, .call_info_ttl_ms = HOUR, .tier_refresh_ms = HOUR};
    struct store_health health = {0};

    snprintf(prefix, sizeof(prefix), "world-%u:", world->kind->worlds++);
    snprintf(settings.link.servers[0].host, sizeof(settings.link.servers[0].host), "%s",
             world->kind->server->socket);
    settings.link.server_count = 1;
    settings.link.user = "";
    settings.link.password = "";
    settings.link.timeout_ms = MINUTE;
    assert_int_equal(redis_open(&world->loop, &settings, &world->store), 0);
    for (int i = 0; !health.is_ready && i < TURNS_MAX; i++) {
        uv_run(&world->loop, UV_RUN_ONCE);
        store_health(world->store, &health);
    }
    assert_true(health.is_ready);
}

static struct core_settings core_settings_with(uint64_t connect_timeout_ms)
{
    return (struct core_settings){.lease_ttl_ms = LEASE,
                                  .call_max_duration_ms = 4 * HOUR,
                                  .connect_timeout_ms = connect_timeout_ms,
                                  .draining_ttl_ms = 6 * MINUTE,
                                  .heartbeat_ttl_ms = 90000};
}

static void open_store(struct world *world, const struct core_settings *settings)
{
    if (world->kind->type == WORLD_REDIS)
        open_redis(world, settings);
    else
        open_embedded(world, settings);
    assert_int_equal(store_start_events(world->store, &world->loop, "router-0"), 0);
    store_on_ended(world->store, lost_calls_told, world);
}

static void world_open(struct world *world, struct world_kind *kind, const char *tiers,
                       struct core_settings settings)
{
    *world = (struct world){.kind = kind, .now_ms = UINT64_C(1770000000000), .settings = settings};
    log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    arena_init(&world->arena, 64 * 1024 * 1024);
    assert_int_equal(uv_loop_init(&world->loop), 0);
    if (kind->type == WORLD_CORE) {
        assert_int_equal(core_new(&settings, &world->core), 0);
        core_on_ended(world->core, lost_calls_told, world);
    } else {
        open_store(world, &settings);
    }
    if (tiers)
        assert_int_equal(tiers_set(world, tiers)->outcome, OUTCOME_OK);
}

void world_init_with(struct world *world, struct world_kind *kind, const char *tiers,
                     uint64_t connect_timeout_ms)
{
    world_open(world, kind, tiers, core_settings_with(connect_timeout_ms));
}

void world_init_waiting(struct world *world, struct world_kind *kind, const char *tiers, int count)
{
    world_init_line(world, kind, tiers, count, WAITING_MAX);
}

void world_init_busy(struct world *world, struct world_kind *kind)
{
    world_init_waiting(world, kind, ONE_TIER, 1);
    assert_int_equal(allocate(world, "CA1")->outcome, OUTCOME_OK);
}

void world_init_line(struct world *world, struct world_kind *kind, const char *tiers, int count,
                     uint64_t max_calls)
{
    struct core_settings settings = core_settings_with(0);

    settings.hold_max_wait_ms = WAIT_MAX;
    settings.hold_max_calls = max_calls;
    settings.hold_ageing_ms = AGEING;
    settings.rescues = true;
    world_open(world, kind, tiers, settings);
    add_pods(world, count);
}

void world_init(struct world *world, struct world_kind *kind, const char *tiers)
{
    world_init_with(world, kind, tiers, 0);
}

void world_init_pods(struct world *world, struct world_kind *kind, const char *tiers, int count)
{
    world_init(world, kind, tiers);
    add_pods(world, count);
}

static void remove_directory(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] != '.' || (entry->d_name[1] && entry->d_name[1] != '.'))
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    assert_int_equal(rmdir(path), 0);
}

static void closed(void *arg)
{
    *(bool *)arg = true;
}

void world_release(struct world *world)
{
    bool is_closed = false;

    if (world->store) {
        store_close(world->store, closed, &is_closed);
        uv_run(&world->loop, UV_RUN_DEFAULT);
        assert_true(is_closed);
    } else {
        core_free(world->core);
    }
    assert_int_equal(uv_loop_close(&world->loop), 0);
    arena_release(&world->arena);
    if (world->dir[0])
        remove_directory(world->dir);
}

void world_advance(struct world *world, uint64_t ms)
{
    if (world->kind->type == WORLD_REDIS) {
        *world->kind->server->clock_ms += ms;
    } else if (world->kind->type == WORLD_EMBEDDED) {
        struct embedded *embedded = embedded_of(world->store);

        /* As if the process had been awake all the while. */
        embedded->clock_start_ms += ms;
        embedded->awake_at_ms += ms;
    } else {
        world->now_ms += ms;
    }
}

uint64_t world_now(const struct world *world)
{
    if (world->kind->type == WORLD_REDIS)
        return *world->kind->server->clock_ms;
    if (world->kind->type == WORLD_EMBEDDED)
        return embedded_now(embedded_of(world->store));
    return world->now_ms;
}

void world_on_finished(struct world *world, call_finished_fn fn, void *arg)
{
    if (world->store)
        store_on_finished(world->store, fn, arg);
    else
        core_on_finished(world->core, fn, arg);
}

void world_on_changed(struct world *world, call_changed_fn fn, void *arg)
{
    if (world->store)
        store_on_changed(world->store, fn, arg);
    else
        core_on_changed(world->core, fn, arg);
}

void note_told(void *arg, const char *call_sid)
{
    char *told = arg;
    size_t len = strlen(told);

    snprintf(told + len, TOLD_MAX - len, "%s ", call_sid);
}

void wait_until_told(struct world *world, const char *told, const char *expected)
{
    for (int i = 0; strlen(told) < strlen(expected) && i < TURNS_MAX; i++)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_string_equal(told, expected);
}

struct core *world_new_core(void)
{
    struct core_settings settings = core_settings_with(0);
    struct core *core = NULL;

    assert_int_equal(core_new(&settings, &core), 0);
    return core;
}

static void apply(void *arg, const struct record *record)
{
    assert_int_equal(core_apply(arg, record), 0);
}

void world_reload(struct world *world)
{
    struct core *next = NULL;

    assert_null(world->store);
    assert_int_equal(core_new(&world->settings, &next), 0);
    core_dump(world->core, apply, next);
    core_free(world->core);
    world->core = next;
    core_on_ended(next, lost_calls_told, world);
    core_loaded(next, world->now_ms);
}

size_t call_count(struct world *world)
{
    struct result saved = world->result;
    size_t count = (size_t)run(world, &(struct command){.type = COMMAND_STATUS})->status.active_calls;

    world->result = saved;
    return count;
}

struct result *tiers_set(struct world *world, const char *text)
{
    return run(world, &(struct command){.type = COMMAND_TIERS_SET, .tiers_set = {.text = text}});
}

struct pod_seen seen_of(const char *name)
{
    return (struct pod_seen){.name = name,
                             .address = "10.0.0.1:8000",
                             .incarnation = "uid-1",
                             .source = POD_SOURCE_KUBERNETES,
                             .is_ready = true};
}

struct result *see(struct world *world, struct pod_seen seen)
{
    return run(world, &(struct command){.type = COMMAND_POD_SEEN, .pod_seen = {.pod = seen}});
}

void add_pods(struct world *world, int count)
{
    for (int i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "voice-agent-%d", i);
        assert_int_equal(see(world, seen_of(name))->outcome, OUTCOME_OK);
        assert_true(world->result.pod_seen.is_new);
    }
}

struct result *register_pod(struct world *world, const char *name)
{
    return run(world,
               &(struct command){
                   .type = COMMAND_POD_SEEN,
                   .pod_seen = {.pod = {name, .address = "", .source = POD_SOURCE_API, .is_ready = true},
                                .is_registration = true},
               });
}

struct result *remove_pod(struct world *world, const char *name)
{
    return run(world, &(struct command){.type = COMMAND_POD_GONE, .pod_gone = {name, POD_SOURCE_KUBERNETES}});
}

struct result *miss_pod(struct world *world, const char *name)
{
    return run(world, &(struct command){.type = COMMAND_POD_GONE,
                                        .pod_gone = {name, POD_SOURCE_KUBERNETES, .is_absent = true}});
}

struct result *merchant_set(struct world *world, const char *id, const char *text)
{
    return run(world, &(struct command){.type = COMMAND_MERCHANT_SET, .merchant_set = {id, text}});
}

struct result *allocate_for(struct world *world, const char *sid, const char *merchant)
{
    return run(world, &(struct command){
                          .type = COMMAND_ALLOCATE,
                          .allocate = {.call_sid = sid, .merchant_id = merchant, .provider = "twilio"},
                      });
}

struct result *allocate(struct world *world, const char *sid)
{
    return allocate_for(world, sid, "");
}

void allocate_many(struct world *world, int count)
{
    for (int i = 0; i < count; i++) {
        char sid[16];

        snprintf(sid, sizeof(sid), "CA%d", i);
        assert_int_equal(allocate(world, sid)->outcome, OUTCOME_OK);
    }
}

struct result *release(struct world *world, const char *sid)
{
    return run(world, &(struct command){.type = COMMAND_RELEASE, .release = {.call_sid = sid}});
}

struct result *renew(struct world *world, const char *sid)
{
    const char *sids[] = {sid};

    return run(world, &(struct command){.type = COMMAND_RENEW, .renew = {.call_sids = sids, .count = 1}});
}

struct result *heartbeat(struct world *world, const char *pod, const char *sid)
{
    const char *sids[] = {sid};

    return run(world, &(struct command){.type = COMMAND_HEARTBEAT,
                                        .heartbeat = {.pod = pod, .call_sids = sids, .count = sid ? 1 : 0}});
}

struct result *drain(struct world *world, const char *pod, uint64_t ttl_ms)
{
    return run(world, &(struct command){.type = COMMAND_DRAIN, .drain = {.pod = pod, .ttl_ms = ttl_ms}});
}

struct result *undrain(struct world *world, const char *pod)
{
    return run(world, &(struct command){.type = COMMAND_UNDRAIN, .undrain = {.pod = pod}});
}

struct result *move(struct world *world, const char *sid, const char *from, uint64_t aside_ms)
{
    return run(world, &(struct command){.type = COMMAND_MOVE_CALL,
                                        .move = {.call_sid = sid, .from_pod = from, .aside_ms = aside_ms}});
}

struct result *ask(struct world *world, const char *sid, uint64_t attempt)
{
    return run(world, &(struct command){.type = COMMAND_ALLOCATE,
                                        .allocate = {sid, "", "twilio", .attempt = attempt}});
}

struct result *undo(struct world *world, const char *sid, uint64_t attempt)
{
    return run(world, &(struct command){.type = COMMAND_UNDO, .undo = {sid, attempt}});
}

struct result *hold(struct world *world, const char *sid)
{
    return run(world, &(struct command){.type = COMMAND_HOLD, .hold = {sid, CARRIER}});
}

struct result *leave(struct world *world, const char *sid, uint64_t expires_at_ms)
{
    return run(world, &(struct command){.type = COMMAND_LEAVE, .leave = {sid, CARRIER, expires_at_ms}});
}

struct result *release_as(struct world *world, const char *sid, const char *pod_name, enum finish_reason why)
{
    return run(world, &(struct command){.type = COMMAND_RELEASE,
                                        .release = {.call_sid = sid, .pod = pod_name, .why = why}});
}

struct result *carry(struct world *world, const char *sid, const char *pod_name)
{
    const char *sids[] = {sid};
    const char *pods[] = {pod_name};

    return run(world, &(struct command){.type = COMMAND_RENEW, .renew = {sids, 1, CARRIER, pods}});
}

const struct call_info *call_of(struct world *world, const char *sid)
{
    run(world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = sid}});
    assert_int_equal(world->result.outcome, OUTCOME_OK);
    return &world->result.call.call;
}

bool call_exists(struct world *world, const char *sid)
{
    return run(world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = sid}})->outcome ==
           OUTCOME_OK;
}

void lose_calls_of(struct world *world, const char *name)
{
    assert_int_equal(remove_pod(world, name)->outcome, OUTCOME_OK);
    assert_true(see(world, seen_of(name))->pod_seen.is_new);
}

struct result *wait_for(struct world *world, const char *sid, const char *merchant)
{
    return run(world, &(struct command){.type = COMMAND_ALLOCATE,
                                        .allocate = {sid, merchant, "twilio", .waits = true}});
}

struct result *wait_held(struct world *world, const char *sid)
{
    return run(world, &(struct command){.type = COMMAND_ALLOCATE,
                                        .allocate = {sid, "", "twilio", .waits = true, .holder = CARRIER}});
}

struct result *resume(struct world *world, const char *sid, const char *pod_name)
{
    return run(world, &(struct command){.type = COMMAND_ALLOCATE,
                                        .allocate = {sid, "", "twilio", .waits = true, .is_resume = true,
                                                     .resume_pod = pod_name}});
}

struct result *keep_waiting(struct world *world, const char *sid, uint64_t since_ms, uint64_t until_ms)
{
    return keep_as(world, CARRIER,
                   (struct keep_call){.call = {.call_sid = sid, .since_ms = since_ms, .until_ms = until_ms}});
}

struct result *keep_as(struct world *world, const char *holder, struct keep_call call)
{
    call.call.merchant_id = "";
    call.call.provider = "twilio";
    return run(world, &(struct command){.type = COMMAND_KEEP, .keep = {&call, 1, holder}});
}

struct result *hold_as(struct world *world, const char *carrier, const char *sid, uint64_t claim)
{
    return run(world, &(struct command){.type = COMMAND_HOLD,
                                        .hold = {sid, carrier, .is_held = true, .claim = claim}});
}

struct result *serve(struct world *world)
{
    return run(world, &(struct command){.type = COMMAND_SERVE});
}

struct result *carry_movable(struct world *world, const char *sid, const char *pod_name)
{
    const char *sids[] = {sid};
    const char *pods[] = {pod_name};
    const bool can_move[] = {true};

    return run(world, &(struct command){.type = COMMAND_RENEW,
                                        .renew = {sids, 1, CARRIER, pods, .can_move = can_move}});
}

enum call_state state_of(struct world *world, const char *sid)
{
    enum call_state state = call_of(world, sid)->activity.state;
    const struct result *page =
        run(world, &(struct command){.type = COMMAND_CALLS, .calls = {.limit = PAGE_MAX}});

    for (size_t i = 0; i < page->calls.count; i++) {
        if (strcmp(page->calls.calls[i].call_sid, sid) == 0) {
            assert_int_equal(page->calls.calls[i].activity.state, state);
            return state;
        }
    }
    fail_msg("%s is not in the list", sid);
    return state;
}

const struct waiting_call *waiting_of(struct world *world, const char *sid)
{
    run(world, &(struct command){.type = COMMAND_CALL, .call = {.call_sid = sid}});
    assert_int_equal(world->result.outcome, OUTCOME_WAITING);
    return &world->result.call.waiting;
}

size_t waiting_count(struct world *world)
{
    return run(world, &(struct command){.type = COMMAND_STATUS})->status.waiting;
}

struct result *sweep(struct world *world)
{
    return run(world, &(struct command){.type = COMMAND_SWEEP});
}

const struct pod_info *pod(struct world *world, const char *name)
{
    run(world, &(struct command){.type = COMMAND_POD, .pod = {.name = name}});
    assert_int_equal(world->result.outcome, OUTCOME_OK);
    return &world->result.pod;
}

bool pod_exists(struct world *world, const char *name)
{
    return run(world, &(struct command){.type = COMMAND_POD, .pod = {.name = name}})->outcome == OUTCOME_OK;
}

const struct tier_status *tier(struct world *world, const char *name)
{
    run(world, &(struct command){.type = COMMAND_STATUS});
    for (size_t i = 0; i < world->result.status.tier_count; i++) {
        if (strcmp(world->result.status.tiers[i].name, name) == 0)
            return &world->result.status.tiers[i];
    }
    fail_msg("no tier %s", name);
    abort(); /* never reached, but the compiler cannot know */
}
