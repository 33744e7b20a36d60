#include "store/redis/redis_internal.h"

/*
 * TIERS_SET: stores the text, forgets the lists that mean something else now, puts every pod where it
 * belongs, and rebalances at once: an idle pod must not stay in a pool that no chain reaches any more.
 */

static int add_name(struct operation *operation, struct slice name, struct slice record UNUSED)
{
    return bulk_add_name(operation->bulk, name);
}

static int place_all(struct operation *operation)
{
    return bulk_place(operation, "place", bulk_rebalance);
}

static void tiers_stored(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0 && reply->type != REDIS_REPLY_INTEGER)
        err = operation_unexpected(operation);
    if (err == 0) {
        tiers_replace(operation->store, TAKE(operation->bulk->next_tiers));
        err = bulk_scan_pods(operation, add_name, place_all);
    }
    if (err)
        operation_finish(operation, err);
}

/* The tiers as they were are known now, and with them what the new ones leave out. */
static int tiers_store(struct operation *operation)
{
    const struct tier_config *old = operation->store->tiers->config;
    const struct tier_cache *tiers = operation->bulk->next_tiers;
    struct args args;

    args_begin_with(&args, operation->store, tiers, &operation->bulk->scratch, 3 + old->tier_count);
    args_add_text(&args, ""); /* no fence: this is a request, and every router takes it */
    args_add_text(&args, "set");
    args_add_text(&args, tiers->config->text);
    for (size_t i = 0; i < old->tier_count; i++) {
        if (!tier_config_find(tiers->config, old->tiers[i].name))
            args_add_text(&args, old->tiers[i].name);
    }
    return args_call(&args, operation, "tiers", tiers_stored);
}

int operation_tiers_set(struct operation *operation)
{
    const char *text = operation->command.tiers_set.text;
    struct tier_cache *tiers = NULL;
    char error[256] = "";
    int rc = tier_cache_new(text, strlen(text), &tiers, error, sizeof(error));

    if (rc == -EINVAL) {
        rc = operation_invalid(operation, OUTCOME_INVALID, error);
        return rc ? rc : 1;
    }
    if (rc)
        return rc;
    rc = bulk_start(operation, tiers_store);
    if (operation->bulk)
        operation->bulk->next_tiers = tiers;
    else
        tier_cache_free(tiers);
    return rc;
}
