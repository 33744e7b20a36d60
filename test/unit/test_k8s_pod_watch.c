/*
 * test_k8s_pod_watch.c - how pods are followed, against an API server that says what the test wants.
 *
 * The client is a fake of client.h. Time is the test's: the linker gives us the timer and the clock (see
 * meson.build), so that a wait is looked at instead of waited for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "k8s/backoff.h"
#include "k8s/pod_watch.h"

enum {
    PATH_MAX_HERE = 1024,
    TOLD_MAX = 8192,
    LIST_TIMEOUT_MS = 30000,
    STALL_MS = 90000,
};

struct k8s_request {
    char path[PATH_MAX_HERE];
    struct k8s_request_spec spec;
    k8s_done_fn done;
    void *arg;
    bool is_live;
};

/* What a callback does when it is told for the first time. */
enum reaction {
    REACT_NOT,
    REACT_RELIST,
    REACT_STOP,
};

struct world {
    uv_loop_t loop;
    struct k8s_pod_watch *pods;
    struct k8s_request request; /* the only one under way */
    size_t sent;
    size_t cancelled;
    int send_rc;

    uint64_t now_ms;
    uv_timer_t *timer;
    uv_timer_cb timer_fn;
    uint64_t timer_ms;
    bool is_timer_armed;

    bool holds_work; /* the thread pool is busy, until the test lets it go on */
    uv_work_t *work;
    uv_work_cb work_fn;
    uv_after_work_cb worked_fn;

    char told[TOLD_MAX]; /* "[a b] +c -d !" */
    size_t lists;
    size_t troubles;
    enum reaction react_to_list;
    enum reaction react_to_seen;
    enum reaction react_to_trouble;
    bool is_inside; /* a function of pods.h */
    size_t stops;
    int log_fd;
};

static struct world *world;

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fn, uint64_t delay_ms, uint64_t repeat_ms);
int __wrap_uv_timer_stop(uv_timer_t *timer);
uint64_t __wrap_uv_now(const uv_loop_t *loop);
int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb fn, uv_after_work_cb worked);
int __real_uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb fn, uv_after_work_cb worked);
int __wrap_uv_cancel(uv_req_t *req);
int __real_uv_cancel(uv_req_t *req);

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fn, uint64_t delay_ms, uint64_t repeat_ms)
{
    assert_int_equal(repeat_ms, 0);
    assert_false(uv_is_closing((uv_handle_t *)timer));
    world->timer = timer;
    world->timer_fn = fn;
    world->timer_ms = delay_ms;
    world->is_timer_armed = true;
    return 0;
}

int __wrap_uv_timer_stop(uv_timer_t *timer UNUSED)
{
    world->is_timer_armed = false;
    return 0;
}

uint64_t __wrap_uv_now(const uv_loop_t *loop UNUSED)
{
    return world->now_ms;
}

int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb fn, uv_after_work_cb worked)
{
    if (!world->holds_work)
        return __real_uv_queue_work(loop, work, fn, worked);
    world->work = work;
    world->work_fn = fn;
    world->worked_fn = worked;
    return 0;
}

int __wrap_uv_cancel(uv_req_t *req)
{
    return world->work ? UV_EBUSY : __real_uv_cancel(req);
}

int k8s_client_send(struct k8s_client *client UNUSED, const struct k8s_request_spec *spec, k8s_done_fn done,
                    void *arg, struct k8s_request **ret_request)
{
    struct k8s_request *request = &world->request;

    if (world->send_rc < 0)
        return world->send_rc;
    assert_false(request->is_live);
    assert_int_equal(spec->method, K8S_GET);
    assert_non_null(spec->on_data);
    *request = (struct k8s_request){.spec = *spec, .done = done, .arg = arg, .is_live = true};
    assert_true(strlen(spec->path) < PATH_MAX_HERE);
    memcpy(request->path, spec->path, strlen(spec->path) + 1);
    world->sent++;
    *ret_request = request;
    return 0;
}

void k8s_request_cancel(struct k8s_request *request)
{
    assert_true(request->is_live);
    request->is_live = false;
    world->cancelled++;
}

static void stopped(void *arg)
{
    assert_ptr_equal(arg, world);
    assert_false(world->is_inside);
    world->stops++;
    world->pods = NULL;
}

static void stop(void)
{
    bool was_inside = world->is_inside;

    world->is_inside = true;
    k8s_pod_watch_stop(world->pods, stopped, world);
    world->is_inside = was_inside;
}

static void react(enum reaction *reaction)
{
    enum reaction what = *reaction;

    *reaction = REACT_NOT;
    if (what == REACT_STOP)
        stop();
    else if (what == REACT_RELIST)
        k8s_pod_watch_relist(world->pods);
}

static void tell(const char *before, const char *text)
{
    size_t len = strlen(world->told);

    assert_int_equal(world->stops, 0);
    snprintf(world->told + len, sizeof(world->told) - len, "%s%s", before, text);
}

static void on_list(void *arg UNUSED, const struct k8s_pod *pods, size_t count)
{
    world->lists++;
    tell("[", "");
    for (size_t i = 0; i < count; i++) {
        tell(i ? " " : "", pods[i].name);
        tell("/", pods[i].is_unreadable ? "?" : pods[i].uid);
    }
    tell("]", "");
    react(&world->react_to_list);
}

static void on_seen(void *arg UNUSED, const struct k8s_pod *pod)
{
    tell("+", pod->name);
    react(&world->react_to_seen);
}

static void on_gone(void *arg UNUSED, const struct k8s_pod *pod)
{
    tell("-", pod->name);
}

static void on_trouble(void *arg UNUSED)
{
    assert_false(world->is_inside);
    world->troubles++;
    react(&world->react_to_trouble);
}

static const struct k8s_pod_watch_settings settings = {.namespace_name = "ns",
                                                       .label_selector = "app=voice",
                                                       .agent_container = "agent",
                                                       .list_timeout_ms = LIST_TIMEOUT_MS,
                                                       .stall_ms = STALL_MS,
                                                       .on_list = on_list,
                                                       .on_seen = on_seen,
                                                       .on_gone = on_gone,
                                                       .on_trouble = on_trouble};

static int setup(void **state)
{
    world = calloc(1, sizeof(*world));
    assert_non_null(world);
    *state = world;
    world->now_ms = 5000000;
    assert_int_equal(uv_loop_init(&world->loop), 0);
    world->log_fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(world->log_fd >= 0);
    log_set_fd(world->log_fd);
    world->is_inside = true;
    assert_int_equal(k8s_pod_watch_new(&world->loop, &settings, NULL, &world->pods), 0);
    world->is_inside = false;
    assert_int_equal(world->sent, 0);
    return 0;
}

/* Runs the loop until neither the thread pool nor a closing handle has anything to say. */
static void turn(void)
{
    uv_run(&world->loop, UV_RUN_DEFAULT);
}

static int teardown(void **state UNUSED)
{
    if (world->pods) {
        if (!world->stops)
            stop();
        turn();
    }
    assert_int_equal(world->stops, 1);
    assert_false(world->request.is_live);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    log_flush();
    log_set_fd(STDERR_FILENO);
    close(world->log_fd);
    free(world);
    return 0;
}

static int log_count(const char *needle)
{
    static char text[256 * 1024];
    ssize_t n;
    int count = 0;

    log_flush();
    n = pread(world->log_fd, text, sizeof(text) - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    for (const char *at = strstr(text, needle); at; at = strstr(at + 1, needle))
        count++;
    return count;
}

/* What the server does */

static void send_data(const char *data, size_t len)
{
    /* A copy of exactly that length, so that AddressSanitizer sees who looks behind it. */
    char *copy = malloc(len ? len : 1);

    assert_non_null(copy);
    memcpy(copy, data, len);
    assert_true(world->request.is_live);
    world->request.spec.on_data(world->request.arg, (struct slice){copy, len});
    free(copy);
}

static void send_text(const char *text)
{
    send_data(text, strlen(text));
}

static void answer(const struct k8s_answer *what)
{
    struct k8s_request request = world->request;

    assert_true(request.is_live);
    world->request.is_live = false;
    request.done(request.arg, what);
    turn();
}

static void answer_status(int status, const char *body)
{
    answer(&(struct k8s_answer){.status = status, .body = slice_of(body)});
}

static void answer_error(int err, int status)
{
    answer(&(struct k8s_answer){.err = err, .status = status, .error = "it broke"});
}

/* A page with pods of these names; their uid is the number of the page's version. */
static void answer_page(const char *version, const char *token, const char *names)
{
    char text[TOLD_MAX];
    size_t len = (size_t)snprintf(
        text, sizeof(text), "{\"metadata\":{\"resourceVersion\":\"%s\",\"continue\":\"%s\"},\"items\":[",
        version, token);

    for (size_t i = 0; names[i]; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len,
                                "%s{\"metadata\":{\"name\":\"%c\",\"uid\":\"%s\"}}", i ? "," : "", names[i],
                                version);
    snprintf(text + len, sizeof(text) - len, "]}");
    send_text(text);
    answer_status(200, "");
}

static void send_event(const char *type, const char *name, const char *version)
{
    char text[512];

    snprintf(text, sizeof(text),
             "{\"type\":\"%s\",\"object\":{\"metadata\":{\"name\":\"%s\",\"uid\":\"u\",\"resourceVersion\":"
             "\"%s\"}}}\n",
             type, name, version);
    send_text(text);
}

static void send_error_event(int code, const char *details)
{
    char text[512];

    snprintf(text, sizeof(text),
             "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":%d,\"reason\":\"R\",\"message\":"
             "\"m\"%s}}\n",
             code, details);
    send_text(text);
}

/* Time passes until the timer is due. */
static void wait_for_timer(void)
{
    assert_true(world->is_timer_armed);
    world->now_ms += world->timer_ms;
    world->is_timer_armed = false;
    world->timer_fn(world->timer);
    turn();
}

/* The thread pool has parsed what it held. */
static void finish_work(void)
{
    uv_work_t *work = TAKE(world->work);

    world->holds_work = false;
    world->work_fn(work);
    world->worked_fn(work, 0);
    turn();
}

static void assert_at_once(void)
{
    assert_true(world->is_timer_armed);
    assert_false(world->request.is_live);
    assert_int_equal(world->timer_ms, 0);
    wait_for_timer();
}

/* A failure was counted, and is waited out for a time that belongs to its `step`. */
static void assert_waits(size_t troubles, uint64_t step_ms)
{
    assert_int_equal(world->troubles, troubles);
    assert_true(world->is_timer_armed);
    assert_in_range(world->timer_ms, step_ms, 2 * step_ms);
    wait_for_timer();
}

static bool path_has(const char *text)
{
    assert_true(world->request.is_live);
    return strstr(world->request.path, text) != NULL;
}

static void assert_watches_from(const char *version)
{
    char text[64];

    snprintf(text, sizeof(text), "&resourceVersion=%s&", version);
    assert_true(path_has("watch=1"));
    assert_true(path_has(text));
}

/* Whatever was seen before, it is asked for what is true now. */
static void assert_lists(void)
{
    assert_false(path_has("watch"));
    assert_false(path_has("resourceVersion"));
}

/* Listed "a" and "b" at version 5; watching. */
static void start_watching(void)
{
    assert_at_once();
    answer_page("5", "", "ba");
    assert_string_equal(world->told, "[a/5 b/5]");
    assert_at_once();
    assert_watches_from("5");
    world->told[0] = '\0';
    world->lists = 0;
}

/* List */

static void start__lists_what_is_true_now(void **state UNUSED)
{
    assert_at_once();
    assert_string_equal(world->request.path,
                        "/api/v1/namespaces/ns/pods?labelSelector=app%3Dvoice&limit=500");
    assert_int_equal(world->request.spec.timeout_ms, LIST_TIMEOUT_MS);
}

static void list__is_told_when_its_last_page_is_there(void **state UNUSED)
{
    assert_at_once();
    answer_page("5", "t1", "db");
    assert_string_equal(world->request.path, "/api/v1/namespaces/ns/pods?labelSelector=app%3Dvoice&limit=500"
                                             "&continue=t1");
    answer_page("5", "t2", "ca");
    assert_int_equal(world->lists, 0);
    assert_true(path_has("continue=t2"));
    answer_page("6", "", "b");
    assert_string_equal(world->told, "[a/5 b/6 c/5 d/5]");
    assert_at_once();
    assert_watches_from("6");
    assert_int_equal(world->troubles, 0);
}

static void list__comes_in_pieces(void **state UNUSED)
{
    static const char text[] = "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[{\"metadata\":{\"name\":"
                               "\"a\",\"uid\":\"u\"}}]}";

    assert_at_once();
    for (size_t i = 0; i < sizeof(text) - 1; i++)
        send_data(text + i, 1);
    answer_status(200, "");
    assert_string_equal(world->told, "[a/u]");
}

static void list__without_pods_is_told_as_well(void **state UNUSED)
{
    assert_at_once();
    send_text("{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":null}");
    answer_status(200, "");
    assert_string_equal(world->told, "[]");
}

static void list__whose_later_page_expired_comes_as_one(void **state UNUSED)
{
    assert_at_once();
    answer_page("5", "t1", "ab");
    answer_status(410, "{\"reason\":\"Expired\",\"code\":410}");
    assert_string_equal(world->request.path, "/api/v1/namespaces/ns/pods?labelSelector=app%3Dvoice");
    answer_page("7", "", "bc");
    assert_string_equal(world->told, "[b/7 c/7]");
    assert_int_equal(world->troubles, 0);
}

static void list__that_is_refused_as_gone_is_a_failure(void **state UNUSED)
{
    start_watching();
    k8s_pod_watch_relist(world->pods);
    assert_at_once();
    assert_lists();
    assert_true(path_has("limit=500"));
    answer_status(410, "");
    assert_waits(1, 800);
    assert_lists();
    answer_page("9", "", "a");
    assert_at_once();
    assert_watches_from("9");
}

static void list__that_times_out_at_the_server_is_a_failure(void **state UNUSED)
{
    start_watching();
    k8s_pod_watch_relist(world->pods);
    assert_at_once();
    answer_status(504, "{\"reason\":\"Timeout\",\"code\":504}");
    assert_waits(1, 800);
    assert_lists();
}

static void list__failures_tell_nothing_and_wait_longer_each_time(void **state UNUSED)
{
    assert_at_once();
    answer_error(-ECONNREFUSED, 0);
    assert_waits(1, 800);
    assert_lists();
    answer_status(500, "");
    assert_waits(2, 1600);
    assert_lists();
    send_text("{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[");
    answer_error(-ECONNRESET, 200);
    assert_waits(3, 3200);
    assert_lists();
    send_text("{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[");
    answer_status(200, "");
    assert_waits(4, 6400);
    assert_lists();
    send_text("{\"kind\":\"Status\"}");
    answer_status(200, "");
    assert_waits(5, 12800);
    assert_lists();
    world->send_rc = -EBUSY;
    answer_status(503, "");
    assert_waits(6, 25600);
    assert_waits(7, 30000);
    world->send_rc = 0;
    assert_waits(8, 30000);
    assert_lists();
    assert_string_equal(world->told, "");
    answer_page("5", "", "a");
    assert_string_equal(world->told, "[a/5]");
}

static void list__that_takes_too_long_is_cancelled(void **state UNUSED)
{
    assert_at_once();
    assert_int_equal(world->timer_ms, LIST_TIMEOUT_MS);
    send_text("{\"metadata\"");
    wait_for_timer();
    assert_int_equal(world->cancelled, 1);
    assert_waits(1, 800);
    /* What had come of it is forgotten. */
    answer_page("5", "", "a");
    assert_string_equal(world->told, "[a/5]");
}

static void list__that_is_too_large_is_a_failure(void **state UNUSED)
{
    assert_at_once();
    send_text("{");
    /* Nothing that long is there, but nothing of it is looked at. */
    world->request.spec.on_data(world->request.arg, (struct slice){"", (size_t)256 * 1024 * 1024});
    assert_int_equal(world->troubles, 1);
    assert_int_equal(world->cancelled, 0); /* not while the client is calling */
    send_text("more");
    answer_status(200, "");
    assert_waits(1, 800);
    assert_lists();
    assert_int_equal(world->lists, 0);
}

static void list__honours_retry_after(void **state UNUSED)
{
    assert_at_once();
    answer(&(struct k8s_answer){.status = 429, .retry_after_ms = 27000});
    assert_int_equal(world->timer_ms, 27000);
    wait_for_timer();
    answer_status(503, "{\"code\":503,\"details\":{\"retryAfterSeconds\":99}}");
    assert_int_equal(world->timer_ms, 30000);
}

static void list__tells_what_cannot_be_read_by_its_name_and_says_so(void **state UNUSED)
{
    assert_at_once();
    send_text("{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[{\"metadata\":{\"name\":\"odd\"}},"
              "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"}}]}");
    answer_status(200, "");
    assert_string_equal(world->told, "[a/u odd/?]");
    assert_int_equal(log_count("\"pod\":\"odd\",\"objects\":1"), 1);
}

static void list__with_an_item_without_a_name_is_a_failure(void **state UNUSED)
{
    assert_at_once();
    send_text("{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[{\"metadata\":{\"name\":\"Odd\"}},"
              "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"}}]}");
    answer_status(200, "");
    assert_string_equal(world->told, "");
    assert_waits(1, 800);
    assert_lists();
}

static void container__that_pods_lack_is_said_now_and_then(void **state UNUSED)
{
#define LACKING                                                                                              \
    "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},\"spec\":{\"containers\":[{\"name\":\"other\"}]}}"
    static const char said[] = "VOICE_AGENT_CONTAINER";

    assert_at_once();
    send_text("{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" LACKING "]}");
    answer_status(200, "");
    assert_string_equal(world->told, "[a/u]");
    assert_int_equal(log_count(said), 1);
    assert_int_equal(log_count("\"container\":\"agent\",\"pod\":\"a\",\"times\":1"), 1);
    assert_at_once();
    for (int i = 0; i < 100; i++)
        send_text("{\"type\":\"MODIFIED\",\"object\":" LACKING "}");
    assert_int_equal(log_count(said), 1);
    world->now_ms += 600000;
    send_text("{\"type\":\"MODIFIED\",\"object\":" LACKING "}");
    assert_int_equal(log_count(said), 2);
    assert_int_equal(log_count("\"times\":101"), 1);
}

/* Watch */

static void watch__tells_events_and_goes_on_from_the_last_one(void **state UNUSED)
{
    start_watching();
    assert_int_equal(world->request.spec.stall_ms, STALL_MS);
    send_event("ADDED", "c", "6");
    send_event("MODIFIED", "a", "7");
    send_event("DELETED", "b", "8");
    assert_string_equal(world->told, "+c+a-b");
    answer_status(200, "");
    assert_at_once();
    assert_watches_from("8");
    assert_int_equal(world->troubles, 0);
}

static void watch__bookmark_moves_the_version_only(void **state UNUSED)
{
    start_watching();
    send_text("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"44\"}}}");
    assert_string_equal(world->told, "");
    answer_status(200, "");
    assert_at_once();
    assert_watches_from("44");
}

static void watch__asks_for_five_to_ten_minutes_and_not_always_the_same(void **state UNUSED)
{
    unsigned first = 0;
    bool is_spread = false;

    start_watching();
    for (int i = 0; i < 50; i++) {
        const char *at = strstr(world->request.path, "timeoutSeconds=");
        unsigned seconds;

        assert_non_null(at);
        seconds = (unsigned)strtoul(at + strlen("timeoutSeconds="), NULL, 10);
        assert_in_range(seconds, 300, 600);
        is_spread = is_spread || (i > 0 && seconds != first);
        first = seconds;
        world->now_ms += 300000;
        answer_status(200, "");
        assert_at_once();
    }
    assert_true(is_spread);
}

static void watch__however_it_is_cut_says_the_same(void **state UNUSED)
{
    static const char text[] = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"c\",\"uid\":\"u\","
                               "\"resourceVersion\":\"6\","
                               "\"annotations\":{\"odd\":\"}]{\\\"\\\\\"}}}}\n"
                               "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}"
                               "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"c\",\"uid\":\"u\","
                               "\"resourceVersion\":\"8\"}}}\r\n"
                               "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"d\",\"uid\":"
                               "\"u\",\"resourceVersion\":\"9\"}}}\n";
    const size_t len = sizeof(text) - 1;

    start_watching();
    for (size_t first = 0; first <= len; first++) {
        for (size_t second = first; second <= len; second += 7) {
            world->told[0] = '\0';
            send_data(text, first);
            send_data(text + first, second - first);
            send_data(text + second, len - second);
            assert_string_equal(world->told, "+c-c+d");
        }
    }
    world->told[0] = '\0';
    for (size_t i = 0; i < len; i++)
        send_data(text + i, 1);
    assert_string_equal(world->told, "+c-c+d");
    answer_status(200, "");
    assert_at_once();
    assert_watches_from("9");
}

static void watch__that_ends_at_once_without_an_event_is_a_failure(void **state UNUSED)
{
    start_watching();
    world->now_ms += 999;
    answer_status(200, "");
    assert_waits(1, 800);
    assert_lists();
    /* An event of the watch before does not count. */
    answer_page("5", "", "a");
    assert_at_once();
    send_event("ADDED", "c", "6");
    answer_status(200, "");
    assert_at_once();
    answer_status(200, "");
    assert_waits(2, 1600);
    assert_lists();
}

static void watch__that_ends_after_a_second_is_opened_again(void **state UNUSED)
{
    start_watching();
    world->now_ms += 1000;
    answer_status(200, "");
    assert_at_once();
    assert_watches_from("5");
    assert_int_equal(world->troubles, 0);
}

static void watch__that_ends_within_an_event_leads_to_a_list(void **state UNUSED)
{
    start_watching();
    send_event("ADDED", "c", "6");
    send_text("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"d\"");
    answer_status(200, "");
    assert_waits(1, 800);
    assert_lists();
    answer_page("7", "", "a");
    assert_at_once();
    /* The half is forgotten. */
    send_event("ADDED", "e", "8");
    assert_string_equal(world->told, "+c[a/7]+e");
}

static void watch__that_breaks_after_a_while_leads_to_a_list_at_once(void **state UNUSED)
{
    static const int errs[] = {-ETIMEDOUT, -ECONNRESET, 0};

    start_watching();
    for (size_t i = 0; i < ARRAY_LEN(errs); i++) {
        send_event("ADDED", "c", "6");
        world->now_ms += STALL_MS;
        if (errs[i] == 0)
            send_text("{\"type\"");
        answer_error(errs[i], 200);
        assert_at_once();
        assert_lists();
        answer_page("6", "", "a");
        assert_at_once();
        assert_watches_from("6");
    }
    assert_int_equal(world->troubles, 0);
    assert_int_equal(log_count("the watch on the pods broke"), 1);
    world->now_ms += 600000;
    answer_error(-ECONNRESET, 200);
    assert_int_equal(log_count("the watch on the pods broke"), 2);
    assert_int_equal(log_count("\"times\":3"), 1);
    assert_int_equal(log_count("followed again"), 0);
}

static void watch__that_breaks_again_and_again_lists_slowly(void **state UNUSED)
{
    start_watching();
    for (uint64_t step_ms = 800, troubles = 1; step_ms <= 6400; step_ms *= 2, troubles++) {
        send_event("ADDED", "c", "6");
        world->now_ms += 10000;
        answer_error(-ECONNRESET, 200);
        assert_waits(troubles, step_ms);
        assert_lists();
        answer_page("6", "", "a");
        assert_at_once();
        assert_watches_from("6");
    }
}

/* The server may be another one by now, restored from a backup: it would answer 200 and be silent. */
static void watch__that_cannot_connect_leads_to_a_list(void **state UNUSED)
{
    start_watching();
    answer_error(-ECONNREFUSED, 0);
    assert_waits(1, 800);
    assert_lists();
    answer_page("3", "", "a");
    assert_at_once();
    assert_watches_from("3");
    answer(&(struct k8s_answer){.status = 429, .retry_after_ms = 30000});
    assert_int_equal(world->timer_ms, 30000);
    wait_for_timer();
    assert_lists();
}

/* That it was answered says nothing yet. */
static void trouble__is_over_when_the_watch_brings_something(void **state UNUSED)
{
    start_watching();
    answer_error(-ECONNRESET, 200);
    assert_waits(1, 800);
    answer_page("5", "", "a");
    assert_at_once();
    world->now_ms += 300000;
    answer_status(200, "");
    assert_at_once();
    assert_watches_from("5");
    assert_int_equal(log_count("followed again"), 0);
    send_text("{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"6\"}}}");
    assert_int_equal(log_count("followed again"), 1);
}

static void watch__that_is_refused_otherwise_leads_to_a_list(void **state UNUSED)
{
    static const struct k8s_answer answers[] = {
        {.status = 410}, {.status = 500}, {.status = 403}, {.err = -ETIMEDOUT}, {.err = -EPROTO}};

    start_watching();
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        answer(&answers[i]);
        assert_int_equal(world->troubles, i + 1);
        wait_for_timer();
        assert_lists();
        answer_page("5", "", "a");
        assert_at_once();
        assert_watches_from("5");
    }
}

static void watch__whose_version_expired_leads_to_a_list(void **state UNUSED)
{
    start_watching();
    send_event("ADDED", "c", "6");
    send_error_event(410, "");
    /* What comes behind it is nobody's, and the request is left to the timer. */
    send_event("ADDED", "d", "7");
    assert_string_equal(world->told, "+c");
    assert_waits(1, 800);
    assert_int_equal(world->cancelled, 1);
    assert_lists();
}

static void watch__error_event_may_end_with_its_stream(void **state UNUSED)
{
    start_watching();
    send_error_event(410, "");
    answer_status(200, "");
    assert_waits(1, 800);
    assert_int_equal(world->cancelled, 0);
    assert_lists();
}

static void watch__error_events_lead_where_refusals_lead(void **state UNUSED)
{
    start_watching();
    send_error_event(429, ",\"details\":{\"retryAfterSeconds\":25}");
    assert_int_equal(world->troubles, 1);
    assert_int_equal(world->timer_ms, 25000);
    wait_for_timer();
    assert_lists();
    answer_page("5", "", "a");
    assert_at_once();
    send_error_event(500, "");
    assert_waits(2, 1600);
    assert_lists();
}

static void watch__error_in_the_middle_of_a_piece_hides_the_rest_of_it(void **state UNUSED)
{
    start_watching();
    send_text("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"c\",\"uid\":\"u\"}}}"
              "{\"type\":\"ERROR\",\"object\":{\"code\":410}}"
              "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"d\",\"uid\":\"u\"}}}");
    assert_string_equal(world->told, "+c");
    assert_waits(1, 800);
    assert_lists();
}

static void watch__of_something_else_leads_to_a_list(void **state UNUSED)
{
    static const char *const texts[] = {"<html>", "{\"kind\":\"Pod\"}", "{\"type\":\"ADDED\",\"object\":01}",
                                        "[]"};

    start_watching();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        send_text(texts[i]);
        assert_int_equal(world->troubles, i + 1);
        wait_for_timer();
        assert_lists();
        answer_page("5", "", "a");
        assert_at_once();
    }
}

static void watch__skips_what_is_no_pod_and_says_so_now_and_then(void **state UNUSED)
{
    start_watching();
    for (int i = 0; i < 100; i++)
        send_event("ADDED", "Odd", "6");
    send_event("PAINTED", "a", "7");
    assert_string_equal(world->told, "");
    assert_int_equal(log_count("pods that cannot be read"), 1);
    world->now_ms += 10000;
    send_event("ADDED", "Odder", "8");
    assert_int_equal(log_count("pods that cannot be read"), 2);
    assert_int_equal(log_count("\"pod\":\"Odder\",\"objects\":101"), 1);
    answer_status(200, "");
    assert_at_once();
    assert_watches_from("8");
}

/* Trouble */

static void trouble__with_permissions_says_what_is_missing_once(void **state UNUSED)
{
    assert_at_once();
    for (size_t i = 1; i <= 3; i++) {
        answer_status(403, "{\"message\":\"pods is forbidden: User \\\"x\\\" cannot list\"}");
        assert_int_equal(world->troubles, i);
        wait_for_timer();
    }
    assert_int_equal(log_count("\"verb\":\"list\",\"resource\":\"pods\",\"namespace\":\"ns\",\"status\":403"),
                     1);
    assert_int_equal(log_count("\"level\":\"error\""), 1);
    assert_int_equal(log_count("a Role must give"), 1);
    assert_int_equal(log_count("cannot list"), 1);
    answer_status(401, "");
    wait_for_timer();
    assert_int_equal(log_count("does not know us"), 1);
    answer_page("5", "", "a");
    assert_int_equal(log_count("followed again"), 1);
    assert_at_once();
    for (int i = 0; i < 3; i++) {
        answer_status(403, "");
        wait_for_timer();
        answer_page("5", "", "a");
        assert_at_once();
    }
    /* Lists work, but they do not mean that the watch does. */
    assert_int_equal(
        log_count("\"verb\":\"watch\",\"resource\":\"pods\",\"namespace\":\"ns\",\"status\":403"), 1);
    assert_int_equal(log_count("followed again"), 1);
    send_event("ADDED", "c", "6");
    assert_int_equal(log_count("followed again"), 2);
}

static void trouble__after_two_quiet_minutes_waits_as_little_as_at_first(void **state UNUSED)
{
    assert_at_once();
    answer_status(500, "");
    assert_waits(1, 800);
    answer_status(500, "");
    assert_waits(2, 1600);
    answer_page("5", "", "a");
    assert_at_once();
    world->now_ms += K8S_BACKOFF_QUIET_MS;
    answer_error(-ECONNREFUSED, 0);
    assert_waits(3, 800);
}

/* Relist */

static void relist__ends_the_watch_and_lists_at_once(void **state UNUSED)
{
    start_watching();
    send_event("ADDED", "c", "6");
    k8s_pod_watch_relist(world->pods);
    assert_int_equal(world->cancelled, 1);
    assert_at_once();
    assert_lists();
    answer_page("8", "", "ac");
    assert_string_equal(world->told, "+c[a/8 c/8]");
    assert_at_once();
    assert_watches_from("8");
    assert_int_equal(world->troubles, 0);
}

static void relist__is_served_by_a_list_under_way(void **state UNUSED)
{
    assert_at_once();
    k8s_pod_watch_relist(world->pods);
    assert_int_equal(world->cancelled, 0);
    answer_page("5", "", "a");
    assert_int_equal(world->sent, 1);
    assert_at_once();
    assert_watches_from("5");
}

static void relist__is_served_by_a_list_that_is_parsed(void **state UNUSED)
{
    assert_at_once();
    world->holds_work = true;
    answer_page("5", "", "a");
    assert_false(world->is_timer_armed); /* its deadline was for the page */
    k8s_pod_watch_relist(world->pods);
    assert_false(world->is_timer_armed);
    finish_work();
    assert_string_equal(world->told, "[a/5]");
    assert_at_once();
    assert_watches_from("5");
}

static void relist__while_waiting_waits_but_then_lists(void **state UNUSED)
{
    uint64_t wait_ms;

    start_watching();
    answer_error(-ECONNREFUSED, 0);
    wait_ms = world->timer_ms;
    k8s_pod_watch_relist(world->pods);
    assert_int_equal(world->timer_ms, wait_ms);
    assert_waits(1, 800);
    assert_lists();
}

static void relist__from_an_event_hides_the_rest_of_the_piece(void **state UNUSED)
{
    start_watching();
    world->react_to_seen = REACT_RELIST;
    send_text("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"c\",\"uid\":\"u\","
              "\"resourceVersion\":\"6\"}}}"
              "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"d\",\"uid\":\"u\","
              "\"resourceVersion\":\"7\"}}}");
    assert_int_equal(world->cancelled, 0); /* not while the client is calling */
    assert_string_equal(world->told, "+c");
    wait_for_timer();
    assert_int_equal(world->cancelled, 1);
    assert_lists();
}

static void relist__from_a_list_lists_once_more(void **state UNUSED)
{
    assert_at_once();
    world->react_to_list = REACT_RELIST;
    answer_page("5", "", "a");
    assert_at_once();
    assert_lists();
}

/* Stop; teardown sees that it ended exactly once */

static void stop__before_the_first_request(void **state UNUSED)
{
    stop();
    turn();
    assert_int_equal(world->sent, 0);
}

static void stop__while_a_page_is_under_way(void **state UNUSED)
{
    assert_at_once();
    send_text("{\"metadata\"");
    stop();
    assert_int_equal(world->cancelled, 1);
    turn();
}

static void stop__while_a_page_is_parsed_waits_for_it(void **state UNUSED)
{
    assert_at_once();
    world->holds_work = true;
    answer_page("5", "", "a");
    stop();
    turn();
    assert_int_equal(world->stops, 0);
    finish_work();
    assert_int_equal(world->stops, 1);
    assert_int_equal(world->lists, 0);
}

static void stop__while_a_page_waits_to_be_parsed(void **state UNUSED)
{
    struct k8s_request request;

    assert_at_once();
    send_text("{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]}");
    request = world->request;
    world->request.is_live = false;
    request.done(request.arg, &(struct k8s_answer){.status = 200});
    stop();
    assert_int_equal(world->stops, 0);
    turn();
    assert_int_equal(world->lists, 0);
}

static void stop__while_watching(void **state UNUSED)
{
    start_watching();
    send_text("{\"type\"");
    stop();
    assert_int_equal(world->cancelled, 1);
    turn();
}

static void stop__while_waiting(void **state UNUSED)
{
    assert_at_once();
    answer_status(500, "");
    stop();
    turn();
    assert_int_equal(world->sent, 1);
}

static void stop__from_an_event_tells_nothing_more(void **state UNUSED)
{
    start_watching();
    world->react_to_seen = REACT_STOP;
    send_text("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"c\",\"uid\":\"u\"}}}"
              "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"d\",\"uid\":\"u\"}}}");
    assert_string_equal(world->told, "+c");
    assert_int_equal(world->cancelled, 0);
    send_event("ADDED", "e", "8");
    assert_string_equal(world->told, "+c");
    turn();
    assert_int_equal(world->cancelled, 1);
}

static void stop__from_a_list_asks_nothing_more(void **state UNUSED)
{
    assert_at_once();
    world->react_to_list = REACT_STOP;
    answer_page("5", "", "a");
    assert_string_equal(world->told, "[a/5]");
    assert_int_equal(world->sent, 1);
}

static void stop__from_trouble_asks_nothing_more(void **state UNUSED)
{
    assert_at_once();
    world->react_to_trouble = REACT_STOP;
    answer_status(500, "");
    assert_int_equal(world->sent, 1);
}

static void stop__from_trouble_within_data_asks_nothing_more(void **state UNUSED)
{
    start_watching();
    world->react_to_trouble = REACT_STOP;
    send_text("<html>");
    assert_int_equal(world->cancelled, 0);
    turn();
    assert_int_equal(world->cancelled, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(start__lists_what_is_true_now),
        TEST(list__is_told_when_its_last_page_is_there),
        TEST(list__comes_in_pieces),
        TEST(list__without_pods_is_told_as_well),
        TEST(list__whose_later_page_expired_comes_as_one),
        TEST(list__that_is_refused_as_gone_is_a_failure),
        TEST(list__that_times_out_at_the_server_is_a_failure),
        TEST(list__failures_tell_nothing_and_wait_longer_each_time),
        TEST(list__that_takes_too_long_is_cancelled),
        TEST(list__that_is_too_large_is_a_failure),
        TEST(list__honours_retry_after),
        TEST(list__tells_what_cannot_be_read_by_its_name_and_says_so),
        TEST(list__with_an_item_without_a_name_is_a_failure),
        TEST(container__that_pods_lack_is_said_now_and_then),
        TEST(watch__tells_events_and_goes_on_from_the_last_one),
        TEST(watch__bookmark_moves_the_version_only),
        TEST(watch__asks_for_five_to_ten_minutes_and_not_always_the_same),
        TEST(watch__however_it_is_cut_says_the_same),
        TEST(watch__that_ends_at_once_without_an_event_is_a_failure),
        TEST(watch__that_ends_after_a_second_is_opened_again),
        TEST(watch__that_ends_within_an_event_leads_to_a_list),
        TEST(watch__that_breaks_after_a_while_leads_to_a_list_at_once),
        TEST(watch__that_breaks_again_and_again_lists_slowly),
        TEST(watch__that_cannot_connect_leads_to_a_list),
        TEST(watch__that_is_refused_otherwise_leads_to_a_list),
        TEST(watch__whose_version_expired_leads_to_a_list),
        TEST(watch__error_event_may_end_with_its_stream),
        TEST(watch__error_events_lead_where_refusals_lead),
        TEST(watch__error_in_the_middle_of_a_piece_hides_the_rest_of_it),
        TEST(watch__of_something_else_leads_to_a_list),
        TEST(watch__skips_what_is_no_pod_and_says_so_now_and_then),
        TEST(trouble__with_permissions_says_what_is_missing_once),
        TEST(trouble__is_over_when_the_watch_brings_something),
        TEST(trouble__after_two_quiet_minutes_waits_as_little_as_at_first),
        TEST(relist__ends_the_watch_and_lists_at_once),
        TEST(relist__is_served_by_a_list_under_way),
        TEST(relist__is_served_by_a_list_that_is_parsed),
        TEST(relist__while_waiting_waits_but_then_lists),
        TEST(relist__from_an_event_hides_the_rest_of_the_piece),
        TEST(relist__from_a_list_lists_once_more),
        TEST(stop__before_the_first_request),
        TEST(stop__while_a_page_is_under_way),
        TEST(stop__while_a_page_is_parsed_waits_for_it),
        TEST(stop__while_a_page_waits_to_be_parsed),
        TEST(stop__while_watching),
        TEST(stop__while_waiting),
        TEST(stop__from_an_event_tells_nothing_more),
        TEST(stop__from_a_list_asks_nothing_more),
        TEST(stop__from_trouble_asks_nothing_more),
        TEST(stop__from_trouble_within_data_asks_nothing_more),
    };

    return cmocka_run_group_tests_name("k8s_pods", tests, NULL, NULL);
}
