/*
 * line.c - the line: a waiting call joins, is kept, changes its chain, and leaves.
 *
 * What can fail is reserved before anything changes. core/line_serve.c gives pods to waiting calls.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/state.h"

/* Those of one moment by their names, as in Redis. */
static bool waiter_is_due_before(const struct heap_node *a, const struct heap_node *b)
{
    return strcmp(CONTAINER_OF(a, struct waiter, due)->call_sid,
                  CONTAINER_OF(b, struct waiter, due)->call_sid) < 0;
}

void line_init(struct line *line)
{
    map_init(&line->waiters);
    map_init(&line->merchants);
    heap_init_ordered(&line->due, waiter_is_due_before);
    list_init(&line->marked);
    list_init(&line->granted);
    grants_init(&line->grants);
}

void line_release(struct core *core)
{
    struct line *line = &core->line;

    while (line->all.count)
        waiter_free(core, line->all.waiters[line->all.count - 1]);
    assert(line->waiters.count == 0 && line->merchants.count == 0 && line->due.count == 0);
    assert(list_is_empty(&line->granted));
    places_release(&line->all);
    map_release(&line->waiters);
    map_release(&line->merchants);
    heap_release(&line->due);
    grants_release(&line->grants);
}

struct waiter *waiter_find(const struct core *core, const char *call_sid)
{
    struct map_node *node = map_get(&core->line.waiters, call_sid, strlen(call_sid));

    return node ? CONTAINER_OF(node, struct waiter, node) : NULL;
}

bool waiter_is_overdue(const struct core *core, const struct waiter *waiter)
{
    return waiter->due.at <= core->now_ms;
}

/* The configuration that counts for the calls of a merchant; NULL: none, or it is unreadable. */
static const struct merchant_config *config_of(const struct core *core, const char *merchant_id,
                                               bool *ret_unreadable)
{
    const struct merchant *merchant = merchant_id[0] ? merchant_find(core, merchant_id) : NULL;

    *ret_unreadable = merchant && !merchant->is_readable;
    return merchant && merchant->is_readable ? &merchant->config : NULL;
}

void wait_rules_of(const struct core *core, const char *merchant_id, struct wait_rules *ret_rules)
{
    struct wait_rules rules = {.max_wait_ms = core->settings.hold_max_wait_ms, .max_waiting = UINT64_MAX};
    const struct merchant_config *config = config_of(core, merchant_id, &rules.is_unreadable);

    if (config && config->hold_seconds != MERCHANT_NOT_GIVEN)
        rules.max_wait_ms = config->hold_seconds * UINT64_C(1000);
    if (config && config->max_waiting != MERCHANT_NOT_GIVEN)
        rules.max_waiting = config->max_waiting;
    if (config && config->priority != MERCHANT_NOT_GIVEN)
        rules.priority = config->priority;
    *ret_rules = rules;
}

static struct merchant_line *merchant_line_find(const struct core *core, const char *id)
{
    struct map_node *node = map_get(&core->line.merchants, id, strlen(id));

    return node ? CONTAINER_OF(node, struct merchant_line, node) : NULL;
}

bool line_is_full(const struct core *core, const char *merchant_id, const struct wait_rules *rules)
{
    const struct merchant_line *merchant = merchant_line_find(core, merchant_id);

    return core->line.all.count >= core->settings.hold_max_calls ||
           (merchant ? merchant->count : 0) >= rules->max_waiting;
}

uint64_t waited_ms(const struct core *core, uint64_t since_ms)
{
    return core->now_ms > since_ms ? core->now_ms - since_ms : 0;
}

/* Then its holder is silent. */
static uint64_t waiter_silent_at_ms(const struct waiter *waiter)
{
    return waiter->heard_at_ms + (waiter->awaits_stream ? WAIT_FIRST_MS : WAIT_SILENT_MS);
}

bool waiter_is_elsewhere(const struct core *core, const struct waiter *waiter, uint64_t claim)
{
    return waiter->claim > claim && core->now_ms < waiter_silent_at_ms(waiter);
}

uint64_t next_claim(const struct core *core, uint64_t claim)
{
    /* A time, so that it is higher than those before also if the store has lost them. */
    return max_u64(core->now_ms, claim + 1);
}

static void waiter_set_due(struct core *core, struct waiter *waiter)
{
    heap_set(&core->line.due, &waiter->due, min_u64(waiter->until_ms, waiter_silent_at_ms(waiter)));
}

/* It may have been overdue, and passed over: what is free in its pools may be for it. */
static void waiter_mark_pools(struct core *core, const struct waiter *waiter)
{
    for (size_t i = 0; i < waiter->pool_count; i++)
        line_mark(core, waiter->pools[i]);
}

void waiter_heard(struct core *core, struct waiter *waiter)
{
    waiter->heard_at_ms = core->now_ms;
    waiter_set_due(core, waiter);
    waiter_mark_pools(core, waiter);
}

void waiter_set_holder(struct waiter *waiter, const char *holder)
{
    assert(!holder || strlen(holder) <= CARRIER_MAX);
    snprintf(waiter->holder, sizeof(waiter->holder), "%s", holder ? holder : "");
}

/* Room for one call more in the line of each pool. */
static int pools_reserve(struct pool *const *pools, size_t count)
{
    int err = 0;

    for (size_t i = 0; err == 0 && i < count; i++)
        err = places_reserve(&pools[i]->line, 1);
    return err;
}

/* Its references to its pools stay as they are. */
static void waiter_enter_lines(struct waiter *waiter)
{
    for (size_t i = 0; i < waiter->pool_count; i++)
        places_add(&waiter->pools[i]->line, waiter);
    if (waiter->pool_count)
        waiter->pools[0]->first_count++;
}

static void waiter_leave_lines(struct waiter *waiter)
{
    if (waiter->pool_count)
        waiter->pools[0]->first_count--;
    for (size_t i = 0; i < waiter->pool_count; i++)
        places_remove(&waiter->pools[i]->line, waiter);
}

static void waiter_ref_pools(struct waiter *waiter)
{
    for (size_t i = 0; i < waiter->pool_count; i++)
        pool_ref(waiter->pools[i]);
}

static void waiter_unref_pools(struct core *core, struct waiter *waiter)
{
    for (size_t i = 0; i < waiter->pool_count; i++)
        pool_unref(core, waiter->pools[i]);
    waiter->pool_count = 0;
}

static size_t pools_of_chain(const struct core *core, const char *merchant_id,
                             struct pool *ret_pools[CHAIN_MAX], bool *ret_unreadable)
{
    const struct merchant_config *config = config_of(core, merchant_id, ret_unreadable);
    struct chain chain;

    chain_resolve(core->tiers, config, &chain);
    for (size_t i = 0; i < chain.len; i++)
        ret_pools[i] = core->tier_pools[chain.steps[i] - core->tiers->tiers];
    return chain.len;
}

static int line_reserve(struct line *line)
{
    int err = map_reserve(&line->waiters);

    if (err == 0)
        err = map_reserve(&line->merchants);
    if (err == 0)
        err = heap_reserve(&line->due, line->due.count + 1);
    if (err == 0)
        err = places_reserve(&line->all, 1);
    return err;
}

static struct waiter *waiter_new(const struct joining *joining, size_t pool_count)
{
    size_t sid_len = strlen(joining->call_sid);
    size_t merchant_len = strlen(joining->merchant_id);
    size_t provider_len = strlen(joining->provider);
    struct waiter *waiter = malloc(sizeof(*waiter) + sid_len + merchant_len + provider_len + 3);
    struct pool **pools = malloc((pool_count + 1) * sizeof(struct pool *));
    char *text;

    assert(sid_len > 0 && sid_len <= CALL_SID_MAX);
    assert(merchant_len <= MERCHANT_ID_MAX && provider_len <= PROVIDER_MAX);
    if (!waiter || !pools) {
        free(waiter);
        free(pools);
        return NULL;
    }
    *waiter = (struct waiter){
        .pools = pools,
        .pools_room = pool_count + 1,
        .since_ms = joining->since_ms,
        .until_ms = joining->until_ms,
        .attempt = joining->attempt,
        .claim = joining->claim,
        .resumes = joining->resumes,
        .awaits_stream = joining->awaits_stream,
        .is_rescued = joining->is_rescued,
        .was_renewed = joining->was_renewed,
    };
    memcpy(waiter->call_sid, joining->call_sid, sid_len + 1);
    text = waiter->call_sid + sid_len + 1;
    waiter->merchant_id = memcpy(text, joining->merchant_id, merchant_len + 1);
    waiter->provider = memcpy(text + merchant_len + 1, joining->provider, provider_len + 1);
    waiter_set_holder(waiter, joining->holder);
    return waiter;
}

/* *ret_merchant: the count of the merchant's calls, made if it has none yet; NULL for no merchant. */
static int merchant_line_get(struct core *core, const char *id, struct merchant_line **ret_merchant)
{
    size_t len = strlen(id);
    struct merchant_line *merchant = merchant_line_find(core, id);

    if (!merchant && len > 0) {
        merchant = malloc(sizeof(*merchant) + len + 1);
        if (!merchant)
            return -ENOMEM;
        *merchant = (struct merchant_line){0};
        memcpy(merchant->id, id, len + 1);
        map_put(&core->line.merchants, &merchant->node, merchant->id, len);
    }
    *ret_merchant = merchant;
    return 0;
}

static void merchant_line_unref(struct core *core, struct merchant_line *merchant)
{
    assert(merchant->count > 0);
    merchant->count--;
    if (merchant->count)
        return;
    map_remove(&core->line.merchants, &merchant->node);
    free(merchant);
}

/* There must be room, and it must have its place, its pools, and the count of its merchant's calls. */
static void waiter_enter(struct core *core, struct waiter *waiter)
{
    struct line *line = &core->line;

    if (waiter->merchant)
        waiter->merchant->count++;
    map_put(&line->waiters, &waiter->node, waiter->call_sid, strlen(waiter->call_sid));
    places_add(&line->all, waiter);
    waiter_enter_lines(waiter);
    waiter_heard(core, waiter);
    assert(line->all.count == line->waiters.count && line->all.count == line->due.count);
}

int line_put(struct core *core, const struct joining *joining, uint32_t priority, int64_t place,
             struct pool *const *pools, size_t pool_count, struct waiter **ret_waiter)
{
    struct line *line = &core->line;
    struct waiter *waiter;
    int err = line_reserve(line);

    if (err == 0)
        err = pools_reserve(pools, pool_count);
    if (err < 0)
        return err;
    waiter = waiter_new(joining, pool_count);
    if (!waiter)
        return -ENOMEM;
    err = merchant_line_get(core, joining->merchant_id, &waiter->merchant);
    if (err < 0) {
        free(waiter->pools);
        free(waiter);
        return err;
    }
    waiter->priority = priority;
    waiter->place = place;
    memcpy(waiter->pools, pools, pool_count * sizeof(struct pool *));
    waiter->pool_count = pool_count;
    waiter_ref_pools(waiter);
    waiter_enter(core, waiter);
    *ret_waiter = waiter;
    return 0;
}

int waiter_return(struct core *core, struct waiter *waiter)
{
    int err = line_reserve(&core->line);

    assert(!waiter->merchant && waiter->due.place == 0);
    if (err == 0)
        err = pools_reserve(waiter->pools, waiter->pool_count);
    if (err == 0)
        err = merchant_line_get(core, waiter->merchant_id, &waiter->merchant);
    if (err == 0)
        waiter_enter(core, waiter);
    return err;
}

int64_t wait_place(const struct core *core, uint64_t since_ms, const struct wait_rules *rules)
{
    return (int64_t)since_ms - (int64_t)(rules->priority * core->settings.hold_ageing_ms);
}

int line_enter(struct core *core, const struct joining *joining, struct waiter **ret_waiter)
{
    struct pool *pools[CHAIN_MAX];
    struct wait_rules rules;
    size_t count;

    assert(!waiter_find(core, joining->call_sid));
    wait_rules_of(core, joining->merchant_id, &rules);
    count = pools_of_chain(core, joining->merchant_id, pools, &rules.is_unreadable);
    return line_put(core, joining, rules.priority, wait_place(core, joining->since_ms, &rules), pools, count,
                    ret_waiter);
}

int line_join(struct core *core, const struct joining *joining, struct waiter **ret_waiter)
{
    int err;

    assert(!call_find(core, joining->call_sid));
    err = line_enter(core, joining, ret_waiter);
    if (err == 0)
        waiter_report(core, *ret_waiter);
    return err;
}

int waiter_refresh(struct core *core, struct waiter *waiter, bool *ret_unreadable)
{
    struct pool *pools[CHAIN_MAX];
    size_t count = pools_of_chain(core, waiter->merchant_id, pools, ret_unreadable);
    int err;

    if (count == waiter->pool_count && memcmp(pools, waiter->pools, count * sizeof(struct pool *)) == 0)
        return 0;
    err = pools_reserve(pools, count);
    if (err == 0 && count > waiter->pools_room) {
        struct pool **grown = realloc(waiter->pools, count * sizeof(struct pool *));

        if (!grown)
            return -ENOMEM;
        waiter->pools = grown;
        waiter->pools_room = count;
    }
    if (err < 0)
        return err;
    waiter_leave_lines(waiter);
    waiter_unref_pools(core, waiter);
    memcpy(waiter->pools, pools, count * sizeof(struct pool *));
    waiter->pool_count = count;
    waiter_ref_pools(waiter);
    waiter_enter_lines(waiter);
    waiter_mark_pools(core, waiter);
    waiter_report(core, waiter);
    return 0;
}

void waiter_set_aside(struct core *core, struct waiter *waiter)
{
    struct line *line = &core->line;

    waiter_leave_lines(waiter);
    places_remove(&line->all, waiter);
    heap_remove(&line->due, &waiter->due);
    map_remove(&line->waiters, &waiter->node);
    assert(line->all.count == line->waiters.count && line->all.count == line->due.count);
    if (waiter->merchant)
        merchant_line_unref(core, waiter->merchant);
    waiter->merchant = NULL;
}

void waiter_forget(struct core *core, struct waiter *waiter)
{
    assert(waiter->due.place == 0);
    waiter_unref_pools(core, waiter);
    free(waiter->pools);
    free(waiter);
}

void waiter_free(struct core *core, struct waiter *waiter)
{
    waiter_set_aside(core, waiter);
    waiter_forget(core, waiter);
}

/* The labels of its pools with spaces between them, as records have them. */
static void write_labels(const struct waiter *waiter, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < waiter->pool_count; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s", i ? " " : "", waiter->pools[i]->label);
    assert(len < size);
}

void waiter_report(struct core *core, const struct waiter *waiter)
{
    char pools[WAITING_POOLS_MAX + 1];

    write_labels(waiter, pools, sizeof(pools));
    core_report(core, &(struct record){
                          .type = RECORD_WAITING,
                          .waiting = {.call_sid = waiter->call_sid,
                                      .merchant_id = waiter->merchant_id,
                                      .provider = waiter->provider,
                                      .pools = pools,
                                      .since_ms = waiter->since_ms,
                                      .until_ms = waiter->until_ms,
                                      .priority = waiter->priority,
                                      .ahead_ms = (uint64_t)((int64_t)waiter->since_ms - waiter->place),
                                      .flags = (waiter->is_rescued ? RECORD_IS_RESCUED : 0) |
                                               (waiter->was_renewed ? RECORD_WAS_RENEWED : 0)},
                      });
}

void waiter_tell(struct core *core, const struct waiter *waiter)
{
    if (waiter->holder[0] && core->on_changed)
        core->on_changed(core->on_changed_arg, waiter->call_sid);
}

void waiter_report_gone(struct core *core, const struct waiter *waiter)
{
    core_report(core,
                &(struct record){.type = RECORD_WAITING_GONE, .waiting = {.call_sid = waiter->call_sid}});
}

void waiter_leave(struct core *core, struct waiter *waiter)
{
    waiter_report_gone(core, waiter);
    waiter_tell(core, waiter);
    waiter_free(core, waiter);
}

void waiter_finish(struct core *core, struct waiter *waiter, enum finish_reason why)
{
    char call_sid[CALL_SID_MAX + 1];

    snprintf(call_sid, sizeof(call_sid), "%s", waiter->call_sid);
    waiter_leave(core, waiter);
    call_record_end(core, call_sid, why);
}

/* The smallest of its positions in the lines of its pools; 0: its chain is empty. */
static size_t waiter_position(const struct waiter *waiter)
{
    size_t position = 0;

    for (size_t i = 0; i < waiter->pool_count; i++) {
        size_t here = 1 + places_before(&waiter->pools[i]->line, waiter->place, waiter->call_sid);

        if (position == 0 || here < position)
            position = here;
    }
    return position;
}

static uint64_t waiter_estimate(const struct core *core, const struct waiter *waiter, uint64_t position)
{
    uint64_t grants = 0;

    for (size_t i = 0; i < waiter->pool_count; i++)
        grants += grants_recent(&core->line.grants, waiter->pools[i]->label, core->now_ms);
    return grants ? position * WAIT_ESTIMATE_MS / grants : 0;
}

int waiter_info(const struct core *core, const struct waiter *waiter, struct arena *arena,
                struct waiting_call *ret_info)
{
    const char **pools = arena_alloc(arena, (waiter->pool_count + 1) * sizeof(*pools));
    struct waiting_call info = {
        .call_sid = arena_strdup(arena, waiter->call_sid),
        .merchant_id = arena_strdup(arena, waiter->merchant_id),
        .provider = arena_strdup(arena, waiter->provider),
        .since_ms = waiter->since_ms,
        .until_ms = waiter->until_ms,
        .holder = arena_strdup(arena, waiter->holder),
        .priority = waiter->priority,
        .position = waiter_position(waiter),
        .heard_at_ms = waiter->heard_at_ms,
        .claim = waiter->claim,
        .is_rescued = waiter->is_rescued,
        .pools = pools,
        .pool_count = waiter->pool_count,
    };

    info.estimate_ms = waiter_estimate(core, waiter, info.position);
    if (!pools || !info.call_sid || !info.merchant_id || !info.provider || !info.holder)
        return -ENOMEM;
    for (size_t i = 0; i < waiter->pool_count; i++) {
        pools[i] = arena_strdup(arena, waiter->pools[i]->label);
        if (!pools[i])
            return -ENOMEM;
    }
    *ret_info = info;
    return 0;
}
