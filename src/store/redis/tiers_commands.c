/*
 * tiers_commands.c - the command tiers, which shows the stored text; and tiers_set, phase by phase.
 *
 * tiers_set reads the tiers, stores the new text, removes the lists of tiers that it leaves out,
 * places every pod, and rebalances. It rebalances at once, because an idle pod must not stay in a
 * pool that no chain reaches any more.
 */
#include "store/redis/answer.h"
#include "store/redis/bulk.h"

/* TIERS */

int operation_tiers(struct operation *operation)
{
    struct args args;

    args_init(&args, operation->arena, 2);
    args_add_text(&args, "GET");
    args_add_key(&args, operation->store, SCRIPT_KEY_TIER_CONFIG);
    return args_command(&args, operation, operation_take_text);
}

/* TIERS_SET */

struct tiers_set {
    struct tier_cache *tiers; /* to be stored; NULL: they are */
};

static void tiers_set_release(void *state)
{
    struct tiers_set *set = state;

    tier_cache_free(set->tiers);
}

/*
 * Stores the text, and names the tiers that it leaves out: these follow from the tiers as they were
 * read in the phase before. The last try does not compare them with the stored ones: a sync removes
 * the lists that it misses.
 */
static int store_send(struct operation *operation)
{
    const struct tier_cache *old = operation->store->tiers;
    const struct tiers_set *set = operation->bulk->state;
    const struct change *change = &operation->command.tiers_set.change;
    bool is_compared = operation_may_repeat(operation) && !change->is_trial;
    struct args args;

    args_begin_with(&args, operation->store, set->tiers, &operation->bulk->scratch,
                    SCRIPT_TIERS_ARGS + old->config->tier_count);
    args_add_text(&args, ""); /* no fence: this is a request, and every router takes it */
    args_add_text(&args, SCRIPT_TIERS_SET);
    args_add_text(&args, set->tiers->config->text);
    args_add(&args, (struct slice){old->version, is_compared ? (size_t)SCRIPT_VERSION_LEN : 0});
    change_add(&args, change);
    for (size_t i = 0; i < old->config->tier_count; i++) {
        if (!tier_config_find(set->tiers->config, old->config->tiers[i].name))
            args_add_text(&args, old->config->tiers[i].name);
    }
    return bulk_call(&args, operation, SCRIPT_TIERS);
}

static int store_take(struct operation *operation, const redisReply *reply)
{
    struct tiers_set *set = operation->bulk->state;
    struct answer answer;
    struct slice version;
    const char *old_text;
    uint64_t number;
    int err;

    if (reply->type == REDIS_REPLY_INTEGER && reply->integer == SCRIPT_TIERS_CHANGED) {
        err = operation_refuse(operation, OUTCOME_CONFLICT, REFUSED_CHANGED);
        return err < 0 ? err : BULK_DONE;
    }
    answer_init(&answer, reply, operation->arena);
    version = answer_slice(&answer);
    number = answer_u64(&answer);
    old_text = answer_text(&answer);
    if (answer.err)
        return operation_checked(operation, answer.err);
    if (version.len != SCRIPT_VERSION_LEN)
        return operation_unexpected(operation);
    err = change_answer(operation, number, old_text, set->tiers->config->text);
    if (err < 0)
        return err;
    if (operation->command.tiers_set.change.is_trial)
        return BULK_DONE;
    tier_cache_set_version(set->tiers, version.data);
    tiers_replace(operation->store, TAKE(set->tiers));
    return BULK_NEXT;
}

/* Somebody else has changed the tiers since they were read: the ones that are left out may be others. */
static int store_stale(struct operation *operation UNUSED)
{
    return BULK_RESTART;
}

static const struct bulk_phase store_text = {
    .name = "store the text", .send = store_send, .take = store_take, .stale = store_stale};

static int list_begin(struct operation *operation)
{
    return bulk_scan_begin(operation, bulk_keep_name);
}

static const struct bulk_phase list_pods = {
    .name = "list the pods", .begin = list_begin, .send = bulk_scan_send, .take = bulk_scan_take};

static int place_begin(struct operation *operation)
{
    return bulk_place_begin(operation, SCRIPT_PLACE_ONLY);
}

static const struct bulk_phase place_pods = {
    .name = "place the pods", .begin = place_begin, .send = bulk_place_send, .take = bulk_place_take};

static const struct bulk_phase *const tiers_set_phases[] = {
    &bulk_read_tiers,         &store_text,          &list_pods,      &place_pods, &rebalance_count,
    &rebalance_remove_strays, &rebalance_read_pods, &rebalance_move, NULL,
};

int operation_tiers_set(struct operation *operation)
{
    const char *text = operation->command.tiers_set.text;
    bool is_stored = operation->command.tiers_set.change.is_stored;
    struct tier_cache *tiers = NULL;
    char error[256] = "";
    int err = is_stored ? tier_cache_new_stored(text, strlen(text), &tiers, error, sizeof(error))
                        : tier_cache_new(text, &tiers, error, sizeof(error));

    assert(!operation->command.tiers_set.is_seed); /* the store seeds itself: see tiers_cache.c */
    if (err == -EINVAL) {
        err = operation_refuse(operation, OUTCOME_INVALID, error);
        return err < 0 ? err : 1;
    }
    if (err < 0)
        return err;
    err = bulk_new(operation, sizeof(struct tiers_set), tiers_set_release);
    if (err < 0) {
        tier_cache_free(tiers);
        return err;
    }
    ((struct tiers_set *)operation->bulk->state)->tiers = tiers;
    return bulk_start(operation, tiers_set_phases);
}
