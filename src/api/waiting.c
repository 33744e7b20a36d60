/*
 * waiting.c - GET /api/v1/waiting: the calls that wait for a pod, in the order of the line.
 */
#include "api/api_internal.h"
#include "api/page.h"
#include "api/params.h"

uint64_t api_seconds_between(uint64_t from_ms, uint64_t to_ms)
{
    return to_ms > from_ms ? (to_ms - from_ms) / 1000 : 0;
}

static void put_pools(struct json_writer *json, const struct waiting_call *call)
{
    json_key(json, "pools");
    json_array_begin(json);
    for (size_t i = 0; i < call->pool_count; i++)
        json_string(json, call->pools[i]);
    json_array_end(json);
}

void api_put_waiting(struct json_writer *json, const struct waiting_call *call, uint64_t now_ms)
{
    json_put_string(json, "call_sid", call->call_sid);
    json_put_string(json, "merchant_id", call->merchant_id);
    json_put_string(json, "provider", call->provider);
    json_put_string(json, "state", "waiting");
    json_put_u64(json, "priority", call->priority);
    json_put_u64(json, "position", call->position);
    json_put_time(json, "since", call->since_ms);
    json_put_time(json, "until", call->until_ms);
    json_put_u64(json, "waited_seconds", api_seconds_between(call->since_ms, now_ms));
    if (call->estimate_ms > 0)
        json_put_u64(json, "estimated_wait_seconds", (call->estimate_ms + 999) / 1000);
    put_pools(json, call);
    json_put_bool(json, "rescued", call->is_rescued);
    json_put_string(json, "held_by", call->holder);
}

static void api_waiting_stored(struct api_task *task, const struct result *result)
{
    struct page *page = page_of(task);

    if (result->outcome != OUTCOME_OK) {
        api_refuse_outcome(task->request, result, CALL_NOT_FOUND);
        return;
    }
    for (size_t i = 0; i < result->waiting.count; i++) {
        json_object_begin(&page->json);
        api_put_waiting(&page->json, &result->waiting.calls[i], result->waiting.now_ms);
        json_object_end(&page->json);
    }
    if (!page_goes_on(page, result->waiting.count, result->waiting.next_cursor)) {
        page_reply(page, result->waiting.total, result->waiting.next_cursor);
        return;
    }
    page->command.waiting.limit = page_next(page);
    page->command.waiting.cursor = page->cursor;
    page_ask(page);
}

void api_waiting(struct http_request *request, void *arg)
{
    struct page *page = page_new(arg, request, "waiting", api_waiting_stored);
    struct params params;

    if (!page)
        return;
    params_read_query(&params, request);
    page->command = (struct command){.type = COMMAND_WAITING};
    page->command.waiting.cursor = params_text(&params, "cursor");
    page->left = params_number(&params, "limit", 1, PAGE_MAX, PAGE_DEFAULT);
    page->command.waiting.limit = page_next(page);
    if (params.error)
        api_refuse(request, 400, params.error);
    else
        page_ask(page);
}
