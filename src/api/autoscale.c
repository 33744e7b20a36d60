/*
 * autoscale.c - the routes that autoscalers ask: how many pods a tier, or all tiers together, want.
 *
 * Without an answer of the store the answer is 503: a number that nobody knows must not scale anything.
 */
#include "core/autoscale.h"

#include "api/api_internal.h"
#include "api/params.h"

struct autoscale_task {
    struct api_task task;
    const char *tier; /* NULL: all */
};

static void reply_autoscale(struct http_request *request, const struct autoscale *scale)
{
    struct json_writer json;
    struct strbuf buf;

    api_reply_begin(request, &buf, &json);
    json_put_u64(&json, "desired_pods", scale->desired_pods);
    json_put_u64(&json, "calls", scale->calls);
    json_put_u64(&json, "waiting", scale->waiting);
    json_put_u64(&json, "buffer", scale->buffer);
    json_put_u64(&json, "per_pod", scale->per_pod);
    json_object_end(&json);
    api_reply_json(request, 200, &buf);
}

static void api_autoscale_stored(struct api_task *task, const struct result *result)
{
    const struct autoscale_task *asked = CONTAINER_OF(task, struct autoscale_task, task);
    const struct tier_status *tier = asked->tier ? autoscale_find_tier(result, asked->tier) : NULL;
    struct autoscale scale;

    if (asked->tier && !tier) {
        api_refuse(task->request, 404, "there is no such tier");
        return;
    }
    scale = autoscale_of(result, tier);
    reply_autoscale(task->request, &scale);
}

static void ask(struct http_request *request, struct api *api, const char *tier)
{
    struct autoscale_task *asked = api_task_new(api, request, sizeof(*asked), api_autoscale_stored);
    struct command command = {.type = COMMAND_STATUS};

    if (!asked)
        return;
    asked->tier = tier;
    command.status.with_sets = api->settings.scales_sets;
    api_execute(&asked->task, &command);
}

void api_autoscale(struct http_request *request, void *arg)
{
    ask(request, arg, NULL);
}

void api_autoscale_tier(struct http_request *request, void *arg)
{
    const char *tier = http_request_param(request, "tier");

    if (name_is_pool(tier, strlen(tier)) || name_is_merchant_id(tier, strlen(tier)))
        ask(request, arg, tier);
    else
        api_refuse(request, 400, "tier must be the name of a tier or of a merchant pool");
}
