/*
 * pod_watch.c - the watcher of pods: a state machine that lists, watches, waits after failures, and
 * lists again.
 *
 * The parts in order: waits and log lines, list, watch, functions for callers.
 */
#include "k8s/pod_watch.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/log_repeat.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "k8s/backoff.h"
#include "k8s/json_stream.h"
#include "k8s/pod_event.h"
#include "k8s/pod_list.h"
#include "k8s/pods_path.h"
#include "k8s/status_object.h"

enum {
    PODS_LIST_BYTES_MAX = 256 * 1024 * 1024, /* of one page: one whose pages expired comes as one */
    PODS_REFUSAL_BYTES_MAX = 64 * 1024,
    PODS_PAGES_MAX = 1000,
    PODS_EVENT_ARENA_MAX = 64 * JSON_STREAM_OBJECT_MAX, /* a tree takes many times its text */
    PODS_WATCH_MIN_S = 300,                             /* and up to as much again */
    PODS_SHORT_WATCH_MS = 1000,
    PODS_STEADY_WATCH_MS = 30000, /* after so long a break is an accident, and costs no wait */
    PODS_BROKEN_EVERY_MS = 600000,
    PODS_SKIPPED_EVERY_MS = 10000,
    PODS_LACKING_EVERY_MS = 600000,
};

enum pods_state {
    PODS_WAITING, /* for the timer, which begins `next` */
    PODS_LISTING, /* for a page; the timer is its deadline */
    PODS_PARSING, /* for the thread pool */
    PODS_WATCHING,
    PODS_STOPPING,
};

enum pods_next {
    PODS_NEXT_LIST,
    PODS_NEXT_WATCH,
};

/* One list, of as many pages as it takes. While it is parsed it belongs to the thread pool. */
struct listing {
    uv_work_t work;
    struct k8s_pod_watch *pods;
    struct strbuf text; /* of the page */
    struct k8s_pod_list list;
    size_t pages;
    bool is_unlimited; /* its pages expired, so it comes as one */
    int err;
};

/* What went wrong, and at what. */
struct trouble {
    const char *verb; /* "list", "watch"; NULL: nothing did */
    int err;
    int status;
};

enum { POD_WATCH_MAGIC = 0x77617463 };

struct k8s_pod_watch {
    uv_loop_t *loop;
    struct k8s_pod_watch_settings settings;
    struct k8s_client *client;
    unsigned magic;
    enum pods_state state;
    enum pods_next next;
    bool is_in_data; /* the client is calling us with data: not the time to cancel */
    uv_timer_t timer;
    struct k8s_request *request;       /* at most one */
    char version[K8S_VERSION_MAX + 1]; /* of what was told last, to watch from */

    struct listing *listing;
    bool is_parsing;

    struct json_stream stream;
    struct arena event_arena;
    uint64_t watch_began_ms;
    bool has_event;

    struct k8s_backoff backoff;
    struct trouble trouble;    /* that was logged last, until it is over */
    struct log_repeat skipped; /* objects that could not be read */
    struct log_repeat broken;  /* watches */
    struct log_repeat lacking; /* pods without a container of the agent's name */

    bool is_timer_closed;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

static void pods_due(uv_timer_t *timer);

static void pods_start_timer(struct k8s_pod_watch *pods, uint64_t delay_ms)
{
    int err = uv_timer_start(&pods->timer, pods_due, delay_ms, 0);

    assert(err == 0); /* it fails only for a closing timer */
}

static void pods_drop_request(struct k8s_pod_watch *pods)
{
    if (pods->request)
        k8s_request_cancel(TAKE(pods->request));
}

static void listing_free(struct listing *listing)
{
    if (!listing)
        return;
    strbuf_release(&listing->text);
    k8s_pod_list_release(&listing->list);
    free(listing);
}

/* Ends what is under way; the timer begins what is next. In the middle of data the request is left to it,
 * too. */
static void pods_schedule(struct k8s_pod_watch *pods, enum pods_next next, uint64_t delay_ms)
{
    assert(pods->state != PODS_STOPPING);
    assert(!pods->is_parsing);
    pods->state = PODS_WAITING;
    pods->next = next;
    if (!pods->is_in_data)
        pods_drop_request(pods);
    listing_free(TAKE(pods->listing));
    pods_start_timer(pods, delay_ms);
}

/* What a failure means for calls. */
static const char unfollowed[] = "new pods get no calls, and the calls of lost pods go on";

static void pods_log_trouble(struct k8s_pod_watch *pods, const struct trouble *trouble, const char *text,
                             uint64_t wait_ms)
{
    bool is_known = pods->trouble.verb && strcmp(pods->trouble.verb, trouble->verb) == 0 &&
                    pods->trouble.err == trouble->err && pods->trouble.status == trouble->status;
    bool is_refused = trouble->status == 401 || trouble->status == 403;
    /* What only an operator can mend is an error, the rest may be over by itself. */
    enum log_level level = is_known ? LOG_DEBUG : is_refused ? LOG_ERROR : LOG_WARN;

    pods->trouble = *trouble;
    if (is_refused) {
        LOG_AT(level,
               trouble->status == 403 ? "Kubernetes does not allow it: a Role must give this service account "
                                        "the verbs get, list and watch on pods in this namespace"
                                      : "Kubernetes does not know us: the token or certificate was refused",
               log_str("verb", trouble->verb), log_str("resource", "pods"),
               log_str("namespace", pods->settings.namespace_name), log_num("status", trouble->status),
               log_str("answer", text), log_str("effect", unfollowed), log_num("retry_ms", (int64_t)wait_ms));
        return;
    }
    LOG_AT(level, "the pods cannot be followed", log_str("verb", trouble->verb),
           log_str("namespace", pods->settings.namespace_name), log_num("status", trouble->status),
           log_str("reason", text), log_str("effect", unfollowed), log_num("retry_ms", (int64_t)wait_ms));
}

static void pods_log_recovery(struct k8s_pod_watch *pods, const char *verb)
{
    if (!pods->trouble.verb || strcmp(pods->trouble.verb, verb) != 0)
        return;
    pods->trouble = (struct trouble){0};
    log_info("the pods are followed again", log_str("verb", verb),
             log_str("namespace", pods->settings.namespace_name));
}

/*
 * A failure: says so, waits, and lists again. What has happened meanwhile is not known, and that the server
 * is still the one it was is not, either: one that was restored from a backup answers a version of before
 * with 200 and silence. The last thing to be done in a callback.
 */
static void pods_fail(struct k8s_pod_watch *pods, const struct trouble *trouble, const char *text,
                      uint64_t retry_after_ms)
{
    uint64_t wait_ms = k8s_backoff_next(&pods->backoff, uv_now(pods->loop), retry_after_ms, random_u32());

    pods_log_trouble(pods, trouble, text, wait_ms);
    pods_schedule(pods, PODS_NEXT_LIST, wait_ms);
    pods->settings.on_trouble(pods->settings.arg);
}

static void pods_fail_locally(struct k8s_pod_watch *pods, const char *verb, int err, const char *text)
{
    pods_fail(pods, &(struct trouble){verb, err, 0}, text ? text : strerror(-err), 0);
}

/* The server has answered with something else than what was asked for. */
static void pods_fail_refused(struct k8s_pod_watch *pods, const char *verb, int code,
                              const struct k8s_status *status, uint64_t retry_after_ms)
{
    const char *text = status->message[0] ? status->message : status->reason;

    pods_fail(pods, &(struct trouble){verb, 0, code}, text, max_u64(retry_after_ms, status->retry_after_ms));
}

static void pods_heard(const struct k8s_pod_watch *pods)
{
    if (pods->settings.on_heard)
        pods->settings.on_heard(pods->settings.arg);
}

static void pods_log_skipped(struct k8s_pod_watch *pods, const char *name, size_t count)
{
    size_t told;

    if (log_repeat_is_due(&pods->skipped, count, uv_now(pods->loop), PODS_SKIPPED_EVERY_MS, &told))
        log_warn("pods that cannot be read stay as they were", log_str("pod", name),
                 log_num("objects", (int64_t)told));
}

static void pods_log_lacking(struct k8s_pod_watch *pods, const char *name, size_t count)
{
    size_t told;

    if (log_repeat_is_due(&pods->lacking, count, uv_now(pods->loop), PODS_LACKING_EVERY_MS, &told))
        log_warn("pods have no container of this name: their first one counts; see VOICE_AGENT_CONTAINER",
                 log_str("container", pods->settings.agent_container), log_str("pod", name),
                 log_num("times", (int64_t)told));
}

/* List */

static void pods_list_page(struct k8s_pod_watch *pods);

static void listing_data(void *arg, struct slice data)
{
    struct k8s_pod_watch *pods = arg;

    MAGIC_CHECK(pods, POD_WATCH_MAGIC);
    if (pods->state != PODS_LISTING)
        return;
    strbuf_append(&pods->listing->text, data.data, data.len);
    if (!strbuf_failed(&pods->listing->text))
        return;
    pods->is_in_data = true;
    pods_fail_locally(pods, "list", -EMSGSIZE, "a page of the list is too large");
    pods->is_in_data = false;
}

static void listing_refused(struct k8s_pod_watch *pods, const struct k8s_answer *answer)
{
    struct listing *listing = pods->listing;
    struct k8s_status status;

    k8s_status_parse(answer->body, &status);
    if (answer->status == 410 && listing->pages > 0 && !listing->is_unlimited) {
        /* The pages that are left have gone out of date meanwhile: all of it at once cannot. */
        k8s_pod_list_release(&listing->list);
        listing->is_unlimited = true;
        listing->pages = 0;
        pods_list_page(pods);
    } else {
        pods_fail_refused(pods, "list", answer->status, &status, answer->retry_after_ms);
    }
}

/* On the thread pool: nothing but the listing is touched here. */
static void listing_parse(uv_work_t *work)
{
    struct listing *listing = work->data;

    listing->err = k8s_pod_list_add_page(&listing->list, strbuf_slice(&listing->text));
    strbuf_release(&listing->text);
    if (listing->err == 0 && !listing->list.continue_token[0])
        listing->err = k8s_pod_list_finish(&listing->list);
}

static void pods_finish_stop(struct k8s_pod_watch *pods)
{
    void (*stopped)(void *arg) = pods->stopped;
    void *arg = pods->stopped_arg;

    if (!pods->is_timer_closed || pods->is_parsing)
        return;
    listing_free(pods->listing);
    json_stream_release(&pods->stream);
    arena_release(&pods->event_arena);
    pods->magic = 0;
    free(pods);
    stopped(arg);
}

/* What comes next is arranged before the pods are told: whoever is told may stop us or want a new list. */
static void pods_complete(struct k8s_pod_watch *pods)
{
    struct listing *listing = TAKE(pods->listing);
    const struct k8s_pod_list *list = &listing->list;

    memcpy(pods->version, list->version, sizeof(pods->version));
    pods_log_recovery(pods, "list");
    pods_log_skipped(pods, list->skipped_name, list->skipped);
    pods_log_lacking(pods, list->lacking_name, list->lacking);
    log_debug("pods listed", log_num("pods", (int64_t)list->count), log_num("pages", (int64_t)listing->pages),
              log_str("version", list->version));
    pods_schedule(pods, PODS_NEXT_WATCH, 0);
    pods_heard(pods);
    pods->settings.on_list(pods->settings.arg, list->pods, list->count);
    listing_free(listing);
}

static void listing_parsed(uv_work_t *work, int status UNUSED)
{
    struct listing *listing = work->data;
    struct k8s_pod_watch *pods = listing->pods;

    pods->is_parsing = false;
    if (pods->state == PODS_STOPPING) {
        pods_finish_stop(pods);
        return;
    }
    listing->pages++;
    if (listing->err == 0 && listing->list.continue_token[0] && listing->pages >= PODS_PAGES_MAX)
        listing->err = -E2BIG;
    if (listing->err == -EBADMSG)
        pods_fail_locally(pods, "list", listing->err,
                          "the answer is no list of pods, or one of them has no readable name");
    else if (listing->err == -E2BIG)
        pods_fail_locally(pods, "list", listing->err, "there are too many pods");
    else if (listing->err < 0)
        pods_fail_locally(pods, "list", listing->err, NULL);
    else if (listing->list.continue_token[0])
        pods_list_page(pods);
    else
        pods_complete(pods);
}

static void listing_answered(void *arg, const struct k8s_answer *answer)
{
    struct k8s_pod_watch *pods = arg;
    int err;

    MAGIC_CHECK(pods, POD_WATCH_MAGIC);
    pods->request = NULL;
    if (pods->state != PODS_LISTING)
        return;
    uv_timer_stop(&pods->timer);
    if (answer->err < 0) {
        pods_fail(pods, &(struct trouble){"list", answer->err, 0},
                  answer->error ? answer->error : strerror(-answer->err), answer->retry_after_ms);
        return;
    }
    if (answer->status != 200) {
        listing_refused(pods, answer);
        return;
    }
    pods->listing->work.data = pods->listing;
    err = uv_queue_work(pods->loop, &pods->listing->work, listing_parse, listing_parsed);
    assert(err == 0); /* it fails only without a function to call */
    pods->is_parsing = true;
    pods->state = PODS_PARSING;
}

static void pods_list_page(struct k8s_pod_watch *pods)
{
    struct listing *listing = pods->listing;
    char path[K8S_PODS_PATH_MAX];
    struct k8s_request_spec spec = {.method = K8S_GET,
                                    .path = path,
                                    .timeout_ms = pods->settings.list_timeout_ms,
                                    .body_max = PODS_REFUSAL_BYTES_MAX,
                                    .on_data = listing_data,
                                    .stall_ms = pods->settings.list_timeout_ms};
    int err = k8s_pods_path_list(path, pods->settings.namespace_name, pods->settings.label_selector,
                                 listing->list.continue_token, listing->is_unlimited);

    if (err == 0)
        err = k8s_client_send(pods->client, &spec, listing_answered, pods, &pods->request);
    if (err < 0) {
        pods_fail_locally(pods, "list", err, NULL);
        return;
    }
    pods->state = PODS_LISTING;
    pods_start_timer(pods, pods->settings.list_timeout_ms);
}

/*
 * Every list asks for what is true now, where client-go is content with what the server has at hand: a server
 * that lags behind would leave out young pods, and one that was restored from a backup does not know the
 * version that we have seen.
 */
static void pods_list(struct k8s_pod_watch *pods)
{
    struct listing *listing = calloc(1, sizeof(*listing));

    if (!listing) {
        pods_fail_locally(pods, "list", -ENOMEM, NULL);
        return;
    }
    listing->pods = pods;
    strbuf_init(&listing->text, NULL, PODS_LIST_BYTES_MAX);
    k8s_pod_list_init(&listing->list, pods->settings.agent_container);
    pods->listing = listing;
    pods_list_page(pods);
}

/* Watch */

static void watch_event(struct k8s_pod_watch *pods, struct slice text)
{
    struct k8s_pod_event event;
    int err;

    arena_reset(&pods->event_arena);
    err = k8s_pod_event_parse(text, pods->settings.agent_container, &pods->event_arena, &event);
    if (err < 0) {
        pods_fail_locally(pods, "watch", err, err == -EBADMSG ? "what came is no event" : NULL);
        return;
    }
    if (event.version)
        memcpy(pods->version, event.version, strlen(event.version) + 1);
    if (event.type == K8S_POD_EVENT_ERROR) {
        pods_fail_refused(pods, "watch", event.status.code, &event.status, 0);
        return;
    }
    pods->has_event = true;
    pods_heard(pods);
    pods_log_recovery(pods, "watch");
    if (event.type == K8S_POD_EVENT_SEEN && event.pod.lacks_container)
        pods_log_lacking(pods, event.pod.name, 1);
    if (event.type == K8S_POD_EVENT_SEEN)
        pods->settings.on_seen(pods->settings.arg, &event.pod);
    else if (event.type == K8S_POD_EVENT_GONE)
        pods->settings.on_gone(pods->settings.arg, &event.pod);
    else if (event.type == K8S_POD_EVENT_SKIPPED)
        pods_log_skipped(pods, event.skipped_name, 1);
}

static void watch_data(void *arg, struct slice data)
{
    struct k8s_pod_watch *pods = arg;
    struct slice object;
    int err = 0;

    MAGIC_CHECK(pods, POD_WATCH_MAGIC);
    if (pods->state != PODS_WATCHING)
        return;
    pods->is_in_data = true;
    json_stream_feed(&pods->stream, data);
    /* Whoever is told of an event may stop us or want a list: then the rest is nobody's. */
    while (pods->state == PODS_WATCHING && (err = json_stream_next(&pods->stream, &object)) == 0)
        watch_event(pods, object);
    if (pods->state == PODS_WATCHING && err != -EAGAIN)
        pods_fail_locally(pods, "watch", err, "what came is no stream of events");
    pods->is_in_data = false;
}

static void watch_refused(struct k8s_pod_watch *pods, const struct k8s_answer *answer)
{
    struct k8s_status status;

    k8s_status_parse(answer->body, &status);
    pods_fail_refused(pods, "watch", answer->status, &status, answer->retry_after_ms);
}

/* One that breaks again and again must not make us list as fast as we can. */
static void watch_broke(struct k8s_pod_watch *pods, int err, const char *reason)
{
    uint64_t now_ms = uv_now(pods->loop);
    size_t told;

    if (now_ms - pods->watch_began_ms < PODS_STEADY_WATCH_MS) {
        pods_fail_locally(pods, "watch", err, reason);
        return;
    }
    if (log_repeat_is_due(&pods->broken, 1, now_ms, PODS_BROKEN_EVERY_MS, &told))
        log_info("the watch on the pods broke: they are listed again", log_str("reason", reason),
                 log_str("namespace", pods->settings.namespace_name), log_num("times", (int64_t)told));
    pods_schedule(pods, PODS_NEXT_LIST, 0);
}

/* It was open and is not any more. Only if the server ended it in order does its version say where to go on.
 */
static void watch_ended(struct k8s_pod_watch *pods, const struct k8s_answer *answer)
{
    bool is_short = uv_now(pods->loop) - pods->watch_began_ms < PODS_SHORT_WATCH_MS;

    if (answer->err < 0) {
        watch_broke(pods, answer->err, answer->error ? answer->error : strerror(-answer->err));
    } else if (json_stream_is_amid(&pods->stream)) {
        watch_broke(pods, 0, "it ended within an event");
    } else if (is_short && !pods->has_event) {
        pods_fail_locally(pods, "watch", 0, "it ended at once");
    } else {
        log_debug("watch ended, going on", log_str("version", pods->version));
        pods_schedule(pods, PODS_NEXT_WATCH, 0);
    }
}

static void watch_answered(void *arg, const struct k8s_answer *answer)
{
    struct k8s_pod_watch *pods = arg;

    MAGIC_CHECK(pods, POD_WATCH_MAGIC);
    pods->request = NULL;
    if (pods->state != PODS_WATCHING)
        return;
    if (answer->status == 200)
        watch_ended(pods, answer);
    else if (answer->err == 0)
        watch_refused(pods, answer);
    else
        pods_fail(pods, &(struct trouble){"watch", answer->err, 0},
                  answer->error ? answer->error : strerror(-answer->err), answer->retry_after_ms);
}

static void pods_watch(struct k8s_pod_watch *pods)
{
    char path[K8S_PODS_PATH_MAX];
    struct k8s_request_spec spec = {.method = K8S_GET,
                                    .path = path,
                                    .timeout_ms = pods->settings.list_timeout_ms,
                                    .body_max = PODS_REFUSAL_BYTES_MAX,
                                    .on_data = watch_data,
                                    .stall_ms = pods->settings.stall_ms};
    uint32_t timeout_s = PODS_WATCH_MIN_S + random_u32() % (PODS_WATCH_MIN_S + 1);
    int err = k8s_pods_path_watch(path, pods->settings.namespace_name, pods->settings.label_selector,
                                  pods->version, timeout_s);

    if (err == 0)
        err = k8s_client_send(pods->client, &spec, watch_answered, pods, &pods->request);
    if (err < 0) {
        pods_fail_locally(pods, "watch", err, NULL);
        return;
    }
    json_stream_reset(&pods->stream);
    pods->has_event = false;
    pods->watch_began_ms = uv_now(pods->loop);
    pods->state = PODS_WATCHING;
}

/* From outside */

static void pods_due(uv_timer_t *timer)
{
    struct k8s_pod_watch *pods = timer->data;

    MAGIC_CHECK(pods, POD_WATCH_MAGIC);
    if (pods->state == PODS_LISTING) {
        pods_fail_locally(pods, "list", -ETIMEDOUT, "a page of the list took too long");
        return;
    }
    assert(pods->state == PODS_WAITING);
    pods_drop_request(pods);
    if (pods->next == PODS_NEXT_LIST)
        pods_list(pods);
    else
        pods_watch(pods);
}

int k8s_pod_watch_new(uv_loop_t *loop, const struct k8s_pod_watch_settings *settings,
                      struct k8s_client *client, struct k8s_pod_watch **ret_pods)
{
    struct k8s_pod_watch *pods = calloc(1, sizeof(*pods));
    int err;

    assert(settings->on_list && settings->on_seen && settings->on_gone && settings->on_trouble);
    if (!pods)
        return -ENOMEM;
    pods->magic = POD_WATCH_MAGIC;
    pods->loop = loop;
    pods->settings = *settings;
    pods->client = client;
    json_stream_init(&pods->stream, JSON_STREAM_OBJECT_MAX);
    arena_init(&pods->event_arena, PODS_EVENT_ARENA_MAX);
    err = uv_timer_init(loop, &pods->timer);
    assert(err == 0); /* it never fails */
    pods->timer.data = pods;
    pods_schedule(pods, PODS_NEXT_LIST, 0);
    *ret_pods = pods;
    return 0;
}

void k8s_pod_watch_relist(struct k8s_pod_watch *pods)
{
    if (pods->state == PODS_WATCHING)
        pods_schedule(pods, PODS_NEXT_LIST, 0);
    else if (pods->state == PODS_WAITING)
        pods->next = PODS_NEXT_LIST;
}

static void pods_timer_closed(uv_handle_t *handle)
{
    struct k8s_pod_watch *pods = handle->data;

    MAGIC_CHECK(pods, POD_WATCH_MAGIC);
    pods_drop_request(pods);
    pods->is_timer_closed = true;
    pods_finish_stop(pods);
}

void k8s_pod_watch_stop(struct k8s_pod_watch *pods, void (*stopped)(void *arg), void *arg)
{
    assert(pods->state != PODS_STOPPING);
    pods->state = PODS_STOPPING;
    pods->stopped = stopped;
    pods->stopped_arg = arg;
    if (!pods->is_in_data)
        pods_drop_request(pods);
    /* If it runs already it is waited for. */
    if (pods->is_parsing)
        (void)uv_cancel((uv_req_t *)&pods->listing->work);
    uv_close((uv_handle_t *)&pods->timer, pods_timer_closed);
}
