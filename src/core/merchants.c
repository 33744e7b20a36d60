/*
 * merchants.c - the configurations of merchants: find, put, remove; the commands merchant_set and
 * merchant_remove.
 *
 * core/merchant.c parses the text of one configuration.
 */
#include <stdlib.h>

#include "core/state.h"

enum { MERCHANT_ARENA_MAX = 256 * 1024 };

struct merchant *merchant_find(const struct core *core, const char *id)
{
    struct map_node *node = map_get(&core->merchants, id, strlen(id));

    return node ? CONTAINER_OF(node, struct merchant, node) : NULL;
}

void merchant_free(struct core *core, struct merchant *merchant)
{
    assert(core->merchants.count > 0);
    map_remove(&core->merchants, &merchant->node);
    arena_release(&merchant->arena);
    free(merchant->text);
    free(merchant);
}

int merchant_put(struct core *core, const char *id, const char *text)
{
    struct merchant *old = merchant_find(core, id);
    struct merchant *merchant = calloc(1, sizeof(*merchant) + strlen(id) + 1);
    size_t count = core->merchants.count + (old ? 0 : 1);
    char error[128];

    if (!merchant)
        return -ENOMEM;
    memcpy(merchant->id, id, strlen(id) + 1);
    merchant->text = strdup(text);
    if (!merchant->text || map_reserve(&core->merchants)) {
        free(merchant->text);
        free(merchant);
        return -ENOMEM;
    }
    arena_init(&merchant->arena, MERCHANT_ARENA_MAX);
    merchant->is_readable = merchant_config_parse(&merchant->arena, merchant->text, strlen(merchant->text),
                                                  &merchant->config, error, sizeof(error)) == 0;
    if (old)
        merchant_free(core, old);
    map_put(&core->merchants, &merchant->node, merchant->id, strlen(merchant->id));
    assert(core->merchants.count == count);
    return 0;
}

static int merchant_store(struct core *core, const char *id, const char *text, struct change_plan *plan)
{
    int err = merchant_put(core, id, text);

    if (err < 0) {
        change_cancel(core, plan);
        return err;
    }
    core_report(core, &(struct record){.type = RECORD_MERCHANT, .merchant = {.id = id, .text = text}});
    change_commit(core, plan);
    return 0;
}

int core_merchant_set(struct core *core, const struct command *command, struct arena *arena,
                      struct result *result)
{
    const struct change *change = &command->merchant_set.change;
    const char *id = command->merchant_set.merchant_id;
    const char *text = command->merchant_set.text;
    const struct merchant *old = merchant_find(core, id);
    struct merchant_config config = {0};
    struct change_plan plan;
    char error[256] = "";
    int err;

    err = (change->is_stored ? merchant_config_parse : merchant_config_check)(arena, text, strlen(text),
                                                                              &config, error, sizeof(error));
    if (err == -EINVAL)
        return fail_invalid(arena, result, error);
    if (err == 0 && !old && core->merchants.count >= MERCHANTS_MAX)
        return fail_conflict(arena, result, REFUSED_FULL_OF_MERCHANTS);
    if (err == 0)
        err = result_warn_of_names(result, arena, &config, core->tiers);
    if (err == 0)
        err = change_prepare(core, id, change, old ? old->text : "", text, arena, result, &plan);
    if (err < 0 || result->outcome != OUTCOME_OK || change->is_trial)
        return err;
    return merchant_store(core, id, text, &plan);
}

int core_merchant_remove(struct core *core, const struct command *command, struct arena *arena,
                         struct result *result)
{
    const struct change *change = &command->merchant_remove.change;
    struct merchant *merchant = merchant_find(core, command->merchant_remove.merchant_id);
    struct change_plan plan;
    int err;

    if (!merchant) {
        result->outcome = OUTCOME_NOT_FOUND;
        return 0;
    }
    err = change_prepare(core, merchant->id, change, merchant->text, "", arena, result, &plan);
    if (err < 0 || result->outcome != OUTCOME_OK || change->is_trial)
        return err;
    core_report(core, &(struct record){.type = RECORD_MERCHANT_GONE, .merchant = {.id = merchant->id}});
    merchant_free(core, merchant);
    change_commit(core, &plan);
    return 0;
}
