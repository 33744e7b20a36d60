/*
 * scrape.c - GET /metrics: asks the store for its part, sets the gauges, and writes the page in
 * slices.
 */
#include "api/scrape.h"

#include <stdlib.h>

#include "api/api_internal.h"
#include "base/list.h"

enum {
    SCRAPE_MAGIC = 0x73637261,
    SCRAPE_PAGE_MAX = 6 * 1024 * 1024,
    SCRAPE_SLICE = 64 * 1024, /* bytes at once: a fraction of a millisecond; most pages have less */
    SCRAPE_PAUSE_MS = 1,
};

struct scrapes {
    uv_loop_t *loop;
    uv_timer_t timer; /* made for the first page of more than one slice */
    struct list list;
    bool has_timer;
    bool is_stopped;
};

struct scrape {
    struct api_task task;
    unsigned magic;
    struct list link;
    struct metrics_cursor cursor;
    struct strbuf buf;
};

int scrapes_new(uv_loop_t *loop, struct scrapes **ret_scrapes)
{
    struct scrapes *scrapes = calloc(1, sizeof(*scrapes));

    if (!scrapes)
        return -ENOMEM;
    scrapes->loop = loop;
    scrapes->is_stopped = !loop;
    list_init(&scrapes->list);
    *ret_scrapes = scrapes;
    return 0;
}

struct scrapes *scrapes_free(struct scrapes *scrapes)
{
    if (!scrapes)
        return NULL;
    assert(list_is_empty(&scrapes->list));
    free(scrapes);
    return NULL;
}

/* True: it is finished, and gone with its request. */
static bool scrape_go_on(struct scrape *scrape, size_t bytes)
{
    MAGIC_CHECK(scrape, SCRAPE_MAGIC);
    if (!metrics_write_some(scrape->task.api->metrics, &scrape->cursor, &scrape->buf, bytes))
        return false;
    list_remove(&scrape->link);
    scrape->magic = 0;
    api_reply(scrape->task.request, 200, "text/plain; version=0.0.4; charset=utf-8", &scrape->buf);
    return true;
}

static void scrapes_start(struct scrapes *scrapes);

/* One slice in a turn of the loop, however many ask. */
static void scrapes_due(uv_timer_t *timer)
{
    struct scrapes *scrapes = timer->data;
    struct scrape *scrape = LIST_ENTRY(scrapes->list.next, struct scrape, link);

    list_remove(&scrape->link);
    list_append(&scrapes->list, &scrape->link);
    (void)scrape_go_on(scrape, SCRAPE_SLICE);
    scrapes_start(scrapes);
}

static void scrapes_start(struct scrapes *scrapes)
{
    if (list_is_empty(&scrapes->list))
        return;
    if (!scrapes->has_timer) {
        scrapes->has_timer = true;
        uv_timer_init(scrapes->loop, &scrapes->timer);
        scrapes->timer.data = scrapes;
    }
    uv_timer_start(&scrapes->timer, scrapes_due, SCRAPE_PAUSE_MS, 0);
}

void scrapes_stop(struct scrapes *scrapes)
{
    if (scrapes->is_stopped)
        return;
    scrapes->is_stopped = true;
    LIST_FOR_EACH (link, &scrapes->list)
        (void)scrape_go_on(LIST_ENTRY(link, struct scrape, link), SIZE_MAX);
    if (scrapes->has_timer)
        uv_close((uv_handle_t *)&scrapes->timer, NULL);
}

/* `result` NULL: the store did not answer. The rest is worth knowing all the more then. */
static void scrape_begin(struct scrape *scrape, const struct result *result)
{
    struct api *api = scrape->task.api;
    struct scrapes *scrapes = api->scrapes;
    struct store_stats stats;

    store_stats(api->store, &stats);
    instruments_set_stored_tiers_refused(api->instruments, stats.tier_errors);
    gauges_set_status(api->gauges, result);
    gauges_set_store(api->gauges, api->store);
    gauges_set_leader(api->gauges, api->is_leader);
    gauges_set_heartbeat(api->gauges, api->heartbeat_ms);
    gauges_set_process(api->gauges);
    for (size_t i = 0; i < api->server_count; i++)
        gauges_set_connections(api->gauges, api->server_names[i], api->servers[i]);
    if (scrape_go_on(scrape, scrapes->is_stopped ? SIZE_MAX : SCRAPE_SLICE))
        return;
    list_append(&scrapes->list, &scrape->link);
    if (!scrapes->has_timer || !uv_is_active((const uv_handle_t *)&scrapes->timer))
        scrapes_start(scrapes);
}

static void api_metrics_stored(struct api_task *task, const struct result *result)
{
    scrape_begin(CONTAINER_OF(task, struct scrape, task), result);
}

static void api_metrics_failed(struct api_task *task, int err)
{
    log_debug("metrics are without the store's part", log_str("cause", store_error_text(err)),
              log_str("request_id", http_request_id(task->request)));
    scrape_begin(CONTAINER_OF(task, struct scrape, task), NULL);
}

void api_metrics(struct http_request *request, void *arg)
{
    struct scrape *scrape = api_task_new(arg, request, sizeof(*scrape), api_metrics_stored);
    struct command command = {.type = COMMAND_STATUS};

    if (!scrape)
        return;
    scrape->magic = SCRAPE_MAGIC;
    list_init(&scrape->link);
    strbuf_init(&scrape->buf, http_request_arena(request), SCRAPE_PAGE_MAX);
    scrape->task.failed = api_metrics_failed;
    command.status.with_sets = scrape->task.api->settings.scales_sets;
    api_execute(&scrape->task, &command);
}
