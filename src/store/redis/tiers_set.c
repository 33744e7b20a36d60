/*
 * tiers_set.c - the command tiers_set: stores the text, removes outdated lists, places every pod,
 * and rebalances.
 *
 * It rebalances at once, because an idle pod must not stay in a pool that no chain reaches any
 * more.
 */
#include "store/redis/redis_internal.h"

static int add_name(struct operation *operation, struct slice name, struct slice record UNUSED)
{
    return bulk_add_name(operation->bulk, name);
}

static int place_all(struct operation *operation)
{
    return bulk_place(operation, "place", bulk_rebalance);
}

static int tiers_store(struct operation *operation);

/* Somebody else has changed the tiers since they were read: what is left out of them must be found anew. */
static void tiers_overtaken(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == 0)
        err = tiers_take(operation->store, reply);
    if (err == 0)
        err = tiers_store(operation);
    if (err)
        operation_finish(operation, err);
}

void tiers_stored(void *arg, int err, const redisReply *reply)
{
    struct operation *operation = arg;

    if (err == -ESTALE) {
        err = tiers_request(operation->store, tiers_overtaken, operation);
    } else if (err == 0 && (reply->type != REDIS_REPLY_STRING || reply->len != REDIS_VERSION_LEN)) {
        err = operation_unexpected(operation);
    } else if (err == 0) {
        tier_cache_set_version(operation->bulk->next_tiers, reply->str);
        tiers_replace(operation->store, TAKE(operation->bulk->next_tiers));
        err = bulk_scan_pods(operation, add_name, place_all);
    }
    if (err)
        operation_finish(operation, err);
}

/*
 * The tiers as they were are known now, and with them what the new ones leave out. The last try does not ask
 * whether they are still the same: a sync finds what it misses.
 */
static int tiers_store(struct operation *operation)
{
    const struct tier_config *old = operation->store->tiers->config;
    const struct tier_cache *tiers = operation->bulk->next_tiers;
    bool may_repeat = operation_may_repeat(operation);
    struct args args;

    arena_reset(&operation->bulk->scratch);
    args_begin_with(&args, operation->store, tiers, &operation->bulk->scratch, 4 + old->tier_count);
    args_add_text(&args, ""); /* no fence: this is a request, and every router takes it */
    args_add_text(&args, "set");
    args_add_text(&args, tiers->config->text);
    args_add(&args,
             (struct slice){operation->store->tiers->version, may_repeat ? (size_t)REDIS_VERSION_LEN : 0});
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
    int rc = tier_cache_new(text, &tiers, error, sizeof(error));

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
