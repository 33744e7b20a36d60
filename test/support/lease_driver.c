/*
 * lease_driver.c - one competitor for a Lease, and the marks of pods, at the end of a pipe, for
 * test/functional/test_lease.py.
 *
 * lease-driver kubeconfig|url WHERE NAMESPACE NAME IDENTITY DURATION_MS DEADLINE_MS RETRY_MS
 *
 * Lines in:                         Lines out, each a JSON object with "event":
 *   want POD yes|no                   change: is_leader, leader
 *   known POD UID ANNOTATIONS         act: from, to (ms since boot; while it may act as the leader it does so
 * every forget POD                             few ms, and says so when it stops doing so or when it is
 * asked) acts                              stopped: what (lease, marks, client) stop (as the end of the input
 * and SIGTERM do)
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "input_lines.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "k8s/annotator.h"
#include "k8s/lease.h"

enum { DRIVER_LINE_MAX = 65536, DRIVER_TICK_MS = 5, DRIVER_SETTLE_MS = 300 };

struct driver {
    uv_loop_t loop;
    struct input_lines input;
    uv_signal_t terminated;
    uv_timer_t tick;
    struct k8s_config *config;
    struct k8s_client *client;
    struct k8s_lease *lease;
    struct k8s_annotator *marks;
    uint64_t acted_from_ms; /* 0: it does not act */
    uint64_t acted_to_ms;
    bool is_inside; /* a function of the rooms: no callback may come now */
    bool is_stopping;
};

static void say_acts(struct driver *driver)
{
    if (driver->acted_from_ms)
        printf("{\"event\":\"act\",\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}\n", driver->acted_from_ms,
               driver->acted_to_ms);
    driver->acted_from_ms = 0;
}

static void on_tick(uv_timer_t *timer)
{
    struct driver *driver = timer->data;

    if (!driver->lease || !k8s_lease_leads(driver->lease)) {
        say_acts(driver);
        return;
    }
    /* A gap is a gap: whoever was stopped did not act meanwhile. */
    if (driver->acted_from_ms && clock_elapsed_ms() - driver->acted_to_ms > 20 * DRIVER_TICK_MS)
        say_acts(driver);
    driver->acted_to_ms = clock_elapsed_ms();
    if (!driver->acted_from_ms)
        driver->acted_from_ms = driver->acted_to_ms;
}

static void on_change(void *arg, bool is_leader, const char *leader)
{
    struct driver *driver = arg;
    struct json_writer json;
    struct strbuf buf;

    assert(!driver->is_inside && !driver->is_stopping);
    strbuf_init(&buf, NULL, DRIVER_LINE_MAX);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_put_string(&json, "event", "change");
    json_put_bool(&json, "is_leader", is_leader);
    json_put_string(&json, "leader", leader);
    json_object_end(&json);
    printf("%s\n", buf.data);
    strbuf_release(&buf);
}

static void say_stopped(const struct driver *driver, const char *what)
{
    assert(!driver->is_inside);
    printf("{\"event\":\"stopped\",\"what\":\"%s\"}\n", what);
}

static void on_client_closed(void *arg)
{
    struct driver *driver = arg;

    say_stopped(driver, "client");
    input_lines_close(&driver->input);
    uv_close((uv_handle_t *)&driver->terminated, NULL);
}

static void on_marks_stopped(void *arg)
{
    struct driver *driver = arg;

    say_stopped(driver, "marks");
    driver->is_inside = true;
    k8s_client_close(driver->client, on_client_closed, driver);
    driver->is_inside = false;
}

static void on_lease_stopped(void *arg)
{
    struct driver *driver = arg;

    say_stopped(driver, "lease");
    driver->is_inside = true;
    k8s_annotator_stop(TAKE(driver->marks), on_marks_stopped, driver);
    driver->is_inside = false;
}

static void stop(struct driver *driver)
{
    if (driver->is_stopping)
        return;
    driver->is_stopping = true;
    say_acts(driver);
    uv_close((uv_handle_t *)&driver->tick, NULL);
    driver->is_inside = true;
    k8s_lease_stop(TAKE(driver->lease), on_lease_stopped, driver);
    driver->is_inside = false;
}

static void on_terminated(uv_signal_t *handle, int number UNUSED)
{
    stop(handle->data);
}

static void tell_known(struct driver *driver, const char *pod, const char *uid, const char *annotations)
{
    struct arena arena;
    struct k8s_annotations mark;

    arena_init(&arena, 1 << 20);
    k8s_annotations_read(json_parse(&arena, slice_of(annotations)), &mark);
    arena_release(&arena);
    k8s_annotator_known(driver->marks, pod, uid, mark);
}

static void run_line(void *arg, char *line)
{
    struct driver *driver = arg;
    char *save = line;
    const char *word = line ? strsep(&save, " ") : "stop";
    const char *pod = save ? strsep(&save, " ") : NULL;

    if (driver->is_stopping)
        return;
    driver->is_inside = true;
    if (strcmp(word, "want") == 0 && pod && save) {
        k8s_annotator_want(driver->marks, pod, strcmp(save, "yes") == 0);
    } else if (strcmp(word, "known") == 0 && pod && save) {
        const char *uid = strsep(&save, " ");

        assert(save);
        tell_known(driver, pod, uid, save);
    } else if (strcmp(word, "forget") == 0 && pod) {
        k8s_annotator_forget(driver->marks, pod);
    } else if (strcmp(word, "acts") == 0) {
        say_acts(driver);
    } else {
        driver->is_inside = false;
        assert(strcmp(word, "stop") == 0);
        stop(driver);
    }
    driver->is_inside = false;
}

static int make_config(const char *how, const char *where, struct k8s_config **ret_config)
{
    char error[K8S_CONFIG_ERROR_MAX] = "";
    int err = strcmp(how, "url") == 0 ? k8s_config_from_url(where, ret_config, error)
                                      : k8s_config_load(where, ret_config, error);

    if (err < 0)
        fprintf(stderr, "lease-driver: %s\n", error);
    return err;
}

static void start(struct driver *driver, char **argv)
{
    const struct k8s_lease_settings lease_settings = {
        .namespace_name = argv[3],
        .name = argv[4],
        .identity = argv[5],
        .duration_ms = strtoull(argv[6], NULL, 10),
        .renew_deadline_ms = strtoull(argv[7], NULL, 10),
        .retry_ms = strtoull(argv[8], NULL, 10),
        .on_change = on_change,
        .on_change_arg = driver,
    };
    const struct k8s_annotator_settings marks_settings = {
        .namespace_name = argv[3],
        .settle_ms = DRIVER_SETTLE_MS,
        .per_second_max = 20,
        .under_way_max = 4,
    };
    int rc;

    driver->is_inside = true;
    rc = k8s_client_new(&driver->loop, driver->config, &driver->client);
    assert(rc == 0);
    rc = k8s_annotator_new(&driver->loop, &marks_settings, driver->client, &driver->marks);
    assert(rc == 0);
    rc = k8s_lease_new(&driver->loop, &lease_settings, driver->client, &driver->lease);
    assert(rc == 0);
    driver->is_inside = false;
}

int main(int argc, char **argv)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    int rc;

    assert(driver);
    if (argc != 9 || make_config(argv[1], argv[2], &driver->config) < 0) {
        free(driver);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_configure(LOG_DEBUG, LOG_JSON);
    uv_loop_init(&driver->loop);
    uv_timer_init(&driver->loop, &driver->tick);
    driver->tick.data = driver;
    uv_timer_start(&driver->tick, on_tick, 0, DRIVER_TICK_MS);
    uv_signal_init(&driver->loop, &driver->terminated);
    driver->terminated.data = driver;
    uv_signal_start(&driver->terminated, on_terminated, SIGTERM);
    start(driver, argv);
    input_lines_start(&driver->input, &driver->loop, run_line, driver);
    while (uv_run(&driver->loop, UV_RUN_ONCE))
        log_flush();
    log_flush();
    rc = uv_loop_close(&driver->loop);
    assert(rc == 0);
    k8s_config_free(driver->config);
    free(driver);
    return 0;
}
