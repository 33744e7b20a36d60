/*
 * drained.c - GET /api/v1/pod/{name}/drained: answers when the pod is draining and has no call, or
 * when the client's time is over.
 */
#include "api/drained.h"

#include <stdlib.h>

#include "api/api_internal.h"
#include "api/params.h"
#include "base/clock.h"
#include "base/list.h"

enum {
    DRAIN_WAIT_MAGIC = 0x64726169,
    DRAIN_ASK_MS = 250,            /* how often the store is asked for one pod, */
    DRAIN_ASK_MAX = 100,           /* if no more than so many wait; else for so many of them in turn */
    DRAIN_ARENA_MAX = 1024 * 1024, /* one answer of the store: a pod and its calls */
};

struct drain_waits {
    uv_loop_t *loop;
    uv_timer_t timer; /* made for the first one who waits */
    struct list list;
    bool has_timer;
    bool is_stopped;
};

/* One request; in its arena. It waits in the list, or for the store. */
struct drain_wait {
    unsigned magic;
    struct list link;
    struct api *api;
    struct http_request *request;
    const char *pod;
    struct arena arena; /* of the store's answer alone: many come during one request */
    uint64_t until_ms;  /* clock_elapsed_ms */
    uint64_t asked_ns;
    bool is_held; /* it counts among the requests that wait on purpose */
    bool is_ending;
};

int drain_waits_new(uv_loop_t *loop, struct drain_waits **ret_waits)
{
    struct drain_waits *waits = calloc(1, sizeof(*waits));

    if (!waits)
        return -ENOMEM;
    waits->loop = loop;
    waits->is_stopped = !loop;
    list_init(&waits->list);
    *ret_waits = waits;
    return 0;
}

struct drain_waits *drain_waits_free(struct drain_waits *waits)
{
    if (!waits)
        return NULL;
    assert(list_is_empty(&waits->list));
    free(waits);
    return NULL;
}

static void drain_wait_answer(struct drain_wait *wait, int status, const struct pod_info *pod)
{
    struct json_writer json;
    struct strbuf buf;

    api_reply_begin(wait->request, &buf, &json);
    json_put_bool(&json, "success", true);
    json_put_string(&json, "pod_name", wait->pod);
    json_put_bool(&json, "is_drained", status == 200);
    json_put_bool(&json, "is_draining", pod->is_draining);
    api_put_names(&json, "calls", &pod->calls);
    json_object_end(&json);
    arena_release(&wait->arena);
    api_reply_json(wait->request, status, &buf);
}

static void drain_wait_fail(struct drain_wait *wait, int err)
{
    arena_release(&wait->arena);
    if (err != -ENOMEM)
        log_warn("a request was refused: the store cannot answer",
                 log_str("route", http_request_route(wait->request)->pattern),
                 log_str("cause", store_error_text(err)),
                 log_str("request_id", http_request_id(wait->request)));
    api_reply_failure(wait->request, err);
}

static bool drain_wait_is_due(const struct drain_wait *wait)
{
    return clock_elapsed_ms() >= wait->until_ms;
}

static bool drain_wait_is_over(const struct drain_wait *wait)
{
    return wait->is_ending || wait->api->drain_waits->is_stopped || drain_wait_is_due(wait) ||
           http_request_is_abandoned(wait->request);
}

static void drain_wait_join(struct drain_wait *wait);

static void drain_wait_asked(void *arg, int err, const struct result *result)
{
    struct drain_wait *wait = arg;

    MAGIC_CHECK(wait, DRAIN_WAIT_MAGIC);
    instruments_asked(wait->api->instruments, COMMAND_POD, clock_elapsed_ns() - wait->asked_ns);
    if (err < 0) {
        drain_wait_fail(wait, err);
    } else if (result->outcome != OUTCOME_OK) {
        arena_release(&wait->arena);
        api_refuse(wait->request, 404, POD_NOT_FOUND);
    } else if (result->pod.is_draining && result->pod.calls.count == 0) {
        drain_wait_answer(wait, 200, &result->pod);
    } else if (drain_wait_is_over(wait)) {
        drain_wait_answer(wait, 202, &result->pod);
    } else {
        drain_wait_join(wait);
    }
}

/* Leaves the list until the store has answered. */
static void drain_wait_ask(struct drain_wait *wait)
{
    const struct command command = {.type = COMMAND_POD, .pod = {.name = wait->pod}};
    int err;

    list_remove(&wait->link);
    wait->asked_ns = clock_elapsed_ns();
    err = store_execute(wait->api->store, &command, &wait->arena, drain_wait_asked, wait);
    if (err < 0)
        drain_wait_fail(wait, err);
}

static void drain_waits_start(struct drain_waits *waits);

/*
 * The first ones join the end of the list again. All at once they would hold up allocations: many pods of a
 * large installation can drain at the same time.
 */
static void drain_waits_ask(uv_timer_t *timer)
{
    struct drain_waits *waits = timer->data;
    size_t left = DRAIN_ASK_MAX;

    LIST_FOR_EACH (link, &waits->list) {
        struct drain_wait *wait = LIST_ENTRY(link, struct drain_wait, link);

        if (left == 0 && !drain_wait_is_due(wait))
            continue;
        left -= left > 0;
        drain_wait_ask(wait);
    }
    if (!list_is_empty(&waits->list))
        drain_waits_start(waits);
}

static void drain_waits_start(struct drain_waits *waits)
{
    if (!waits->has_timer) {
        waits->has_timer = true;
        uv_timer_init(waits->loop, &waits->timer);
        waits->timer.data = waits;
    }
    if (!uv_is_active((const uv_handle_t *)&waits->timer))
        uv_timer_start(&waits->timer, drain_waits_ask, DRAIN_ASK_MS, 0);
}

static void drain_wait_join(struct drain_wait *wait)
{
    struct drain_waits *waits = wait->api->drain_waits;

    arena_release(&wait->arena);
    if (!wait->is_held && !http_request_hold(wait->request))
        return; /* answered, and the wait is gone with its request */
    wait->is_held = true;
    list_append(&waits->list, &wait->link);
    drain_waits_start(waits);
}

void drain_waits_send_away(struct drain_waits *waits)
{
    LIST_FOR_EACH (link, &waits->list) {
        struct drain_wait *wait = LIST_ENTRY(link, struct drain_wait, link);

        wait->is_ending = true;
        drain_wait_ask(wait);
    }
}

void drain_waits_stop(struct drain_waits *waits)
{
    if (waits->is_stopped)
        return;
    waits->is_stopped = true;
    drain_waits_send_away(waits);
    if (waits->has_timer)
        uv_close((uv_handle_t *)&waits->timer, NULL);
}

void api_pod_drained(struct http_request *request, void *arg)
{
    const char *pod = api_pod_of_path(arg, request);
    struct drain_wait *wait;
    struct params params;
    uint64_t seconds;

    if (!pod)
        return;
    params_read_query(&params, request);
    seconds = params_number(&params, "timeout_seconds", 0, DRAIN_WAIT_SECONDS_MAX, 0);
    if (params.error) {
        api_refuse(request, 400, params.error);
        return;
    }
    wait = arena_alloc(http_request_arena(request), sizeof(*wait));
    if (!wait) {
        api_reply_no_memory(request);
        return;
    }
    *wait = (struct drain_wait){.magic = DRAIN_WAIT_MAGIC,
                                .api = arg,
                                .request = request,
                                .pod = pod,
                                .until_ms = clock_elapsed_ms() + seconds * 1000};
    list_init(&wait->link);
    arena_init(&wait->arena, DRAIN_ARENA_MAX);
    drain_wait_ask(wait);
}
