/*
 * history.c - asks the store for the state of the pools at regular times, and shows the last hour.
 */
#include "api/history.h"

#include <stdlib.h>

#include "api/api_internal.h"
#include "base/clock.h"

enum {
    HISTORY_MAGIC = 0x68697374,
    HISTORY_FIRST_MS = 1000, /* the first sample: the static pods are there by then */
    HISTORY_ARENA_MAX = 4 * 1024 * 1024,
};

struct history {
    unsigned magic;
    struct store *store;
    struct pool_history *pools;
    uv_timer_t timer;
    struct arena arena; /* of the answer on its way */
    bool has_timer;
    bool is_asking;
};

static void history_asked(void *arg, int err, const struct result *result)
{
    struct history *history = arg;

    MAGIC_CHECK(history, HISTORY_MAGIC);
    assert(history->is_asking);
    history->is_asking = false;
    /* While the store is not reachable, the slot stays empty: a 0 would be a statement. */
    if (err == 0)
        pool_history_take(history->pools, clock_elapsed_ms(), result);
    arena_release(&history->arena);
}

static void history_ask(uv_timer_t *timer)
{
    struct history *history = timer->data;
    const struct command command = {.type = COMMAND_STATUS};

    if (history->is_asking)
        return; /* the store is slow, and the next slot gets its sample */
    history->is_asking = true;
    if (store_execute(history->store, &command, &history->arena, history_asked, history) < 0)
        history->is_asking = false;
}

int history_new(uv_loop_t *loop, struct store *store, struct history **ret_history)
{
    struct history *history = calloc(1, sizeof(*history));

    if (!history)
        return -ENOMEM;
    history->magic = HISTORY_MAGIC;
    history->store = store;
    arena_init(&history->arena, HISTORY_ARENA_MAX);
    if (pool_history_new(clock_elapsed_ms(), &history->pools) < 0) {
        free(history);
        return -ENOMEM;
    }
    if (loop) {
        history->has_timer = true;
        uv_timer_init(loop, &history->timer);
        history->timer.data = history;
        uv_timer_start(&history->timer, history_ask, HISTORY_FIRST_MS, HISTORY_INTERVAL_MS);
    }
    *ret_history = history;
    return 0;
}

struct history *history_free(struct history *history)
{
    if (!history)
        return NULL;
    assert(!history->has_timer);
    assert(!history->is_asking);
    pool_history_free(history->pools);
    free(history);
    return NULL;
}

void history_stop(struct history *history)
{
    if (!history->has_timer)
        return;
    history->has_timer = false;
    uv_close((uv_handle_t *)&history->timer, NULL);
}

void history_refused(struct history *history)
{
    pool_history_refused(history->pools, clock_elapsed_ms());
}

void api_pool_history(struct http_request *request, void *arg)
{
    const struct api *api = arg;
    struct json_writer json;
    struct strbuf buf;

    api_reply_begin(request, &buf, &json);
    pool_history_write(api->history->pools, clock_elapsed_ms(), clock_wall_ms(), &json);
    json_object_end(&json);
    api_reply_json(request, 200, &buf);
}
