/* test_embedded.c - answers of the embedded store: order, durability, failing disks, closing. */
#include "../support/embedded_fixture.h"

#include <sys/resource.h>

static const enum embedded_fsync modes[] = {EMBEDDED_FSYNC_ALWAYS, EMBEDDED_FSYNC_EVERYSEC,
                                            EMBEDDED_FSYNC_NO};

static bool is_ready(struct fixture *f)
{
    struct store_health health;

    store_health(f->store, &health);
    assert_int_equal(health.is_ready, *health.detail == '\0');
    return health.is_ready;
}

static void ticked(uv_timer_t *timer)
{
    ++*(int *)timer->data;
}

/* The timers of the store do not keep the loop alive, so this brings one of its own. */
static void wait_for_readiness(struct fixture *f, bool wanted)
{
    uv_timer_t timer;
    int ticks = 0;

    uv_timer_init(&f->loop, &timer);
    timer.data = &ticks;
    uv_timer_start(&timer, ticked, 5, 5);
    while (is_ready(f) != wanted && ticks < 4000)
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    assert_int_equal(is_ready(f), wanted);
}

static void fixture_unlink(struct fixture *f, const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    assert_int_equal(unlink(path), 0);
}

static size_t calls(struct fixture *f)
{
    return core_call_count(embedded_core(f->store));
}

static void execute__answers_later_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct store_stats stats;
        struct fixture f;

        fixture_init(&f, modes[i]);
        fixture_open(&f);
        assert_true(is_ready(&f));
        fixture_add_pods(&f);
        assert_int_equal(fixture_allocate(&f, "CA1"), 0); /* checks that it is not answered inside the call */
        assert_int_equal(f.result.outcome, OUTCOME_OK);
        assert_false(f.result.allocate.was_existing);
        assert_int_equal(fixture_allocate(&f, "CA1"), 0);
        assert_true(f.result.allocate.was_existing);
        assert_int_equal(fixture_call(&f, "CA1"), 0);
        assert_string_equal(f.result.call.call.provider, "twilio");
        assert_int_equal(fixture_release_call(&f, "CA1"), 0);
        assert_int_equal(fixture_release_call(&f, "CA1"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_NOT_FOUND);
        store_stats(f.store, &stats);
        assert_int_equal(stats.commands, 6);
        assert_int_equal(stats.errors, 0);
        assert_int_equal(stats.writes, 3);
        assert_true(stats.written_bytes > 0);
        fixture_release(&f);
    }
}

static void open__again_gives_the_same_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        char *before;
        size_t before_len;
        struct fixture f;

        fixture_start(&f, modes[i]);
        for (int n = 0; n < 12; n++) {
            char sid[16];

            snprintf(sid, sizeof(sid), "CA%d", n);
            assert_int_equal(fixture_allocate(&f, sid), 0);
        }
        assert_int_equal(fixture_release_call(&f, "CA3"), 0);
        assert_int_equal(
            fixture_execute(&f, &(struct command){.type = COMMAND_DRAIN, .drain = {"voice-agent-3", 60000}}),
            0);
        assert_int_equal(fixture_call(&f, "CA5"), 0);
        assert_int_equal(
            fixture_execute(&f, &(struct command){.type = COMMAND_MOVE_CALL,
                                                  .move = {"CA5", f.result.call.call.pod, 60000, NULL}}),
            0);
        assert_true(f.result.outcome == OUTCOME_OK && f.result.move.was_moved);
        assert_int_equal(
            fixture_execute(&f, &(struct command){.type = COMMAND_MERCHANT_SET,
                                                  .merchant_set = {"m1", "{\"tier\":\"standard\"}"}}),
            0);
        before = fixture_dump(&f, &before_len);
        fixture_close(&f);
        f.settings.tier_config = "{\"gold\":1}"; /* the stored one wins */
        fixture_open(&f);
        assert_int_equal(f.report.calls, 11);
        assert_int_equal(f.report.pods, FIXTURE_PODS);
        assert_int_equal(f.report.cut_bytes, 0);
        assert_true(f.report.replayed_records > 30);
        fixture_assert_dump(&f, before, before_len);
        fixture_release(&f);
    }
}

static void open__time_does_not_go_back(void **state)
{
    const uint64_t later = UINT64_C(4000000000000); /* 2096 */
    struct fixture f;

    (void)state;
    fixture_start(&f, EMBEDDED_FSYNC_NO);
    embedded_of(f.store)->clock_start_ms = later;
    assert_int_equal(fixture_allocate(&f, "CA1"), 0);
    fixture_close(&f);
    fixture_open(&f);
    assert_int_equal(fixture_allocate(&f, "CA2"), 0);
    assert_true(f.result.allocate.call.allocated_at_ms >= later);
    fixture_release(&f);
}

static void open__says_what_is_wrong_with_the_directory(void **state)
{
    struct fixture f;
    char path[128];
    int fd;

    (void)state;
    fixture_init(&f, EMBEDDED_FSYNC_NO);
    snprintf(path, sizeof(path), "%s/missing/deeper", f.dir);
    f.settings.data_dir = path;
    assert_int_equal(fixture_try_open(&f), -ENOENT);
    assert_non_null(strstr(f.error, path));

    snprintf(path, sizeof(path), "%s/file", f.dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(fixture_try_open(&f), -ENOTDIR);
    assert_non_null(strstr(f.error, path));

    snprintf(path, sizeof(path), "%s/new", f.dir);
    fixture_open(&f);
    fixture_close(&f);
    fixture_remove_files(path);
    assert_int_equal(rmdir(path), 0);
    fixture_release(&f);
}

static void open__bad_tiers_are_refused_even_if_others_are_stored(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f, EMBEDDED_FSYNC_NO);
    f.settings.tier_config = "{\"gold\":-1}";
    assert_int_equal(fixture_try_open(&f), -EINVAL);
    assert_non_null(strstr(f.error, "TIER_CONFIG"));
    f.settings.tier_config = NULL;
    fixture_open(&f);
    fixture_close(&f);
    f.settings.tier_config = "[";
    assert_int_equal(fixture_try_open(&f), -EINVAL);
    fixture_release(&f);
}

static void open__second_one_is_refused(void **state)
{
    struct embedded_report report;
    struct store *second;
    struct fixture f;
    char pid[32];

    (void)state;
    fixture_init(&f, EMBEDDED_FSYNC_NO);
    fixture_open(&f);
    assert_int_equal(embedded_open(&f.loop, &f.settings, &second, &report, f.error, sizeof(f.error)), -EBUSY);
    snprintf(pid, sizeof(pid), "pid %ld", (long)getpid());
    assert_non_null(strstr(f.error, f.dir));
    assert_non_null(strstr(f.error, pid));
    /* Nor does it help to remove the file that says who has it. */
    fixture_unlink(&f, "lock");
    assert_int_equal(embedded_open(&f.loop, &f.settings, &second, &report, f.error, sizeof(f.error)), -EBUSY);
    fixture_close(&f);
    fixture_open(&f);
    fixture_release(&f);
}

static void removed_directory__is_never_ready_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct store_health health;
        struct fixture f;

        fixture_start(&f, modes[i]);
        assert_int_equal(fixture_allocate(&f, "CA1"), 0);
        fixture_remove_files(f.dir);
        assert_int_equal(rmdir(f.dir), 0);
        wait_for_readiness(&f, false);
        store_health(f.store, &health);
        assert_string_equal(health.detail, "the data directory was removed");
        assert_int_equal(fixture_allocate(&f, "CA2"), -EIO);
        assert_int_equal(fixture_release_call(&f, "CA1"), -EIO);
        /* Another one under the same name is not ours. */
        assert_int_equal(mkdir(f.dir, 0700), 0);
        repair_start(embedded_of(f.store));
        uv_run(&f.loop, UV_RUN_DEFAULT);
        assert_false(is_ready(&f));
        assert_int_equal(fixture_call(&f, "CA1"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_OK);
        fixture_release(&f);
    }
}

static void removed_files__are_written_anew(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, EMBEDDED_FSYNC_EVERYSEC);
    assert_int_equal(fixture_allocate(&f, "CA1"), 0);
    fixture_unlink(&f, "log.0000000001");
    wait_for_readiness(&f, false);
    wait_for_readiness(&f, true);
    fixture_close(&f);
    fixture_open(&f);
    assert_int_equal(calls(&f), 1);
    fixture_release(&f);
}

struct waiter {
    int *order;
    int place;
    int err;
    struct fixture *f;
    struct arena arena;
};

static void waiter_answered(void *arg, int err, const struct result *result)
{
    struct waiter *waiter = arg;

    (void)result;
    waiter->place = ++*waiter->order;
    waiter->err = err;
}

enum { WAITERS = 15 };

static void start_waiters(struct fixture *f, struct waiter *waiters, int *order)
{
    static char sids[WAITERS][16];

    *order = 0;
    for (int i = 0; i < WAITERS; i++) {
        struct command command = {.type = COMMAND_ALLOCATE, .allocate = {sids[i], "", ""}};

        snprintf(sids[i], sizeof(sids[i]), "W%d", i);
        if (i % 3 == 2)
            command = (struct command){.type = COMMAND_CALL, .call = {sids[i - 1]}};
        waiters[i] = (struct waiter){.order = order, .f = f};
        arena_init(&waiters[i].arena, 65536);
        assert_int_equal(store_execute(f->store, &command, &waiters[i].arena, waiter_answered, &waiters[i]),
                         0);
    }
    assert_int_equal(*order, 0);
}

static void check_waiters(struct waiter *waiters, int err)
{
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(waiters[i].place, i + 1);
        assert_int_equal(waiters[i].err, err);
        arena_release(&waiters[i].arena);
    }
}

static void execute__answers_in_order_with_one_write(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct waiter waiters[WAITERS];
        struct store_stats before, after;
        struct fixture f;
        int order;

        fixture_start(&f, modes[i]);
        store_stats(f.store, &before);
        start_waiters(&f, waiters, &order);
        uv_run(&f.loop, UV_RUN_DEFAULT);
        check_waiters(waiters, 0);
        store_stats(f.store, &after);
        assert_int_equal(after.writes - before.writes, 1);
        fixture_release(&f);
    }
}

static void close__answers_what_is_pending_and_keeps_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct waiter waiters[WAITERS];
        struct fixture f;
        int order;

        fixture_start(&f, modes[i]);
        start_waiters(&f, waiters, &order);
        f.is_closed = false;
        store_close(f.store, fixture_closed, &f);
        assert_int_equal(order, 0);
        assert_int_equal(fixture_call(&f, "W1"), -ECANCELED);
        uv_run(&f.loop, UV_RUN_DEFAULT);
        assert_true(f.is_closed);
        check_waiters(waiters, 0);
        fixture_open(&f);
        assert_int_equal(calls(&f), 10);
        fixture_release(&f);
    }
}

/* A callback that asks again at once must neither run inside nor starve. */
static void ask_again(void *arg, int err, const struct result *result)
{
    struct fixture *f = arg;

    (void)result;
    assert_int_equal(err, 0);
    f->is_done = false;
    assert_int_equal(store_execute(f->store,
                                   &(struct command){.type = COMMAND_ALLOCATE, .allocate = {"CA2", "", ""}},
                                   &f->arena, fixture_answered, f),
                     0);
    assert_false(f->is_done);
}

static void execute__from_a_callback_is_answered_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct fixture f;

        fixture_start(&f, modes[i]);
        assert_int_equal(
            store_execute(f.store, &(struct command){.type = COMMAND_ALLOCATE, .allocate = {"CA1", "", ""}},
                          &f.arena, ask_again, &f),
            0);
        uv_run(&f.loop, UV_RUN_DEFAULT);
        assert_true(f.is_done);
        assert_int_equal(calls(&f), 2);
        fixture_release(&f);
    }
}

/* Fills the reserved space, so that the next turn has to reserve more. */
static int allocate_until_refused(struct fixture *f, int *ret_answered)
{
    for (int i = 0; i < 100000; i++) {
        int r = fixture_allocate(f, "CA-full");

        if (r == 0)
            r = fixture_release_call(f, "CA-full");
        if (r < 0) {
            *ret_answered = i;
            return r;
        }
        arena_reset(&f->arena);
    }
    return 0;
}

static void full_disk__refuses_changes_before_they_are_made(void **state)
{
    static const enum embedded_fsync some[] = {EMBEDDED_FSYNC_EVERYSEC, EMBEDDED_FSYNC_NO};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(some); i++) {
        struct fixture f;
        int answered;

        fixture_start(&f, some[i]);
        assert_int_equal(fixture_allocate(&f, "CA-kept"), 0);
        faults.reserve = -1;
        assert_int_equal(allocate_until_refused(&f, &answered), -ENOSPC);
        assert_true(answered > 100);
        assert_false(is_ready(&f));
        assert_int_equal(fixture_allocate(&f, "CA-new"), -ENOSPC);
        assert_int_equal(fixture_call(&f, "CA-new"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_NOT_FOUND);
        assert_int_equal(fixture_call(&f, "CA-kept"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_OK);
        /* Releases have the rest of the space. */
        assert_int_equal(fixture_release_call(&f, "CA-kept"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_OK);
        faults.reserve = 0;
        wait_for_readiness(&f, true);
        assert_int_equal(fixture_allocate(&f, "CA-new"), 0);
        fixture_close(&f);
        fixture_open(&f);
        assert_int_equal(fixture_call(&f, "CA-new"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_OK);
        assert_int_equal(fixture_call(&f, "CA-kept"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_NOT_FOUND);
        fixture_release(&f);
    }
}

/* Asks for more than is reserved as a command that has much to do. */
static int rename_tiers(struct fixture *f, size_t len)
{
    char *text = malloc(len + 1);
    int r;

    assert_non_null(text);
    memset(text, ' ', len);
    text[len] = '\0';
    r = fixture_execute(f, &(struct command){.type = COMMAND_TIERS_SET, .tiers_set = {.text = text}});
    free(text);
    return r;
}

static void full_disk__is_noticed_by_the_command_that_finds_no_room(void **state)
{
    const struct command sweep = {.type = COMMAND_SWEEP};
    const struct command rebalance = {.type = COMMAND_REBALANCE};
    struct fixture f;

    (void)state;
    fixture_start(&f, EMBEDDED_FSYNC_NO);
    faults.reserve = -1;
    /* Where there is little to do, what is reserved is enough. */
    while (embedded_of(f.store)->active.reserved - embedded_of(f.store)->active.end > SEGMENT_AHEAD + 2000) {
        assert_int_equal(fixture_allocate(&f, "CA1"), 0);
        assert_int_equal(fixture_release_call(&f, "CA1"), 0);
        arena_reset(&f.arena);
    }
    assert_int_equal(fixture_execute(&f, &sweep), 0);
    assert_int_equal(fixture_execute(&f, &rebalance), 0);
    assert_true(is_ready(&f));
    /* A refusal is never silent: who is refused for want of room has made the store full. */
    assert_int_equal(rename_tiers(&f, SEGMENT_CHUNK), -ENOSPC);
    assert_false(is_ready(&f));
    /* And it stays full until that would fit. */
    commit_reserve_ahead(embedded_of(f.store));
    assert_false(is_ready(&f));
    assert_int_equal(fixture_execute(&f, &sweep), -ENOSPC);
    faults.reserve = 0;
    wait_for_readiness(&f, true);
    assert_int_equal(fixture_execute(&f, &sweep), 0);
    fixture_release(&f);
}

static void full_disk__at_start_does_not_stop_the_queries(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, EMBEDDED_FSYNC_EVERYSEC);
    assert_int_equal(fixture_allocate(&f, "CA1"), 0);
    fixture_close(&f);
    faults.reserve = -1;
    fixture_open(&f);
    assert_false(is_ready(&f));
    assert_int_equal(fixture_call(&f, "CA1"), 0);
    assert_int_equal(f.result.outcome, OUTCOME_OK);
    assert_int_equal(fixture_allocate(&f, "CA2"), -ENOSPC);
    faults.reserve = 0;
    wait_for_readiness(&f, true);
    assert_int_equal(fixture_allocate(&f, "CA2"), 0);
    fixture_release(&f);
}

static void file_size_limit__is_survived_in_every_mode(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct rlimit old, small;
        struct fixture f;
        int r;

        fixture_start(&f, modes[i]);
        assert_int_equal(fixture_allocate(&f, "CA1"), 0);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
        small = old;
        small.rlim_cur = 512;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        r = fixture_allocate(&f, "CA2");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(r, -ENOSPC);
        assert_false(is_ready(&f));
        assert_int_equal(fixture_release_call(&f, "CA1"), -ENOSPC);
        wait_for_readiness(&f, true);
        /* What was answered with an error was taken back. */
        assert_int_equal(calls(&f), 1);
        assert_int_equal(fixture_allocate(&f, "CA3"), 0);
        fixture_close(&f);
        fixture_open(&f);
        assert_int_equal(calls(&f), 2);
        assert_int_equal(fixture_call(&f, "CA1"), 0);
        assert_int_equal(f.result.outcome, OUTCOME_OK);
        fixture_release(&f);
    }
}

static void write_error__is_answered_and_repaired(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct waiter waiters[WAITERS];
        struct fixture f;
        int order;

        fixture_start(&f, modes[i]);
        assert_int_equal(fixture_allocate(&f, "CA1"), 0);
        faults.pwrite = 2; /* the batch, and the first attempt at a repair */
        start_waiters(&f, waiters, &order);
        uv_run(&f.loop, UV_RUN_DEFAULT);
        check_waiters(waiters, -EIO);
        assert_int_equal(calls(&f), 1);
        assert_false(is_ready(&f));
        assert_int_equal(fixture_allocate(&f, "CA2"), -EIO);
        assert_int_equal(fixture_call(&f, "CA1"), 0);
        wait_for_readiness(&f, true);
        assert_true(fixture_has_file(&f, "snapshot.0000000002"));
        assert_false(fixture_has_file(&f, "log.0000000001"));
        assert_int_equal(fixture_allocate(&f, "CA2"), 0);
        fixture_close(&f);
        fixture_open(&f);
        assert_int_equal(calls(&f), 2);
        fixture_release(&f);
    }
}

static void sync_error__is_answered_with_an_error_when_the_answer_means_on_disk(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, EMBEDDED_FSYNC_ALWAYS);
    faults.sync = 1;
    assert_int_equal(fixture_allocate(&f, "CA1"), -EIO);
    assert_int_equal(calls(&f), 0);
    wait_for_readiness(&f, true);
    assert_int_equal(fixture_allocate(&f, "CA1"), 0);
    assert_false(f.result.allocate.was_existing);
    fixture_close(&f);
    fixture_open(&f);
    assert_int_equal(calls(&f), 1);
    fixture_release(&f);
}

static void sync_error__once_a_second_refuses_until_repaired(void **state)
{
    struct fixture f;

    (void)state;
    fixture_start(&f, EMBEDDED_FSYNC_EVERYSEC);
    assert_int_equal(fixture_allocate(&f, "CA1"), 0);
    faults.sync = 1;
    wait_for_readiness(&f, false);
    assert_int_equal(fixture_allocate(&f, "CA2"), -EIO);
    wait_for_readiness(&f, true);
    assert_true(fixture_has_file(&f, "snapshot.0000000002"));
    fixture_close(&f);
    fixture_open(&f);
    assert_int_equal(calls(&f), 1);
    fixture_release(&f);
}

static void close__while_the_disk_fails_comes_to_an_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct fixture f;

        fixture_start(&f, modes[i]);
        assert_int_equal(fixture_allocate(&f, "CA1"), 0);
        faults.pwrite = -1;
        assert_int_equal(fixture_allocate(&f, "CA2"), -EIO);
        fixture_close(&f);
        faults.pwrite = 0;
        fixture_open(&f);
        assert_int_equal(calls(&f), 1);
        fixture_release(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(execute__answers_later_in_every_mode),
        cmocka_unit_test(open__again_gives_the_same_state),
        cmocka_unit_test(open__time_does_not_go_back),
        cmocka_unit_test(open__says_what_is_wrong_with_the_directory),
        cmocka_unit_test(open__bad_tiers_are_refused_even_if_others_are_stored),
        cmocka_unit_test(open__second_one_is_refused),
        cmocka_unit_test(removed_directory__is_never_ready_again),
        cmocka_unit_test(removed_files__are_written_anew),
        cmocka_unit_test(execute__answers_in_order_with_one_write),
        cmocka_unit_test(close__answers_what_is_pending_and_keeps_it),
        cmocka_unit_test(execute__from_a_callback_is_answered_too),
        cmocka_unit_test(full_disk__refuses_changes_before_they_are_made),
        cmocka_unit_test(full_disk__is_noticed_by_the_command_that_finds_no_room),
        cmocka_unit_test(full_disk__at_start_does_not_stop_the_queries),
        cmocka_unit_test(file_size_limit__is_survived_in_every_mode),
        cmocka_unit_test(write_error__is_answered_and_repaired),
        cmocka_unit_test(sync_error__is_answered_with_an_error_when_the_answer_means_on_disk),
        cmocka_unit_test(sync_error__once_a_second_refuses_until_repaired),
        cmocka_unit_test(close__while_the_disk_fails_comes_to_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
