/*
 * change.c - plans the versions that a change of a configuration adds to its history, and adds them
 * once the change is done.
 */
#include <stdlib.h>

#include "core/state.h"

static void plan_release(struct change_plan *plan)
{
    free(plan->present);
    free(plan->added);
    *plan = (struct change_plan){0};
}

void change_cancel(struct core *core, struct change_plan *plan)
{
    struct history *history = plan->history;

    plan_release(plan);
    if (history)
        history_drop_empty(&core->histories, history);
}

/* Everything that can fail. */
static int plan_versions(struct core *core, const char *merchant_id, uint64_t present, bool is_kept,
                         const struct change *change, const struct result *result, struct change_plan *plan)
{
    const char *by = change->by ? change->by : "";
    int err;

    plan->added = version_new(present + 1, core->now_ms, by, result->change.new_text);
    if (!is_kept)
        plan->present = version_new(present, 0, "", result->change.old_text);
    if (!plan->added || (!is_kept && !plan->present)) {
        plan_release(plan);
        return -ENOMEM;
    }
    err = history_get(&core->histories, merchant_id, &plan->history);
    if (err < 0)
        plan_release(plan);
    return err;
}

int change_prepare(struct core *core, const char *merchant_id, const struct change *change,
                   const char *old_text, const char *new_text, struct arena *arena, struct result *result,
                   struct change_plan *ret_plan)
{
    const struct version *newest = history_newest(history_find(&core->histories, merchant_id));
    uint64_t kept = newest ? newest->number : 0;
    uint64_t present = history_present(kept, newest ? newest->text : "", old_text);
    int err;

    *ret_plan = (struct change_plan){0};
    if (change->if_version && change->if_version != present)
        return fail_conflict(arena, result, REFUSED_CHANGED);
    err = result_change(result, arena, present, old_text, new_text);
    if (err < 0 || change->is_trial || !result->change.is_changed)
        return err;
    return plan_versions(core, merchant_id, present, present == kept, change, result, ret_plan);
}

static void commit_version(struct core *core, struct history *history, struct version *version)
{
    core_report(core, &(struct record){.type = RECORD_VERSION,
                                       .version = {.merchant_id = history->merchant_id,
                                                   .by = version->by,
                                                   .text = version->text,
                                                   .number = version->number,
                                                   .at_ms = version->at_ms}});
    history_add(&core->histories, history, version);
}

void change_commit(struct core *core, struct change_plan *plan)
{
    if (!plan->history)
        return;
    if (plan->present)
        commit_version(core, plan->history, TAKE(plan->present));
    commit_version(core, plan->history, TAKE(plan->added));
    *plan = (struct change_plan){0};
}
