/*
 * scale.c - the scale task: lets the store drain the pods of StatefulSets that autoscaling does not want.
 */
#include "base/log.h"
#include "manager/manager_internal.h"

int scale_begin(void *arg, struct command *ret_command)
{
    const struct manager *manager = arg;

    if (!manager->settings.scales_sets && manager->has_unscaled)
        return 0;
    *ret_command =
        (struct command){.type = COMMAND_SCALE, .scale = {.by_set = manager->settings.scales_sets}};
    return 1;
}

int scale_step(void *arg, const struct result *result, struct command *command UNUSED)
{
    struct manager *manager = arg;

    for (size_t i = 0; i < result->scale.drained.count; i++)
        log_info("pod drained", log_str("pod", result->scale.drained.names[i]),
                 log_str("reason", "autoscaling wants fewer pods"));
    for (size_t i = 0; i < result->scale.undrained.count; i++)
        log_info("pod undrained", log_str("pod", result->scale.undrained.names[i]),
                 log_str("reason", "autoscaling wants it again"));
    manager->has_unscaled = !result->scale.more;
    return result->scale.more;
}
