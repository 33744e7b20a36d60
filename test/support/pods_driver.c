/*
 * pods_driver.c - follows the pods of a namespace and prints what it is told, for
 * test/functional/test_k8s_pods.py.
 *
 * pods-driver url URL | kubeconfig PATH   NAMESPACE   [SELECTOR [CONTAINER]]
 *
 * Lines in, one at a time: "relist", "get NAME". The end of the input stops it. Lines out, each a JSON object
 * with "event": list (pods), seen and gone (pod), got (pod), absent, unknown, trouble, stopped. A pod has
 * name, incarnation, ip, ready, terminating, over, unreadable, started_at_ms.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "input_lines.h"

#include "base/json.h"
#include "base/log.h"
#include "k8s/pod_get.h"
#include "k8s/pod_watch.h"

enum {
    DRIVER_LINE_MAX = 64 * 1024 * 1024,
    LIST_TIMEOUT_MS = 30000,
    STALL_MS = 90000,
    GET_TIMEOUT_MS = 10000,
};

struct driver {
    uv_loop_t loop;
    struct input_lines input;
    uv_prepare_t flush;
    struct k8s_config *config;
    struct k8s_client *client;
    struct k8s_pod_watch *pods;
    struct k8s_pod_watch_settings settings;
};

static void put_pod(struct json_writer *json, const struct k8s_pod *pod)
{
    char incarnation[K8S_POD_INCARNATION_MAX + 1];

    k8s_pod_incarnation(pod, incarnation);
    json_object_begin(json);
    json_put_string(json, "name", pod->name);
    json_put_string(json, "incarnation", incarnation);
    json_put_string(json, "ip", pod->ip);
    json_put_bool(json, "ready", pod->is_ready);
    json_put_bool(json, "terminating", pod->is_terminating);
    json_put_bool(json, "over", pod->has_terminated);
    json_put_bool(json, "unreadable", pod->is_unreadable);
    json_put_u64(json, "started_at_ms", pod->started_at_ms);
    json_object_end(json);
}

/* `key` is "pods", "pod" or NULL for an event without any. */
static void print(const char *event, const char *key, const struct k8s_pod *pods, size_t count)
{
    struct strbuf line;
    struct json_writer json;

    strbuf_init(&line, NULL, DRIVER_LINE_MAX);
    json_begin(&json, &line);
    json_object_begin(&json);
    json_put_string(&json, "event", event);
    if (key)
        json_key(&json, key);
    if (key && strcmp(key, "pods") == 0) {
        json_array_begin(&json);
        for (size_t i = 0; i < count; i++)
            put_pod(&json, &pods[i]);
        json_array_end(&json);
    } else if (key) {
        put_pod(&json, pods);
    }
    json_object_end(&json);
    assert(!strbuf_failed(&line));
    puts(line.data);
    strbuf_release(&line);
}

static void on_list(void *arg UNUSED, const struct k8s_pod *pods, size_t count)
{
    print("list", "pods", pods, count);
}

static void on_seen(void *arg UNUSED, const struct k8s_pod *pod)
{
    print("seen", "pod", pod, 1);
}

static void on_gone(void *arg UNUSED, const struct k8s_pod *pod)
{
    print("gone", "pod", pod, 1);
}

static void on_trouble(void *arg UNUSED)
{
    print("trouble", NULL, NULL, 0);
}

static void on_client_closed(void *arg)
{
    struct driver *driver = arg;

    k8s_config_free(driver->config);
    print("stopped", NULL, NULL, 0);
    uv_close((uv_handle_t *)&driver->flush, NULL);
}

static void on_pods_stopped(void *arg)
{
    struct driver *driver = arg;

    k8s_client_close(driver->client, on_client_closed, driver);
}

static void flush(uv_prepare_t *handle UNUSED)
{
    log_flush();
}

static void on_got(void *arg UNUSED, int err, const struct k8s_pod *pod, const char *error UNUSED)
{
    if (err == 0)
        print("got", "pod", pod, 1);
    else
        print(err == -ENOENT ? "absent" : "unknown", NULL, NULL, 0);
}

static void run_line(void *arg, char *line)
{
    struct driver *driver = arg;
    struct k8s_pod_get_spec spec = {.namespace_name = driver->settings.namespace_name,
                                    .agent_container = driver->settings.agent_container,
                                    .timeout_ms = GET_TIMEOUT_MS};
    struct k8s_pod_get *get;
    int rc;

    if (!line) {
        input_lines_close(&driver->input);
        k8s_pod_watch_stop(driver->pods, on_pods_stopped, driver);
        return;
    }
    if (strncmp(line, "get ", strlen("get ")) != 0) {
        k8s_pod_watch_relist(driver->pods);
        return;
    }
    spec.name = line + strlen("get ");
    rc = k8s_pod_get(driver->client, &spec, on_got, driver, &get);
    assert(rc == 0);
}

int main(int argc, char **argv)
{
    static struct driver driver;
    struct k8s_pod_watch_settings settings = {.list_timeout_ms = LIST_TIMEOUT_MS,
                                              .stall_ms = STALL_MS,
                                              .on_list = on_list,
                                              .on_seen = on_seen,
                                              .on_gone = on_gone,
                                              .on_trouble = on_trouble};
    char error[K8S_CONFIG_ERROR_MAX];
    int rc;

    if (argc < 4)
        return 2;
    settings.namespace_name = argv[3];
    settings.label_selector = argv[4]; /* NULL if there is none */
    settings.agent_container = argc > 5 ? argv[5] : NULL;
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(argv[1], "url") == 0)
        rc = k8s_config_from_url(argv[2], &driver.config, error);
    else
        rc = k8s_config_load(argv[2], &driver.config, error);
    if (rc < 0) {
        fprintf(stderr, "%s\n", error);
        return 2;
    }
    rc = uv_loop_init(&driver.loop);
    assert(rc == 0);
    rc = k8s_client_new(&driver.loop, driver.config, &driver.client);
    assert(rc == 0);
    driver.settings = settings;
    rc = k8s_pod_watch_new(&driver.loop, &settings, driver.client, &driver.pods);
    assert(rc == 0);
    uv_prepare_init(&driver.loop, &driver.flush);
    uv_prepare_start(&driver.flush, flush);
    input_lines_start(&driver.input, &driver.loop, run_line, &driver);
    uv_run(&driver.loop, UV_RUN_DEFAULT);
    rc = uv_loop_close(&driver.loop);
    assert(rc == 0);
    return 0;
}
