/*
 * conformance.c - one suite for every store: conformance embedded | conformance redis SHIM
 *
 * What a store must answer, case by case, whatever is behind it. The replay looks for what nobody thought of.
 */
#include "world.h"

enum { CASES_MAX = 128, SKIPPED = 77 };

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

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[CASES_MAX];
    struct world_kind kind = {.name = argc > 1 ? argv[1] : ""};
    struct redis_server server;
    size_t count = 0;
    int rc;

    if (strcmp(kind.name, "redis") == 0 && argc == 3) {
        rc = redis_server_start(&server, argv[2], UINT64_C(1770000000000));
        if (rc == -ENOENT)
            return printf("skipped: redis-server is not installed\n"), SKIPPED;
        if (rc)
            return fprintf(stderr, "redis-server does not start: %s\n", strerror(-rc)), 1;
        kind.server = &server;
    } else if (strcmp(kind.name, "embedded") != 0 || argc != 2) {
        return fprintf(stderr, "usage: conformance embedded | conformance redis SHIM\n"), 2;
    }
    count = add_cases(tests, count, cases_calls, &kind);
    count = add_cases(tests, count, cases_chains, &kind);
    count = add_cases(tests, count, cases_pods, &kind);
    count = add_cases(tests, count, cases_absent, &kind);
    count = add_cases(tests, count, cases_time, &kind);
    count = add_cases(tests, count, cases_edges, &kind);
    count = add_cases(tests, count, cases_carried, &kind);
    count = add_cases(tests, count, cases_owner, &kind);
    count = add_cases(tests, count, cases_events, &kind);
    rc = _cmocka_run_group_tests(kind.name, tests, count, NULL, NULL);
    if (kind.server)
        redis_server_stop(&server);
    return rc;
}
