/*
 * serve.c - the serve task: lets the store serve the calls that wait, and end the waits that are over.
 *
 * Every command serves the line, too. This task finds what no command did: waits that nobody keeps, slots
 * that became free by hand, and routers of an older version.
 */
#include "manager/manager_internal.h"

int serve_begin(void *arg, struct command *ret_command)
{
    struct manager *manager = arg;
    struct store_health health;

    /* The store tells of an outage itself, and once: this task comes too often for that. */
    store_health(manager->serve.store, &health);
    if (!health.is_ready)
        return 0;
    *ret_command = (struct command){.type = COMMAND_SERVE};
    return 1;
}

static const char *reason_of(enum wait_end how)
{
    return how == WAIT_TIMED_OUT ? STORE_WAITED_TOO_LONG
                                 : "nobody asked for the call any more, or nobody took its pod";
}

int serve_step(void *arg, const struct result *result, struct command *command UNUSED)
{
    struct manager *manager = arg;

    for (size_t i = 0; i < result->serve.ended_count; i++) {
        const struct ended_wait *wait = &result->serve.ended[i];
        const char *how = wait_end_name(wait->how);

        store_log_wait_ended(wait, reason_of(wait->how));
        metrics_observe(metrics_series(manager->waits, &how), (double)wait->waited_ms / 1000);
    }
    return result->serve.more;
}
