/* test_manager.c - the background work against a store that answers by script. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "manager/manager.h"
#include "manager/task.h"

enum {
    COMMANDS_MAX = 256,
    TURNS_MAX = 20000, /* of the loop, before a test gives up */
    FAST_MS = 5,
    NEVER_MS = 24 * 60 * 60 * 1000,
};

/* What the store does with the next command of a type. */
struct answer {
    enum command_type type;
    int refuse; /* the starter fails with this */
    int err;
    struct result result;
};

struct fake_store {
    struct store store;
    uv_timer_t timer;
    const struct answer *script; /* used up in order; beyond its end everything is OK and empty */
    size_t script_len;
    bool holds;      /* answers nothing until it is let go */
    bool is_opening; /* it is not connected yet */

    struct command commands[COMMANDS_MAX];
    size_t command_count;
    struct {
        store_done_fn done;
        void *arg;
        struct answer answer;
    } waiting[4];
    size_t waiting_count;
};

struct fixture {
    uv_loop_t loop;
    uv_timer_t pulse; /* so that a turn of the loop never sleeps until tomorrow */
    struct fake_store fake;
    struct metrics *metrics;
    struct manager *manager;
    struct strbuf text;
    int log_fd;
    bool is_stopped;
};

/* The line is served every second, whatever else happens: only some scripts care. */
static bool is_beside_script(const struct fake_store *fake, enum command_type type)
{
    return type == COMMAND_SERVE && (fake->script_len == 0 || fake->script->type != COMMAND_SERVE);
}

static struct answer fake_next_answer(struct fake_store *fake, enum command_type type)
{
    if (fake->script_len > 0 && !is_beside_script(fake, type)) {
        assert_int_equal(fake->script->type, type);
        fake->script_len--;
        return *fake->script++;
    }
    return (struct answer){.type = type};
}

static void fake_answer(uv_timer_t *timer)
{
    struct fake_store *fake = timer->data;

    while (fake->waiting_count > 0 && !fake->holds) {
        struct result result = fake->waiting[0].answer.result;
        int err = fake->waiting[0].answer.err;
        store_done_fn done = fake->waiting[0].done;
        void *arg = fake->waiting[0].arg;

        fake->waiting_count--;
        memmove(&fake->waiting[0], &fake->waiting[1], fake->waiting_count * sizeof(fake->waiting[0]));
        done(arg, err, err < 0 ? NULL : &result);
    }
}

static int fake_execute(struct store *store, const struct command *command, struct arena *arena,
                        store_done_fn done, void *arg)
{
    struct fake_store *fake = CONTAINER_OF(store, struct fake_store, store);
    bool is_recorded = !is_beside_script(fake, command->type);
    struct answer answer = fake_next_answer(fake, command->type);

    assert_non_null(arena);
    assert_true(fake->command_count < COMMANDS_MAX);
    if (is_recorded)
        fake->commands[fake->command_count++] = *command;
    if (answer.refuse < 0)
        return answer.refuse;
    assert_true(fake->waiting_count < ARRAY_LEN(fake->waiting));
    fake->waiting[fake->waiting_count].done = done;
    fake->waiting[fake->waiting_count].arg = arg;
    fake->waiting[fake->waiting_count].answer = answer;
    fake->waiting_count++;
    uv_timer_start(&fake->timer, fake_answer, 0, 0);
    return 0;
}

static void fake_health(const struct store *store, struct store_health *ret_health)
{
    const struct fake_store *fake = CONTAINER_OF(store, const struct fake_store, store);

    *ret_health = (struct store_health){.is_ready = !fake->is_opening, .name = "fake", .detail = ""};
}

static const struct store_ops fake_ops = {.execute = fake_execute, .health = fake_health};

static void pulse(uv_timer_t *timer UNUSED)
{
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    fixture->fake.store.ops = &fake_ops;
    uv_timer_init(&fixture->loop, &fixture->fake.timer);
    fixture->fake.timer.data = &fixture->fake;
    uv_timer_init(&fixture->loop, &fixture->pulse);
    uv_timer_start(&fixture->pulse, pulse, 1, 1);
    assert_int_equal(metrics_new(&fixture->metrics), 0);
    strbuf_init(&fixture->text, NULL, 1024 * 1024);
    fixture->log_fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(fixture->log_fd >= 0);
    log_set_fd(fixture->log_fd);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    uv_close((uv_handle_t *)&fixture->fake.timer, NULL);
    uv_close((uv_handle_t *)&fixture->pulse, NULL);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    metrics_free(fixture->metrics);
    strbuf_release(&fixture->text);
    log_flush();
    log_set_fd(STDERR_FILENO);
    close(fixture->log_fd);
    free(fixture);
    return 0;
}

static void start(struct fixture *fixture, const struct manager_settings *settings)
{
    assert_int_equal(
        manager_new(&fixture->loop, settings, &fixture->fake.store, fixture->metrics, &fixture->manager), 0);
    assert_int_equal(manager_start(fixture->manager), 0);
}

static void stopped(void *arg)
{
    struct fixture *fixture = arg;

    assert_false(fixture->is_stopped);
    fixture->is_stopped = true;
}

static void run_until_stopped(struct fixture *fixture)
{
    for (int turn = 0; turn < TURNS_MAX && !fixture->is_stopped; turn++)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    assert_true(fixture->is_stopped);
}

static void stop(struct fixture *fixture)
{
    manager_stop(fixture->manager, stopped, fixture);
    assert_false(fixture->is_stopped); /* never inside the call */
    run_until_stopped(fixture);
}

/* Turns the loop until the store has been asked `count` things and has answered. */
static void run_until_asked(struct fixture *fixture, size_t count)
{
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (fixture->fake.command_count >= count && fixture->fake.waiting_count == 0)
            return;
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
    fail_msg("the store was asked only %zu things", fixture->fake.command_count);
}

/* Starts the manager; the store gives the answers of the script, until all of them are used. */
static void play(struct fixture *fixture, const struct answer *script, size_t len,
                 const struct manager_settings *settings)
{
    fixture->fake.script = script;
    fixture->fake.script_len = len;
    start(fixture, settings);
    run_until_asked(fixture, len);
}

static bool metric_is(struct fixture *fixture, const char *line)
{
    strbuf_reset(&fixture->text);
    metrics_write(fixture->metrics, &fixture->text);
    return strstr(fixture->text.data, line) != NULL;
}

static int log_count(struct fixture *fixture, const char *needle)
{
    static char text[64 * 1024];
    ssize_t n;
    int count = 0;

    log_flush();
    n = pread(fixture->log_fd, text, sizeof(text) - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    for (const char *at = strstr(text, needle); at; at = strstr(at + 1, needle))
        count++;
    return count;
}

static bool log_has(struct fixture *fixture, const char *needle)
{
    return log_count(fixture, needle) > 0;
}

static const struct manager_static_pod two_pods[] = {{"a", "127.0.0.1:9000"}, {"b", ""}};

static const struct manager_settings calm = {.source = POD_SOURCE_STATIC,
                                             .static_pods = two_pods,
                                             .static_pod_count = 2,
                                             .cleanup_interval_ms = NEVER_MS,
                                             .reconcile_interval_ms = NEVER_MS};

/* Plays with a sync every FAST_MS. */
static void play_fast(struct fixture *fixture, const struct answer *script, size_t len)
{
    struct manager_settings settings = calm;

    settings.reconcile_interval_ms = FAST_MS;
    play(fixture, script, len, &settings);
}

static void start__syncs_at_once_and_rebalances(void **state)
{
    struct fixture *fixture = *state;
    const struct command *sync = &fixture->fake.commands[0];

    start(fixture, &calm);
    assert_int_equal(fixture->fake.command_count, 1);
    assert_int_equal(sync->type, COMMAND_SYNC);
    assert_int_equal(sync->sync.source, POD_SOURCE_STATIC);
    assert_int_equal(sync->sync.count, 2);
    assert_string_equal(sync->sync.pods[0].name, "a");
    assert_string_equal(sync->sync.pods[0].address, "127.0.0.1:9000");
    assert_string_equal(sync->sync.pods[1].name, "b");
    assert_int_equal(sync->sync.pods[1].source, POD_SOURCE_STATIC);
    assert_true(sync->sync.pods[1].is_ready);
    assert_false(sync->sync.pods[1].hold_back);
    run_until_asked(fixture, 3);
    assert_int_equal(fixture->fake.commands[1].type, COMMAND_REBALANCE);
    assert_int_equal(fixture->fake.commands[2].type, COMMAND_PODS);
    assert_int_equal(fixture->fake.command_count, 3);
    assert_true(metric_is(fixture, "smart_router_sync_duration_seconds_count 1\n"));
    stop(fixture);
}

static const struct manager_settings no_pods = {
    .source = POD_SOURCE_API, .cleanup_interval_ms = NEVER_MS, .reconcile_interval_ms = FAST_MS};

static void pods_of_other_sources__stay_until_a_second_sync_and_are_looked_for_once(void **state)
{
    static const enum command_type types[] = {COMMAND_SYNC, COMMAND_REBALANCE, COMMAND_SYNC,
                                              COMMAND_SYNC, COMMAND_SYNC,      COMMAND_REBALANCE,
                                              COMMAND_SYNC, COMMAND_REBALANCE};
    struct fixture *fixture = *state;

    start(fixture, &no_pods);
    run_until_asked(fixture, ARRAY_LEN(types));
    stop(fixture);
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        assert_int_equal(fixture->fake.commands[i].type, types[i]);
    assert_int_equal(fixture->fake.commands[0].sync.source, POD_SOURCE_API);
    assert_true(fixture->fake.commands[0].sync.imports);
    assert_int_equal(fixture->fake.commands[2].sync.source, POD_SOURCE_API);
    assert_false(fixture->fake.commands[2].sync.imports);
    assert_int_equal(fixture->fake.commands[3].sync.source, POD_SOURCE_STATIC);
    assert_int_equal(fixture->fake.commands[3].sync.count, 0);
    assert_false(fixture->fake.commands[3].sync.imports);
    assert_int_equal(fixture->fake.commands[4].sync.source, POD_SOURCE_KUBERNETES);
    assert_int_equal(fixture->fake.commands[4].sync.count, 0);
    assert_int_equal(fixture->fake.commands[6].sync.source, POD_SOURCE_API);
}

static void pods_of_other_sources__are_not_removed_after_a_run_that_failed(void **state)
{
    static const struct answer script[] = {
        {.type = COMMAND_SYNC, .err = -EIO},
        {.type = COMMAND_SYNC},
        {.type = COMMAND_REBALANCE},
    };
    struct fixture *fixture = *state;

    play(fixture, script, ARRAY_LEN(script), &no_pods);
    stop(fixture);
}

static void pods_of_other_sources__do_not_include_our_own(void **state)
{
    static const struct answer script[] = {
        {.type = COMMAND_SYNC}, {.type = COMMAND_REBALANCE}, {.type = COMMAND_PODS}, {.type = COMMAND_SYNC},
        {.type = COMMAND_SYNC}, {.type = COMMAND_REBALANCE}, {.type = COMMAND_PODS},
    };
    struct fixture *fixture = *state;

    play_fast(fixture, script, ARRAY_LEN(script));
    stop(fixture);
    assert_int_equal(fixture->fake.commands[3].sync.source, POD_SOURCE_STATIC);
    assert_int_equal(fixture->fake.commands[3].sync.count, 2);
    assert_int_equal(fixture->fake.commands[4].sync.source, POD_SOURCE_KUBERNETES);
    assert_int_equal(fixture->fake.commands[4].sync.count, 0);
}

static void rebalance__goes_on_while_there_is_more(void **state)
{
    static const struct answer script[] = {
        {.type = COMMAND_SYNC},
        {.type = COMMAND_REBALANCE, .result.rebalance = {.moved = 1000, .more = true}},
        {.type = COMMAND_REBALANCE, .result.rebalance = {.moved = 1000, .more = true}},
        {.type = COMMAND_REBALANCE, .result.rebalance = {.moved = 3, .more = false}},
        {.type = COMMAND_PODS},
    };
    struct fixture *fixture = *state;

    play(fixture, script, ARRAY_LEN(script), &calm);
    assert_int_equal(fixture->fake.command_count, ARRAY_LEN(script));
    assert_true(metric_is(fixture, "smart_router_sync_duration_seconds_count 1\n"));
    stop(fixture);
}

static void look__finds_who_is_heartbeating_and_the_next_sync_holds_them_back(void **state)
{
    static struct pod_info first[] = {{.name = "a", .is_heartbeating = true}, {.name = "another"}};
    static struct pod_info second[] = {{.name = "b"}};
    const struct answer script[] = {
        {.type = COMMAND_SYNC},
        {.type = COMMAND_REBALANCE},
        {.type = COMMAND_PODS, .result.pods = {.pods = first, .count = 2, .next_cursor = "another"}},
        {.type = COMMAND_PODS, .result.pods = {.pods = second, .count = 1, .next_cursor = ""}},
    };
    struct fixture *fixture = *state;

    play_fast(fixture, script, ARRAY_LEN(script));
    run_until_asked(fixture, ARRAY_LEN(script) + 1);
    assert_int_equal(fixture->fake.commands[4].type, COMMAND_SYNC);
    assert_true(fixture->fake.commands[4].sync.pods[0].hold_back);
    assert_false(fixture->fake.commands[4].sync.pods[1].hold_back);
    stop(fixture);
}

static void sweep__counts_what_it_recovered_and_goes_on(void **state)
{
    static struct ended_call ended[] = {
        {"CA1", "a", "pool:gold", "acme", CALL_END_EXPIRED},
        {"CA2", "b", "pool:gold", "", CALL_END_POD_GONE},
    };
    static const char *gone[] = {"b"};
    const struct answer script[] = {
        {.type = COMMAND_SYNC},
        {.type = COMMAND_REBALANCE},
        {.type = COMMAND_PODS},
        {.type = COMMAND_SWEEP,
         .result.sweep = {.ended = {ended, 2}, .recovered = 4, .gone = {gone, 1}, .more = true}},
        {.type = COMMAND_SWEEP},
    };
    struct fixture *fixture = *state;
    struct manager_settings settings = calm;

    settings.cleanup_interval_ms = 50;
    play(fixture, script, ARRAY_LEN(script), &settings);
    stop(fixture);
    assert_true(metric_is(fixture, "smart_router_zombies_recovered_total 5\n"));
    assert_true(metric_is(fixture, "smart_router_sweeps_total 1\n"));
    assert_false(log_has(fixture, "CA1")); /* whoever listens to the store tells of the calls */
    assert_true(log_has(fixture, "\"msg\":\"pod gone\",\"pod\":\"b\""));
}

static void serve__ends_of_waits_are_logged_and_counted(void **state)
{
    static struct ended_wait ended[] = {
        {"CA1", "acme", "twilio", WAIT_TIMED_OUT, 45000},
        {"CA2", "", "plivo", WAIT_ABANDONED, 1500},
    };
    static const struct answer script[] = {
        {.type = COMMAND_SYNC},
        {.type = COMMAND_REBALANCE},
        {.type = COMMAND_PODS},
        {.type = COMMAND_SERVE, .result.serve = {.ended = ended, .ended_count = 1, .more = true}},
        {.type = COMMAND_SERVE, .result.serve = {.ended = ended + 1, .ended_count = 1}},
    };
    struct fixture *fixture = *state;

    play(fixture, script, ARRAY_LEN(script), &calm);
    stop(fixture);
    assert_true(metric_is(fixture, "smart_router_wait_seconds_sum{outcome=\"timed_out\"} 45\n"));
    assert_true(metric_is(fixture, "smart_router_wait_seconds_count{outcome=\"abandoned\"} 1\n"));
    assert_true(log_has(fixture, "\"msg\":\"wait ended\",\"call_sid\":\"CA1\""));
    assert_true(log_has(fixture, "\"waited_ms\":1500"));
}

static void sweep__comes_again_soon_for_pods_that_are_in_doubt(void **state)
{
    static const struct answer script[] = {
        {.type = COMMAND_SYNC},
        {.type = COMMAND_REBALANCE},
        {.type = COMMAND_PODS},
        {.type = COMMAND_SWEEP, .result.sweep = {.look_again_ms = 1}},
        {.type = COMMAND_SWEEP, .result.sweep = {.look_again_ms = 1}},
        {.type = COMMAND_SWEEP},
    };
    struct fixture *fixture = *state;
    struct manager_settings settings = calm;

    /* Without the doubt the next sync would come before the second sweep. */
    settings.cleanup_interval_ms = 600;
    settings.reconcile_interval_ms = 1150;
    play(fixture, script, ARRAY_LEN(script), &settings);
    stop(fixture);
    assert_true(metric_is(fixture, "smart_router_sweeps_total 3\n"));
}

static void durations__of_every_command_are_observed(void **state)
{
    static const struct answer script[] = {
        {.type = COMMAND_SYNC},
        {.type = COMMAND_REBALANCE, .result.rebalance.more = true},
        {.type = COMMAND_REBALANCE, .err = -EIO},
    };
    struct fixture *fixture = *state;

    play(fixture, script, ARRAY_LEN(script), &calm);
    stop(fixture);
    assert_true(metric_is(fixture, "smart_router_store_duration_seconds_count{operation=\"sync\"} 1\n"));
    assert_true(metric_is(fixture, "smart_router_store_duration_seconds_count{operation=\"rebalance\"} 2\n"));
}

static void failure__is_counted_and_the_run_begins_again(void **state)
{
    static const struct answer script[] = {
        {.type = COMMAND_SYNC, .refuse = -ENOTCONN},
        {.type = COMMAND_SYNC, .err = -ETIMEDOUT},
        {.type = COMMAND_SYNC, .result.outcome = OUTCOME_INVALID, .result.error = "no such thing"},
        {.type = COMMAND_SYNC},
        {.type = COMMAND_REBALANCE, .err = -EIO},
        {.type = COMMAND_SYNC},
        {.type = COMMAND_REBALANCE},
    };
    struct fixture *fixture = *state;

    play_fast(fixture, script, ARRAY_LEN(script));
    run_until_asked(fixture, ARRAY_LEN(script) + 4);
    stop(fixture);
    assert_true(metric_is(fixture, "smart_router_task_failures_total{task=\"sync\"} 4\n"));
    assert_true(metric_is(fixture, "smart_router_task_failures_total{task=\"sweep\"} 0\n"));
    assert_true(log_has(fixture, "no such thing"));
    assert_int_equal(log_count(fixture, "background task works again"), 1);
}

static void backoff__doubles_up_to_the_interval_and_is_spread(void **state UNUSED)
{
    assert_int_equal(task_backoff_ms(1, 60000, 0), 500);
    assert_int_equal(task_backoff_ms(2, 60000, 0), 1000);
    assert_int_equal(task_backoff_ms(3, 60000, 0), 2000);
    assert_int_equal(task_backoff_ms(8, 60000, 0), 60000);
    assert_int_equal(task_backoff_ms(4000000000u, 60000, 0), 60000);
    assert_int_equal(task_backoff_ms(1, 60000, UINT32_MAX), 250);
    assert_int_equal(task_backoff_ms(9, 60000, UINT32_MAX), 30000);
    assert_int_equal(task_backoff_ms(1, 20, 0), 20);
}

static void stop__waits_for_an_answer_under_way(void **state)
{
    struct fixture *fixture = *state;

    fixture->fake.holds = true;
    start(fixture, &calm);
    manager_stop(fixture->manager, stopped, fixture);
    for (int i = 0; i < 10; i++)
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_int_equal(fixture->fake.waiting_count, 1);
    assert_false(fixture->is_stopped);

    fixture->fake.holds = false;
    uv_timer_start(&fixture->fake.timer, fake_answer, 0, 0);
    run_until_stopped(fixture);
    assert_int_equal(fixture->fake.command_count, 1); /* nothing new was asked */
}

static void stop__after_a_failure_asks_nothing_more(void **state)
{
    static const struct answer script[] = {{.type = COMMAND_SYNC, .refuse = -ENOSPC}};
    struct fixture *fixture = *state;

    fixture->fake.script = script;
    fixture->fake.script_len = ARRAY_LEN(script);
    start(fixture, &calm);
    stop(fixture);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_int_equal(fixture->fake.command_count, 1);
}

static void start__waits_for_a_store_that_is_opening(void **state)
{
    struct fixture *fixture = *state;

    fixture->fake.is_opening = true;
    start(fixture, &calm);
    for (int turn = 0; turn < 10; turn++)
        uv_run(&fixture->loop, UV_RUN_ONCE);
    assert_int_equal(fixture->fake.command_count, 0);
    fixture->fake.is_opening = false;
    run_until_asked(fixture, 1);
    assert_int_equal(fixture->fake.commands[0].type, COMMAND_SYNC);
    assert_false(log_has(fixture, "background task failed"));
    stop(fixture);
}

static void stop__without_a_start_is_fine(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(
        manager_new(&fixture->loop, &calm, &fixture->fake.store, fixture->metrics, &fixture->manager), 0);
    stop(fixture);
    assert_int_equal(fixture->fake.command_count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(start__syncs_at_once_and_rebalances),
        TEST(start__waits_for_a_store_that_is_opening),
        TEST(pods_of_other_sources__stay_until_a_second_sync_and_are_looked_for_once),
        TEST(pods_of_other_sources__are_not_removed_after_a_run_that_failed),
        TEST(pods_of_other_sources__do_not_include_our_own),
        TEST(durations__of_every_command_are_observed),
        TEST(rebalance__goes_on_while_there_is_more),
        TEST(look__finds_who_is_heartbeating_and_the_next_sync_holds_them_back),
        TEST(sweep__counts_what_it_recovered_and_goes_on),
        TEST(serve__ends_of_waits_are_logged_and_counted),
        TEST(sweep__comes_again_soon_for_pods_that_are_in_doubt),
        TEST(failure__is_counted_and_the_run_begins_again),
        cmocka_unit_test(backoff__doubles_up_to_the_interval_and_is_spread),
        TEST(stop__waits_for_an_answer_under_way),
        TEST(stop__after_a_failure_asks_nothing_more),
        TEST(stop__without_a_start_is_fine),
    };

    return cmocka_run_group_tests_name("manager", tests, NULL, NULL);
}
