/*
 * metrics_page.c - GET /metrics: updates the gauges and writes all metrics as Prometheus text.
 */
#include "api/api_internal.h"
#include "api/gauges.h"
#include "base/log.h"

enum { METRICS_PAGE_MAX = 6 * 1024 * 1024 };

/* `result` NULL: the store did not answer. The rest is worth knowing all the more then. */
static void api_metrics_answer(struct api_task *task, const struct result *result)
{
    struct api *api = task->api;
    struct store_stats stats;
    struct strbuf buf;

    store_stats(api->store, &stats);
    instruments_set_stored_tiers_refused(api->instruments, stats.tier_errors);
    gauges_set_status(api->gauges, result);
    gauges_set_store(api->gauges, api->store);
    gauges_set_leader(api->gauges, api->is_leader);
    gauges_set_process(api->gauges);
    for (size_t i = 0; i < api->server_count; i++)
        gauges_set_connections(api->gauges, api->server_names[i], api->servers[i]);
    strbuf_init(&buf, http_request_arena(task->request), METRICS_PAGE_MAX);
    metrics_write(api->metrics, &buf);
    api_reply(task->request, 200, "text/plain; version=0.0.4; charset=utf-8", &buf);
}

static void api_metrics_stored(struct api_task *task, const struct result *result)
{
    api_metrics_answer(task, result);
}

static void api_metrics_failed(struct api_task *task, int err)
{
    log_debug("metrics are without the store's part", log_str("cause", strerror(-err)),
              log_str("request_id", http_request_id(task->request)));
    api_metrics_answer(task, NULL);
}

void api_metrics(struct http_request *request, void *arg)
{
    struct api_task *task = api_task_new(arg, request, sizeof(*task), api_metrics_stored);
    struct command command = {.type = COMMAND_STATUS};

    if (!task)
        return;
    task->failed = api_metrics_failed;
    api_execute(task, &command);
}
