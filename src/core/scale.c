/*
 * scale.c - the command scale: drains the ordinals of StatefulSets that are not wanted, and undrains them.
 *
 * The rules are in autoscale_sets.c. All pods are judged by the state before the first change.
 */
#include "core/autoscale.h"
#include "core/page.h"
#include "core/state.h"

struct scaled {
    struct pod *pod;
    enum scale_action action;
};

static enum scale_action action_for(const struct result *status, const struct pod *pod, bool by_set)
{
    const struct scale_pod judged = {.name = pod->name,
                                     .tier = pod->pool->spec.name,
                                     .state = pod->state,
                                     .has_calls = pod->load > 0,
                                     .is_terminating = pod->is_terminating,
                                     .is_surplus = pod->is_surplus};

    return autoscale_action(status, &judged, by_set);
}

static void scale_pod(struct core *core, const struct scaled *scaled)
{
    struct pod *pod = scaled->pod;

    if (scaled->action == SCALE_DRAIN) {
        pod->draining_until_ms = DRAIN_WITHOUT_END;
        pod->is_surplus = true;
        pod_place(core, pod);
        assert(pod->state == POD_DRAINING);
        pod_report(core, pod);
        return;
    }
    pod->draining_until_ms = 0;
    pod->is_surplus = false;
    if (!pod_should_leave(core, pod))
        pod_report(core, pod);
    (void)pod_settle(core, pod);
}

int core_scale(struct core *core, const struct command *command, struct arena *arena, struct result *result)
{
    const struct command look = {.type = COMMAND_STATUS, .status = {.with_sets = true}};
    size_t limit = (size_t)min_u64(step_limit(command->scale.limit), core->pods.count);
    struct scaled *all = arena_alloc(arena, (limit + 1) * sizeof(*all));
    struct result status = {0};
    size_t count = 0;
    int err = core_status(core, &look, arena, &status);

    if (err == 0)
        err = name_array_init(&result->scale.drained, arena, limit);
    if (err == 0)
        err = name_array_init(&result->scale.undrained, arena, limit);
    if (err < 0 || !all)
        return -ENOMEM;
    for (size_t i = 0; i < core->pods.count && !result->scale.more; i++) {
        struct pod *pod = core->pods_by_name[i];
        enum scale_action action = action_for(&status, pod, command->scale.by_set);
        struct name_array *names = action == SCALE_DRAIN ? &result->scale.drained : &result->scale.undrained;

        result->scale.more = action != SCALE_NOTHING && count == limit;
        if (action == SCALE_NOTHING || count == limit)
            continue;
        all[count++] = (struct scaled){pod, action};
        err = name_array_add(names, arena, pod->name);
        if (err < 0)
            return err;
    }
    for (size_t i = 0; i < count; i++)
        scale_pod(core, &all[i]);
    return 0;
}
