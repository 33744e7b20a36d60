/*
 * sweep.c - the sweep task: lets the store end calls with expired leases and bring pods back.
 */
#include "base/log.h"
#include "manager/manager_internal.h"

int sweep_begin(void *arg, struct command *ret_command)
{
    struct manager *manager = arg;

    metrics_add(manager->sweeps, 1);
    *ret_command = (struct command){.type = COMMAND_SWEEP};
    return 1;
}

int sweep_step(void *arg, const struct result *result, struct command *command UNUSED)
{
    struct manager *manager = arg;

    for (size_t i = 0; i < result->sweep.ended.count; i++) {
        if (result->sweep.ended.calls[i].why == CALL_END_EXPIRED)
            metrics_add(manager->zombies_recovered, 1);
    }
    for (size_t i = 0; i < result->sweep.gone.count; i++)
        log_warn("pod gone", log_str("pod", result->sweep.gone.names[i]),
                 log_str("reason", "no heartbeat within HEARTBEAT_TTL: it gets no calls until it registers"));
    if (result->sweep.recovered > 0)
        log_info("pods recovered", log_num("pods", (int64_t)result->sweep.recovered));
    metrics_add(manager->zombies_recovered, (double)result->sweep.recovered);
    if (result->sweep.look_again_ms)
        manager->sweep.delay_ms = min_u64(manager->sweep.delay_ms, result->sweep.look_again_ms);
    return result->sweep.more;
}
