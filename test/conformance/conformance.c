/*
 * conformance.c - one suite for core and for every store:
 * conformance core | conformance embedded | conformance redis SHIM
 *
 * Each case states the answers that core and every store must give. replay.c compares the answers
 * to random commands.
 */
#include "../support/world.h"

enum {
    CASES_MAX = 320,
    SKIPPED = 77,
};

static size_t add_cases(struct CMUnitTest *tests, size_t count, const struct world_case *cases,
                        struct world_kind *kind)
{
    for (; cases->name; cases++) {
        assert(count < CASES_MAX);
        tests[count++] =
            (struct CMUnitTest){.name = cases->name, .test_func = cases->run, .initial_state = kind};
    }
    return count;
}

static bool kind_of(int argc, char **argv, struct world_kind *ret_kind)
{
    const char *name = argc > 1 ? argv[1] : "";

    if (strcmp(name, "core") == 0 && argc == 2)
        *ret_kind = (struct world_kind){.type = WORLD_CORE, .name = name};
    else if (strcmp(name, "embedded") == 0 && argc == 2)
        *ret_kind = (struct world_kind){.type = WORLD_EMBEDDED, .name = name};
    else if (strcmp(name, "redis") == 0 && argc == 3)
        *ret_kind = (struct world_kind){.type = WORLD_REDIS, .name = name};
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[CASES_MAX];
    struct world_kind kind;
    struct redis_server server;
    size_t count = 0;
    int rc;

    if (!kind_of(argc, argv, &kind))
        return fprintf(stderr, "usage: conformance core | embedded | redis SHIM\n"), 2;
    if (kind.type == WORLD_REDIS) {
        rc = redis_server_start(&server, argv[2], UINT64_C(1770000000000));
        if (rc == -ENOENT)
            return printf("skipped: redis-server is not installed\n"), SKIPPED;
        if (rc)
            return fprintf(stderr, "redis-server does not start: %s\n", strerror(-rc)), 1;
        kind.server = &server;
    }
    count = add_cases(tests, count, cases_calls, &kind);
    count = add_cases(tests, count, cases_chains, &kind);
    count = add_cases(tests, count, cases_pods, &kind);
    count = add_cases(tests, count, cases_absent, &kind);
    count = add_cases(tests, count, cases_time, &kind);
    count = add_cases(tests, count, cases_edges, &kind);
    count = add_cases(tests, count, cases_carried, &kind);
    count = add_cases(tests, count, cases_owner, &kind);
    count = add_cases(tests, count, cases_history, &kind);
    count = add_cases(tests, count, cases_activity, &kind);
    count = add_cases(tests, count, cases_autoscale, &kind);
    count = add_cases(tests, count, cases_story, &kind);
    count = add_cases(tests, count, cases_line, &kind);
    count = add_cases(tests, count, cases_holders, &kind);
    count = add_cases(tests, count, cases_rescue, &kind);
    if (kind.type != WORLD_CORE) {
        count = add_cases(tests, count, cases_attempts, &kind);
        count = add_cases(tests, count, cases_events, &kind);
        count = add_cases(tests, count, cases_line_events, &kind);
    }
    rc = _cmocka_run_group_tests(kind.name, tests, count, NULL, NULL);
    if (kind.server)
        redis_server_stop(&server);
    return rc;
}
