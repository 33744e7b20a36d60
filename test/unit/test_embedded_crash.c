/*
 * test_embedded_crash.c - a process is killed at any moment, also while it makes snapshots: the
 * changes that it acknowledged are there afterwards.
 */
#include "../support/embedded_fixture.h"

#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"

enum {
    ROUNDS_DEFAULT = 20,
    SLOTS = 12,
    CHILD_TURNS_MAX = 1000000,
};

/* What the child was told, in the order in which it was told. */
struct told {
    int slot;
    int number; /* of the call in that slot */
    bool is_release;
    bool is_start; /* asked, not answered yet */
    char pod[32];
};

static void tell(int fd, const struct told *told)
{
    /* Smaller than PIPE_BUF, so it arrives as a whole or not at all. */
    assert_int_equal(write(fd, told, sizeof(*told)), sizeof(*told));
}

static void child_step(struct fixture *f, int fd, int slot, int number, bool is_release)
{
    struct told told = {.slot = slot, .number = number, .is_release = is_release, .is_start = true};
    char sid[32];

    snprintf(sid, sizeof(sid), "CA-%d-%d", slot, number);
    tell(fd, &told);
    assert_int_equal(is_release ? fixture_release_call(f, sid) : fixture_allocate(f, sid), 0);
    assert_int_equal(f->result.outcome, OUTCOME_OK);
    told.is_start = false;
    if (!is_release)
        snprintf(told.pod, sizeof(told.pod), "%s", f->result.allocate.call.pod);
    tell(fd, &told);
    arena_reset(&f->arena);
}

static void child_run(struct fixture *f, int fd, const int *numbers, const bool *is_held)
{
    int number[SLOTS];
    bool held[SLOTS];

    memcpy(number, numbers, sizeof(number));
    memcpy(held, is_held, sizeof(held));
    fixture_open(f);
    for (int i = 0; i < CHILD_TURNS_MAX; i++) {
        int slot = (i * 7) % SLOTS;

        if (!held[slot])
            number[slot]++;
        child_step(f, fd, slot, number[slot], held[slot]);
        held[slot] = !held[slot];
    }
    _exit(0);
}

struct slot {
    int number;
    bool is_held;
    bool is_unsure; /* the child was killed before it was answered */
    char pod[32];
};

/* Until `enough` were answered, or the child is gone. */
static size_t listen_to_child(int fd, struct slot *slots, size_t enough)
{
    struct told told;
    size_t count = 0;

    while (count < enough && read(fd, &told, sizeof(told)) == sizeof(told)) {
        struct slot *slot = &slots[told.slot];

        slot->number = told.number;
        slot->is_unsure = told.is_start;
        slot->is_held = !told.is_release;
        memcpy(slot->pod, told.pod, sizeof(slot->pod));
        count += !told.is_start;
    }
    return count;
}

static void check_slots(struct fixture *f, struct slot *slots)
{
    for (int i = 0; i < SLOTS; i++) {
        bool is_there;
        char sid[32];

        if (!slots[i].number)
            continue;
        snprintf(sid, sizeof(sid), "CA-%d-%d", i, slots[i].number);
        assert_int_equal(fixture_call(f, sid), 0);
        is_there = f->result.outcome == OUTCOME_OK;
        if (!slots[i].is_unsure) {
            assert_int_equal(is_there, slots[i].is_held);
            if (is_there)
                assert_string_equal(f->result.call.call.pod, slots[i].pod);
        }
        slots[i].is_unsure = false;
        slots[i].is_held = is_there;
        if (is_there)
            snprintf(slots[i].pod, sizeof(slots[i].pod), "%s", f->result.call.call.pod);
    }
    arena_reset(&f->arena);
}

/* Kills the child `after_us` after it was answered `after_answers` times. */
static size_t crash_round(struct fixture *f, struct slot *slots, size_t after_answers, unsigned after_us)
{
    int numbers[SLOTS];
    bool is_held[SLOTS];
    size_t count;
    int pipes[2];
    pid_t child;
    int status;

    for (int i = 0; i < SLOTS; i++) {
        numbers[i] = slots[i].number;
        is_held[i] = slots[i].is_held;
    }
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct fixture own = *f;

        close(pipes[0]);
        assert_int_equal(uv_loop_init(&own.loop), 0);
        arena_init(&own.arena, 64 * 1024 * 1024);
        child_run(&own, pipes[1], numbers, is_held);
    }
    close(pipes[1]);
    count = listen_to_child(pipes[0], slots, after_answers);
    usleep(after_us);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    count += listen_to_child(pipes[0], slots, SIZE_MAX);
    close(pipes[0]);
    return count;
}

static void kill_9__keeps_what_was_acknowledged(void **state)
{
    static const enum embedded_fsync modes[] = {EMBEDDED_FSYNC_ALWAYS, EMBEDDED_FSYNC_EVERYSEC};
    static const size_t most_answers[] = {300, 10000}; /* enough for a snapshot or two */
    const char *wanted = getenv("CRASH_ROUNDS");
    int rounds = wanted ? (int)strtol(wanted, NULL, 10) : ROUNDS_DEFAULT;
    uint64_t seed = clock_elapsed_ns();

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    /* A process that is killed takes nothing from the kernel, so LOG_FSYNC=everysec must hold here as well.
     */
    for (size_t m = 0; m < ARRAY_LEN(modes); m++) {
        struct slot slots[SLOTS] = {0};
        size_t count = 0;
        struct fixture f;

        fixture_init(&f, modes[m]);
        f.settings.snapshot_after_bytes = 8000;
        fixture_open(&f);
        fixture_add_pods(&f);
        fixture_close(&f);
        for (int i = 0; i < rounds; i++) {
            size_t dump_len;

            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            count += crash_round(&f, slots, (seed >> 33) % most_answers[m], (unsigned)((seed >> 20) % 3000));
            fixture_open(&f);
            free(fixture_dump(&f, &dump_len)); /* checks the invariants */
            check_slots(&f, slots);
            fixture_close(&f);
        }
        assert_true(count > (size_t)rounds);
        assert_false(fixture_has_file(&f, "log.0000000001")); /* snapshots were made */
        fixture_release(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kill_9__keeps_what_was_acknowledged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
