/* cases_events.c - the events that a store publishes: content, order, limits. */
#include "../support/world.h"

#include "base/json.h"

enum { TOLD_TURNS_MAX = 2000000, TOLD_TEXT_MAX = 64 * 1024 };

/* Somebody who watches: each event as "kind call pod reason count". */
struct watcher {
    struct world *world;
    struct strbuf told;
    int listening;
    bool is_busy; /* the store runs: nothing may be told meanwhile */
};

static void put_member(struct watcher *watcher, const cJSON *json, const char *key)
{
    const char *text = json_get_string(json, key);

    if (text)
        strbuf_printf(&watcher->told, " %s", text);
}

static void told(void *arg, const struct event_text *events, size_t count)
{
    struct watcher *watcher = arg;

    assert_false(watcher->is_busy);
    watcher->listening += count == 0;
    for (size_t i = 0; i < count; i++) {
        const cJSON *json = json_parse(&watcher->world->arena, events[i].json);
        const cJSON *number = cJSON_GetObjectItemCaseSensitive(json, "count");

        assert_non_null(json);
        assert_string_equal(json_get_string(json, "replica"), "router-0");
        assert_true(slice_equals(events[i].id, json_get_string(json, "id")));
        assert_true(slice_equals(events[i].kind, json_get_string(json, "event")));
        strbuf_append(&watcher->told, events[i].kind.data, events[i].kind.len);
        put_member(watcher, json, "call_sid");
        put_member(watcher, json, "pod_name");
        put_member(watcher, json, "from_pod");
        put_member(watcher, json, "source_pool");
        put_member(watcher, json, "tier");
        put_member(watcher, json, "merchant_id");
        put_member(watcher, json, "provider");
        put_member(watcher, json, "reason");
        if (number)
            strbuf_printf(&watcher->told, " %.0f", number->valuedouble);
        strbuf_append_char(&watcher->told, '\n');
    }
}

static void watch(struct watcher *watcher, struct world *world)
{
    *watcher = (struct watcher){.world = world, .is_busy = true};
    strbuf_init(&watcher->told, &world->arena, TOLD_TEXT_MAX);
    store_on_event(world->store, told, watcher);
    watcher->is_busy = false;
    for (int i = 0; watcher->listening == 0 && i < TOLD_TURNS_MAX; i++)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_int_equal(watcher->listening, 1);
}

static void init_watched(struct watcher *watcher, struct world *world, struct world_kind *kind,
                         const char *tiers)
{
    world_init(world, kind, tiers);
    watch(watcher, world);
}

/* Everything that was published before has been told when this one is. */
static void assert_told(struct watcher *watcher, const char *expected)
{
    static const char last[] = "leader_elected\n";
    const struct event event = {.kind = EVENT_LEADER_ELECTED};
    size_t len = sizeof(last) - 1;

    watcher->is_busy = true;
    store_publish(watcher->world->store, &event);
    watcher->is_busy = false;
    for (int i = 0; i < TOLD_TURNS_MAX; i++) {
        struct slice text = strbuf_slice(&watcher->told);

        if (text.len >= len && memcmp(text.data + text.len - len, last, len) == 0)
            break;
        uv_run(&watcher->world->loop, UV_RUN_ONCE);
    }
    assert_true(watcher->told.len >= len);
    watcher->told.data[watcher->told.len - len] = '\0';
    assert_string_equal(watcher->told.data, expected);
    strbuf_reset(&watcher->told);
}

static void events__tell_what_happened_to_calls(void **state)
{
    struct world world;
    struct watcher watcher;

    init_watched(&watcher, &world, *state, "{\"gold\":1}");
    add_pods(&world, 1);
    allocate_for(&world, "CA1", "m1");
    assert_true(allocate_for(&world, "CA1", "m1")->allocate.was_existing);
    assert_int_equal(allocate(&world, "CA2")->outcome, OUTCOME_NO_PODS);
    renew(&world, "CA1");
    release(&world, "CA1");
    assert_int_equal(release(&world, "CA1")->outcome, OUTCOME_NOT_FOUND);
    assert_told(&watcher, "pod_joined voice-agent-0 gold\n"
                          "allocated CA1 voice-agent-0 pool:gold m1 twilio\n"
                          "refused CA2 twilio no_pods\n"
                          "released CA1 voice-agent-0 pool:gold m1 twilio\n");
    heartbeat(&world, "voice-agent-0", "CA3");
    world_advance(&world, HOUR);
    sweep(&world);
    assert_told(&watcher, "allocated CA3 voice-agent-0 adopted\n"
                          "ended CA3 voice-agent-0 pool:gold lease_expired\n");
    assert_int_equal(world.told, 1);
    world_release(&world);
}

static void events__tell_of_calls_that_wait(void **state)
{
    struct watcher watcher;
    struct world world;

    world_init_waiting(&world, *state, ONE_TIER, 0);
    merchant_set(&world, "m1", "{\"hold_seconds\":10}");
    watch(&watcher, &world);
    add_pods(&world, 1);
    allocate(&world, "CA1");
    wait_for(&world, "CA2", "m1");
    wait_for(&world, "CA2", "m1"); /* nothing new */
    wait_for(&world, "CA3", "");
    wait_for(&world, "CA4", "");
    wait_for(&world, "CA5", "");
    wait_for(&world, "CA6", "m1");
    assert_told(&watcher, "pod_joined voice-agent-0 standard\n"
                          "allocated CA1 voice-agent-0 pool:standard twilio\n"
                          "call_waiting CA2 m1 twilio\n"
                          "call_waiting CA3 twilio\n"
                          "call_waiting CA4 twilio\n"
                          "call_waiting CA5 twilio\n"
                          "call_waiting CA6 m1 twilio\n");
    release(&world, "CA1");
    wait_for(&world, "CA2", "m1");
    release(&world, "CA3");
    release(&world, "CA2");
    hold(&world, "CA4");
    hold(&world, "CA4");
    world_advance(&world, 10000);
    keep_waiting(&world, "CA6", 0, 0);
    keep_waiting(&world, "CA6", 0, 0);
    world_advance(&world, 5000);
    serve(&world);
    assert_told(&watcher, "released CA1 voice-agent-0 pool:standard twilio\n"
                          "allocated CA2 voice-agent-0 pool:standard m1 twilio\n"
                          "wait_ended CA3 twilio abandoned\n"
                          "released CA2 voice-agent-0 pool:standard m1 twilio\n"
                          "allocated CA4 voice-agent-0 pool:standard twilio\n"
                          "wait_ended CA6 m1 twilio timed_out\n"
                          "wait_ended CA5 twilio abandoned\n");
    run(&world, &(struct command){.type = COMMAND_MOVE_CALL,
                                  .move = {.call_sid = "CA4", .from_pod = POD0, .carrier = CARRIER}});
    assert_told(&watcher, "draining voice-agent-0 put_aside\n"
                          "call_waiting CA4 voice-agent-0 twilio\n");
    world_release(&world);
}

static void events__tell_that_a_call_was_moved(void **state)
{
    struct world world;
    struct watcher watcher;

    init_watched(&watcher, &world, *state, "{\"gold\":1}");
    add_pods(&world, 1);
    allocate_for(&world, "CA1", "m1");
    see(&world, seen_of("b"));
    move(&world, "CA1", "voice-agent-0", 0);
    assert_false(move(&world, "CA1", "voice-agent-0", 0)->move.was_moved);
    assert_int_equal(move(&world, "CA2", "voice-agent-0", 0)->outcome, OUTCOME_NOT_FOUND);
    assert_int_equal(move(&world, "CA1", "b", 0)->outcome, OUTCOME_NO_PODS);
    assert_told(&watcher, "pod_joined voice-agent-0 gold\n"
                          "allocated CA1 voice-agent-0 pool:gold m1 twilio\n"
                          "pod_joined b gold\n"
                          "draining voice-agent-0 put_aside\n"
                          "moved CA1 b voice-agent-0 pool:gold m1 twilio\n"
                          "draining b put_aside\n"
                          "refused CA1 b no_pods\n");
    world_release(&world);
}

static void events__tell_what_happened_to_pods(void **state)
{
    struct pod_seen pods[] = {seen_of("a"), seen_of("b"), seen_of("c")};
    struct world world;
    struct watcher watcher;

    init_watched(&watcher, &world, *state, "{\"gold\":5}");
    see(&world, pods[0]);
    see(&world, pods[0]);
    drain(&world, "a", 0);
    run(&world, &(struct command){.type = COMMAND_UNDRAIN, .undrain = {.pod = "a"}});
    run(&world, &(struct command){.type = COMMAND_SYNC,
                                  .sync = {.source = POD_SOURCE_KUBERNETES, .pods = pods, .count = 3}});
    run(&world, &(struct command){.type = COMMAND_SYNC,
                                  .sync = {.source = POD_SOURCE_KUBERNETES, .pods = pods, .count = 3}});
    run(&world, &(struct command){.type = COMMAND_POD_GONE,
                                  .pod_gone = {.pod = "a", .source = POD_SOURCE_KUBERNETES}});
    assert_told(&watcher, "pod_joined a gold\n"
                          "draining a\n"
                          "undrained a\n"
                          "pods_changed added 2\n"
                          "pod_left a\n");
    world_release(&world);
}

static void events__tell_which_pods_are_surplus(void **state)
{
    struct world world;
    struct watcher watcher;

    init_watched(&watcher, &world, *state, "{\"gold\":1}");
    see(&world, seen_of("set-0"));
    see(&world, seen_of("set-1"));
    run(&world, &(struct command){.type = COMMAND_SCALE, .scale = {.by_set = true}});
    run(&world, &(struct command){.type = COMMAND_SCALE, .scale = {.by_set = false}});
    assert_told(&watcher, "pod_joined set-0 gold\n"
                          "pod_joined set-1 gold\n"
                          "draining set-1 surplus\n"
                          "undrained set-1\n");
    world_release(&world);
}

static void events__are_not_told_to_those_who_left(void **state)
{
    struct world world;
    struct watcher watcher;

    world_init_pods(&world, *state, "{\"gold\":1}", 1);
    watch(&watcher, &world);
    allocate(&world, "CA1");
    store_on_event(world.store, NULL, NULL);
    watcher.is_busy = true;
    release(&world, "CA1");
    watch(&watcher, &world);
    allocate(&world, "CA2");
    /* With a store that others share, what was published before may still be on its way. */
    release(&world, "CA2");
    store_on_event(world.store, NULL, NULL);
    watcher.is_busy = true;
    world_release(&world);
}

static void events__that_are_too_many_are_counted(void **state)
{
    static const struct event event = {.kind = EVENT_DRAINING, .pod = "voice-agent-0"};
    struct world world;
    struct watcher watcher;
    struct store_stats stats;
    size_t lines = 0;
    char last[64];

    world_init(&world, *state, NULL);
    watch(&watcher, &world);
    for (int i = 0; i < 5000; i++)
        store_publish(world.store, &event);
    store_stats(world.store, &stats);
    assert_true(stats.events_dropped > 0 && stats.events_dropped < 5000);
    snprintf(last, sizeof(last), "dropped %llu\n", (unsigned long long)stats.events_dropped);
    for (int i = 0; i < TOLD_TURNS_MAX && !strstr(strbuf_slice(&watcher.told).data, last); i++)
        uv_run(&world.loop, UV_RUN_ONCE);
    for (size_t i = 0; i < watcher.told.len; i++)
        lines += watcher.told.data[i] == '\n';
    assert_int_equal(lines, 5000 - stats.events_dropped + 1);
    strbuf_reset(&watcher.told);
    assert_told(&watcher, "");
    world_release(&world);
}

const struct world_case cases_events[] = {
    {"events__tell_what_happened_to_calls", events__tell_what_happened_to_calls},
    {"events__tell_that_a_call_was_moved", events__tell_that_a_call_was_moved},
    {"events__tell_what_happened_to_pods", events__tell_what_happened_to_pods},
    {"events__tell_which_pods_are_surplus", events__tell_which_pods_are_surplus},
    {"events__are_not_told_to_those_who_left", events__are_not_told_to_those_who_left},
    {"events__that_are_too_many_are_counted", events__that_are_too_many_are_counted},
    {NULL, NULL},
};

const struct world_case cases_line_events[] = {
    {"events__tell_of_calls_that_wait", events__tell_of_calls_that_wait},
    {NULL, NULL},
};
