/*
 * fuzz_k8s_watch.c - whatever the API server sends: lists, watch streams and refusals, cut into any pieces.
 *
 * The real reflector runs on a fake client. The first byte of an input says what the rest is: 'L' a page of a
 * list, 'W' a watch stream, anything else a refusal whose status it chooses. The second one says how it is
 * cut. What is told of pods must be what pod.h promises, and must not depend on the cuts.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "fuzz.h"
#include "k8s/pod_watch.h"

enum {
    REQUESTS_MAX = 4, /* answered in one run; a list can go on for ever */
    DIGEST_START = 5381,
};

struct k8s_request {
    struct k8s_request_spec spec;
    k8s_done_fn done;
    void *arg;
    bool is_live;
    bool is_watch;
};

struct world {
    uv_loop_t loop;
    struct k8s_request request;
    uv_timer_t *timer;
    uv_timer_cb timer_fn;
    uv_work_t *work;
    uv_work_cb work_fn;
    uv_after_work_cb worked_fn;
    uint64_t digest; /* of what was told */
    unsigned random;
    bool is_stopped;
};

static struct world world;

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fn, uint64_t delay_ms, uint64_t repeat_ms);
int __wrap_uv_timer_stop(uv_timer_t *timer);
uint64_t __wrap_uv_now(const uv_loop_t *loop);
int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb fn, uv_after_work_cb worked);

/* Timers, the clock and the thread pool are ours: a run is over in microseconds and always the same. */

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fn, uint64_t delay_ms UNUSED,
                          uint64_t repeat_ms UNUSED)
{
    world.timer = timer;
    world.timer_fn = fn;
    return 0;
}

int __wrap_uv_timer_stop(uv_timer_t *timer UNUSED)
{
    world.timer_fn = NULL;
    return 0;
}

uint64_t __wrap_uv_now(const uv_loop_t *loop UNUSED)
{
    return 1000000;
}

int __wrap_uv_queue_work(uv_loop_t *loop UNUSED, uv_work_t *work, uv_work_cb fn, uv_after_work_cb worked)
{
    world.work = work;
    world.work_fn = fn;
    world.worked_fn = worked;
    return 0;
}

int k8s_client_send(struct k8s_client *client UNUSED, const struct k8s_request_spec *spec, k8s_done_fn done,
                    void *arg, struct k8s_request **ret_request)
{
    assert(!world.request.is_live);
    world.request = (struct k8s_request){.spec = *spec,
                                         .done = done,
                                         .arg = arg,
                                         .is_live = true,
                                         .is_watch = strstr(spec->path, "watch=1") != NULL};
    for (const char *at = spec->path; *at; at++)
        assert(*at > ' ' && *at < 127 && *at != '"' && *at != '\\');
    *ret_request = &world.request;
    return 0;
}

void k8s_request_cancel(struct k8s_request *request)
{
    assert(request->is_live);
    request->is_live = false;
}

static void digest(const char *text)
{
    for (; *text; text++)
        world.digest = world.digest * 33 + (unsigned char)*text;
    world.digest = world.digest * 33;
}

static void check_pod(const struct k8s_pod *pod)
{
    char incarnation[K8S_POD_INCARNATION_MAX + 1];
    struct in6_addr address;

    assert(pod->name[0] && strlen(pod->name) <= K8S_POD_NAME_MAX);
    assert(strspn(pod->name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == strlen(pod->name));
    assert(!pod->uid[0] == pod->is_unreadable && strlen(pod->uid) <= K8S_POD_UID_MAX);
    assert(!pod->ip[0] || inet_pton(AF_INET, pod->ip, &address) == 1 ||
           inet_pton(AF_INET6, pod->ip, &address) == 1);
    assert(!pod->is_ready || (pod->ip[0] && !pod->is_terminating && !pod->has_terminated));
    assert(pod->started_at_ms % 1000 == 0);
    k8s_pod_incarnation(pod, incarnation);
    digest(pod->name);
    digest(incarnation);
    digest(pod->ip);
    digest(pod->is_ready ? "ready" : pod->is_terminating ? "terminating" : "");
    digest(pod->has_terminated ? "over" : "");
    world.digest = world.digest * 33 + pod->started_at_ms;
}

static void on_list(void *arg UNUSED, const struct k8s_pod *pods, size_t count)
{
    digest("list");
    for (size_t i = 0; i < count; i++) {
        check_pod(&pods[i]);
        assert(i == 0 || strcmp(pods[i - 1].name, pods[i].name) < 0);
    }
}

static void on_seen(void *arg UNUSED, const struct k8s_pod *pod)
{
    digest("seen");
    assert(!pod->is_unreadable);
    check_pod(pod);
}

static void on_gone(void *arg UNUSED, const struct k8s_pod *pod)
{
    digest("gone");
    check_pod(pod);
}

static void on_trouble(void *arg UNUSED)
{
    digest("trouble");
}

static void stopped(void *arg UNUSED)
{
    world.is_stopped = true;
}

/* In pieces of random lengths, or as a whole; each in memory of its own, so that AddressSanitizer sees its
 * end. */
static void send_pieces(const uint8_t *data, size_t size, bool is_cut)
{
    for (size_t at = 0; at < size && world.request.is_live;) {
        size_t len = size - at;
        char *piece;

        world.random = world.random * 1103515245 + 12345;
        if (is_cut && len > 1 + (world.random >> 16) % 97)
            len = 1 + (world.random >> 16) % 97;
        piece = malloc(len);
        assert(piece);
        memcpy(piece, data + at, len);
        world.request.spec.on_data(world.request.arg, (struct slice){piece, len});
        free(piece);
        at += len;
    }
}

static void answer(int status, const uint8_t *body, size_t size)
{
    struct k8s_request request = world.request;
    struct k8s_answer what = {.status = status, .body = {(const char *)body, size}};

    if (!request.is_live)
        return;
    world.request.is_live = false;
    request.done(request.arg, &what);
}

/* Everything that is due, until the next request is there or nothing is left to do. */
static void proceed(void)
{
    while (!world.request.is_live) {
        if (world.work) {
            uv_work_t *work = TAKE(world.work);

            world.work_fn(work);
            world.worked_fn(work, 0);
        } else {
            uv_timer_cb fn = TAKE(world.timer_fn);

            assert(fn);
            fn(world.timer);
        }
    }
}

static void serve(char kind, const uint8_t *data, size_t size, bool is_cut)
{
    static const uint8_t empty_list[] = "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}";

    proceed();
    if (kind == 'L') {
        if (!world.request.is_watch)
            send_pieces(data, size, is_cut);
        answer(200, NULL, 0);
    } else if (world.request.is_watch && kind == 'W') {
        send_pieces(data, size, is_cut);
        answer(200, NULL, 0);
    } else if (world.request.is_watch || kind == 'W') {
        send_pieces(empty_list, sizeof(empty_list) - 1, false);
        answer(200, NULL, 0);
    } else {
        static const int statuses[] = {400, 401, 403, 404, 410, 429, 500, 504};

        answer(statuses[(unsigned char)kind % ARRAY_LEN(statuses)], data, size);
    }
}

static uint64_t run(char kind, const uint8_t *data, size_t size, bool is_cut)
{
    static const struct k8s_pod_watch_settings settings = {.namespace_name = "ns",
                                                           .label_selector = "app=voice",
                                                           .agent_container = "agent",
                                                           .list_timeout_ms = 1000,
                                                           .stall_ms = 1000,
                                                           .on_list = on_list,
                                                           .on_seen = on_seen,
                                                           .on_gone = on_gone,
                                                           .on_trouble = on_trouble};
    struct k8s_pod_watch *pods;
    int rc;

    world.digest = DIGEST_START;
    world.is_stopped = false;
    rc = k8s_pod_watch_new(&world.loop, &settings, NULL, &pods);
    assert(rc == 0);
    for (int i = 0; i < REQUESTS_MAX; i++)
        serve(kind, data, size, is_cut);
    if (world.work)
        proceed();
    world.timer_fn = NULL;
    k8s_pod_watch_stop(pods, stopped, NULL);
    while (!world.is_stopped)
        uv_run(&world.loop, UV_RUN_NOWAIT);
    return world.digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_ready;
    uint64_t whole;

    if (!is_ready) {
        int rc = uv_loop_init(&world.loop);

        assert(rc == 0);
        /* Every kind of input makes lines; they are written, and thrown away. */
        log_set_fd(-1);
        is_ready = true;
    }
    if (size < 2)
        return 0;
    whole = run((char)data[0], data + 2, size - 2, false);
    world.random = data[1];
    assert(run((char)data[0], data + 2, size - 2, true) == whole);
    log_flush();
    return 0;
}
