/*
 * app.c - builds every module from the settings, starts them, handles signals, and closes them in
 * order.
 *
 * Closing comes first in this file, because a failed start uses it as well. Building follows.
 */
#include "app/app.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <uv.h>

#include "api/api.h"
#include "app/core_settings.h"
#include "app/descriptors.h"
#include "app/diagnosis.h"
#include "app/kube.h"
#include "app/leadership.h"
#include "app/listen.h"
#include "app/lost_calls.h"
#include "app/notify.h"
#include "app/redis.h"
#include "app/reload.h"
#include "app/stop.h"
#include "app/tls.h"
#include "app/warn.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/version.h"
#include "cli/cli.h"
#include "gateway/gateway.h"
#include "http/http.h"
#include "manager/manager.h"
#include "media/hold_audio.h"
#include "metrics/metrics.h"
#include "store/embedded/embedded.h"

enum {
    LOG_LOOK_MS = 10,
    LOG_PATIENCE_MS = 1000, /* with a slow reader of the log, at the end */
    ERROR_MAX = 1024,
    APP_IDENTITY_MAX = 255,
};

struct app {
    const struct config *config;
    const struct settings *settings;
    size_t max_connections; /* that fit */
    int status;
    bool is_stopping;
    bool is_drained;
    unsigned stop_signals; /* so far */
    unsigned servers_left; /* to close */

    uv_loop_t loop;
    uv_prepare_t log_flusher;
    uv_timer_t log_timer; /* while the reader of the log is slow */
    struct stop stop;
    struct notify notify;
    uv_signal_t signals[3];

    struct store *store;
    struct tls_client_context *redis_tls; /* NULL: clear text, or no Redis */
    struct metrics *metrics;
    struct lost_calls *lost_calls;
    struct api *api;
    struct gateway *gateway;
    struct hold_audio *hold_audio;
    struct reload *reload;
    struct trusted *trusted;
    struct trusted *pod_allow;
    struct http_server *server;
    struct tls_server *tls; /* NULL: clear text only */
    struct http_server *metrics_server;
    struct manager_static_pod *static_pods;
    struct k8s_config *kube_config; /* both only where pods come from Kubernetes */
    struct k8s_client *kube;
    struct leadership *leadership;
    struct diagnosis_facts diagnosis;
    char identity[APP_IDENTITY_MAX + 1]; /* no other process has it, whatever POD_NAME says */
};

/*
 * Taking down, in the order in which the modules use each other. Every step goes on when the one
 * before says that it is done, and passes over what was never built: a failed start comes this way
 * as well.
 */

static void app_close_handles(void *arg)
{
    struct app *app = arg;

    app->store = NULL;
    uv_close((uv_handle_t *)&app->log_flusher, NULL);
    uv_close((uv_handle_t *)&app->log_timer, NULL);
    stop_close(&app->stop);
    notify_close(&app->notify);
    for (size_t i = 0; i < ARRAY_LEN(app->signals); i++)
        uv_close((uv_handle_t *)&app->signals[i], NULL);
}

static void app_close_store(struct app *app)
{
    if (app->store)
        store_close(app->store, app_close_handles, app);
    else
        app_close_handles(app);
}

static void app_server_closed(void *arg)
{
    struct app *app = arg;

    if (--app->servers_left == 0)
        app_close_store(app);
}

static void app_close_server(struct app *app, struct http_server *server)
{
    if (!server)
        return;
    app->servers_left++;
    http_server_close(server, app_server_closed, app);
}

static void app_close_servers(void *arg)
{
    struct app *app = arg;

    app->kube = NULL;
    if (app->api) {
        api_end_watchers(app->api); /* done already, unless the start has failed */
        api_forget_servers(app->api);
    }
    app->servers_left = 1; /* this function itself, so that there is always a last one */
    app_close_server(app, app->server);
    app_close_server(app, app->metrics_server);
    if (app->tls) {
        app->servers_left++;
        tls_server_close(app->tls, app_server_closed, app);
    }
    app->tls = NULL;
    app->server = NULL;
    app->metrics_server = NULL;
    app_server_closed(app);
}

/* When nobody is connected any more and somebody else may lead: whatever takes longer. */
static void app_close_when_done(struct app *app)
{
    if (app->leadership || !app->is_drained)
        return;
    if (app->kube)
        k8s_client_close(app->kube, app_close_servers, app);
    else
        app_close_servers(app);
}

static void app_lead_stopped(void *arg)
{
    struct app *app = arg;

    app->leadership = NULL;
    app_close_when_done(app);
}

static void app_gateway_stopped(void *arg)
{
    struct app *app = arg;

    app->is_drained = true;
    app_close_when_done(app);
}

/* Before the servers and the store: it holds requests of the one, and releases calls in the other. */
static void app_stop_gateway(void *arg)
{
    struct app *app = arg;

    if (app->gateway)
        gateway_stop(app->gateway, app_gateway_stopped, app);
    else
        app_gateway_stopped(app);
}

static void app_stop(struct app *app, bool is_hasty)
{
    const struct settings *settings = app->settings;
    const struct stop_parts parts = {
        .api = app->api,
        .gateway = app->gateway,
        .server = app->server,
        .tls = app->tls,
        .notify = &app->notify,
        .delay_ms = settings->shutdown_delay_ms,
        .timeout_ms = settings->http_shutdown_timeout_ms,
        .has_stream_timeout = config_is_set(app->config, "GATEWAY_DRAIN_TIMEOUT"),
        .stream_timeout_ms = settings->gateway_drain_timeout_ms,
        .call_max_ms = settings->call_max_duration_ms,
        .release_grace_ms = settings->gateway_release_grace_ms,
        .stopped = app_stop_gateway,
        .stopped_arg = app,
    };

    app->is_stopping = true;
    notify_stopping(&app->notify);
    leadership_stop(app->leadership, app_lead_stopped,
                    app); /* the next leader need not wait for our clients */
    stop_begin(&app->stop, &parts, is_hasty);
}

/* SIGTERM is a rollout's; SIGINT is that of a person who waits. */
static void app_asked_to_stop(struct app *app, int number)
{
    app->stop_signals++;
    if (!app->is_stopping) {
        log_info("stopping", log_num("signal", number));
        app_stop(app, number == SIGINT);
    } else if (app->stop_signals == 2) {
        log_warn("second signal: what is open is cut after HTTP_SHUTDOWN_TIMEOUT", log_num("signal", number));
        stop_hurry(&app->stop);
    } else {
        log_warn(app->stop_signals > 2 ? "third signal: exiting at once" : "signal: exiting at once",
                 log_num("signal", number));
        log_flush();
        _exit(EXIT_FAILED);
    }
}

static void app_signalled(uv_signal_t *signal, int number)
{
    struct app *app = signal->data;

    if (number != SIGHUP)
        app_asked_to_stop(app, number);
    else if (!app->is_stopping)
        reload_run(app->reload);
}

/* Building up. */

static void app_look_at_log(uv_timer_t *timer UNUSED)
{
    /* Nothing to do but to make the loop turn, so that app_flush_log tries again. */
}

static void app_flush_log(uv_prepare_t *prepare)
{
    struct app *app = prepare->data;

    log_flush();
    if (log_is_waiting() && !uv_is_active((uv_handle_t *)&app->log_timer))
        uv_timer_start(&app->log_timer, app_look_at_log, LOG_LOOK_MS, 0);
}

static int app_init_loop(struct app *app)
{
    int err = uv_loop_init(&app->loop);

    if (err < 0) {
        log_error("the event loop cannot start", log_str("error", uv_strerror(err)));
        return err;
    }
    uv_prepare_init(&app->loop, &app->log_flusher);
    app->log_flusher.data = app;
    uv_timer_init(&app->loop, &app->log_timer);
    uv_unref((uv_handle_t *)&app->log_timer);
    uv_prepare_start(&app->log_flusher, app_flush_log);
    stop_init(&app->stop, &app->loop);
    notify_init(&app->notify, &app->loop);
    for (size_t i = 0; i < ARRAY_LEN(app->signals); i++) {
        uv_signal_init(&app->loop, &app->signals[i]);
        app->signals[i].data = app;
    }
    return 0;
}

/* Clients that go away and files at their limit are errors of one write, not of the process. */
static void app_ignore_signals(void)
{
    static const int numbers[] = {SIGPIPE, SIGXFSZ, SIGHUP};

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        signal(numbers[i], SIG_IGN);
}

static int app_catch_signals(struct app *app)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        int err = uv_signal_start(&app->signals[i], app_signalled, numbers[i]);

        if (err < 0) {
            log_error("signals cannot be caught", log_str("error", uv_strerror(err)));
            return err;
        }
    }
    return 0;
}

static int app_open_embedded(struct app *app)
{
    static const enum embedded_fsync modes[] = {
        [CONFIG_FSYNC_ALWAYS] = EMBEDDED_FSYNC_ALWAYS,
        [CONFIG_FSYNC_EVERYSEC] = EMBEDDED_FSYNC_EVERYSEC,
        [CONFIG_FSYNC_NO] = EMBEDDED_FSYNC_NO,
    };
    const struct settings *settings = app->settings;
    const struct embedded_settings embedded = {
        .data_dir = settings->data_dir,
        .fsync = modes[settings->log_fsync],
        .core = app_core_settings(settings),
        .tier_config = settings->tier_config[0] ? settings->tier_config : NULL,
    };
    struct embedded_report report = {0};
    char error[ERROR_MAX] = "";
    int err = embedded_open(&app->loop, &embedded, &app->store, &report, error, sizeof(error));

    if (err < 0) {
        log_error("the store in DATA_DIR cannot be opened",
                  log_str("error", error[0] ? error : strerror(-err)),
                  log_str("data_dir", settings->data_dir));
        return err;
    }
    log_info("store opened", log_str("store", "embedded"), log_str("data_dir", settings->data_dir),
             log_num("replayed_records", (int64_t)report.replayed_records),
             log_num("pods", (int64_t)report.pods), log_num("calls", (int64_t)report.calls),
             log_num("waiting", (int64_t)report.waiting), log_num("duration_ms", (int64_t)report.load_ms));
    return 0;
}

static int app_open_store(struct app *app)
{
    const struct settings *settings = app->settings;

    if (!settings->redis_url[0] && !settings->redis_sentinels[0])
        return app_open_embedded(app);
    return app_open_redis(&app->loop, settings, &app->store, &app->redis_tls);
}

/* check_settings has found nothing wrong with the list, so that only memory can be missing. */
static int app_new_trusted(struct app *app)
{
    char error[ERROR_MAX];

    int err = trusted_new(app->settings->trusted_proxies, &app->trusted, error, sizeof(error));

    return err < 0 ? err
                   : trusted_new(app->settings->pod_address_allow, &app->pod_allow, error, sizeof(error));
}

static int app_new_servers(struct app *app)
{
    const struct settings *settings = app->settings;
    struct http_settings http = {
        .read_timeout_ms = settings->http_read_timeout_ms,
        .write_timeout_ms = settings->http_write_timeout_ms,
        .idle_timeout_ms = settings->http_idle_timeout_ms,
        .max_connections = app->max_connections,
        .max_connections_per_client = (size_t)settings->max_connections_per_client,
        .trusted = app->trusted,
    };
    int err = http_server_new(&app->loop, &http, &app->server);

    if (err < 0)
        return err;
    err = app_new_tls(&app->loop, settings, app->metrics, app->server, &app->tls);
    if (err < 0)
        return err;
    http.max_connections = METRICS_CONNECTIONS_MAX;
    http.max_connections_per_client = 0;
    return http_server_new(&app->loop, &http, &app->metrics_server);
}

/* It was read before, to check the settings: only a file that has changed since then fails here. */
static int app_load_hold_audio(struct app *app)
{
    char error[CLIP_ERROR_MAX];
    int err = hold_audio_new(app->settings->hold_audio, &app->hold_audio, error);

    if (err < 0)
        log_error("HOLD_AUDIO cannot be used", log_str("error", error[0] ? error : strerror(-err)));
    return err;
}

static int app_new_gateway(struct app *app)
{
    const struct settings *settings = app->settings;
    struct store_health health;
    struct gateway_settings gateway = {
        .secret = settings->gateway_secret,
        .agent_port = settings->voice_agent_port,
        .lease_ttl_ms = settings->lease_ttl_ms,
        .ticket_ttl_ms = settings->call_max_duration_ms,
        .release_grace_ms = settings->gateway_release_grace_ms,
        .idle_timeout_ms = settings->gateway_idle_timeout_ms,
        .connect_timeout_ms = settings->gateway_connect_timeout_ms,
        .max_connections = (size_t)settings->gateway_max,
        .streams_per_call = (size_t)settings->gateway_streams_per_call,
        .trusted = app->trusted,
        .pod_allow = app->pod_allow,
        .identity = app->identity,
        .rescues = settings->rescue,
    };
    int err = app_load_hold_audio(app);

    if (err < 0)
        return err;
    gateway.hold_audio = app->hold_audio;
    store_health(app->store, &health);
    gateway.shares_store = health.is_shared;
    err = gateway_new(&app->loop, &gateway, app->store, app->metrics, &app->gateway);
    if (err < 0)
        return err;
    lost_calls_also_tell(app->lost_calls, gateway_call_lost, app->gateway);
    return gateway_serve(app->gateway, app->server);
}

/* A call that this router holds or carries has got a pod, or another one, or its wait has ended. */
static void app_call_changed(void *arg, const char *call_sid)
{
    struct app *app = arg;

    gateway_call_changed(app->gateway, call_sid);
    api_call_changed(app->api, call_sid);
}

_Static_assert((int)API_TICKET_SIZE >= (int)GATEWAY_TICKET_SIZE, "a ticket must fit");

static int app_new_api(struct app *app)
{
    const struct api_settings settings = {
        .base_url = app->settings->voice_agent_base_url,
        .ws_url_template = app->settings->ws_url_template,
        .busy_message = app->settings->busy_message,
        .fallback_ws_url = app->settings->fallback_ws_url,
        .identity = app->identity,
        .loop = &app->loop,
        .trusted = app->trusted,
        .public_base_url = app->settings->public_base_url,
        .rate_limit = app->settings->rate_limit,
        .heartbeat_ttl_ms = app->settings->heartbeat_ttl_ms,
        .scales_sets = app->settings->autoscale_kind == CONFIG_AUTOSCALE_STATEFULSET,
        .rescues = app->settings->rescue,
        .hold_max_wait_ms = app->settings->hold_max_wait_ms,
        .pod_allow = app->pod_allow,
        .make_ticket = app->settings->gateway_secret[0] ? gateway_make_ticket : NULL,
        .make_ticket_arg = app->gateway,
        .put_facts = diagnosis_put_facts,
        .put_facts_arg = &app->diagnosis,
    };
    int err;

    app->diagnosis = (struct diagnosis_facts){.config = app->config, .leadership = &app->leadership};
    err = api_new(&settings, app->store, app->metrics, &app->api);

    if (err < 0)
        return err;
    store_on_changed(app->store, app_call_changed, app);
    err = api_serve(app->api, app->server);
    if (err < 0)
        return err;
    return api_serve_metrics(app->api, app->metrics_server);
}

static int app_new_reload(struct app *app)
{
    const struct reload_parts parts = {
        .config = app->config,
        .api = app->api,
        .gateway = app->gateway,
        .tls = app->tls,
        .redis_tls = app->redis_tls,
        .metrics = app->metrics,
    };

    return reload_new(&parts, &app->reload);
}

static int app_new_kube(struct app *app)
{
    int err;

    if (app->settings->pod_source != CONFIG_PODS_KUBERNETES)
        return 0;
    err = app_find_kube(app->settings, &app->kube_config);
    return err < 0 ? err : k8s_client_new(&app->loop, app->kube_config, &app->kube);
}

static int app_copy_static_pods(struct app *app)
{
    const struct settings *settings = app->settings;

    app->static_pods = calloc(settings->static_pod_count + 1, sizeof(*app->static_pods));
    if (!app->static_pods)
        return -ENOMEM;
    for (size_t i = 0; i < settings->static_pod_count; i++) {
        app->static_pods[i].name = settings->static_pods[i].name;
        app->static_pods[i].address = settings->static_pods[i].address;
    }
    return 0;
}

/* A store of one's own needs no election, and one may be told to lead without asking. */
static enum leadership_election app_election(const struct app *app, bool has_redis)
{
    if (!has_redis || !app->settings->leader_election_enabled)
        return LEADERSHIP_ALWAYS;
    return app->kube ? LEADERSHIP_BY_LEASE : LEADERSHIP_BY_REDIS;
}

static int app_new_lead(struct app *app)
{
    static const enum pod_source sources[] = {
        [CONFIG_PODS_API] = POD_SOURCE_API,
        [CONFIG_PODS_STATIC] = POD_SOURCE_STATIC,
        [CONFIG_PODS_KUBERNETES] = POD_SOURCE_KUBERNETES,
    };
    const struct settings *settings = app->settings;
    bool is_static = settings->pod_source == CONFIG_PODS_STATIC;
    struct store_health health;
    struct leadership_settings leadership;
    int err = app_copy_static_pods(app);

    if (err < 0)
        return err;
    store_health(app->store, &health);
    leadership = (struct leadership_settings){
        .manager = {.source = sources[settings->pod_source],
                    .static_pods = app->static_pods,
                    .static_pod_count = is_static ? settings->static_pod_count : 0,
                    .kube = {.client = app->kube,
                             .namespace_name = settings->namespace_name,
                             .label_selector = settings->pod_label_selector,
                             .agent_container = settings->voice_agent_container,
                             .agent_port = settings->voice_agent_port,
                             .marks_pods = settings->mark_busy_pods},
                    .scales_sets = settings->autoscale_kind == CONFIG_AUTOSCALE_STATEFULSET,
                    .cleanup_interval_ms = settings->cleanup_interval_ms,
                    .reconcile_interval_ms = settings->reconcile_interval_ms},
        .identity = app->identity,
        .key_prefix = settings->key_prefix,
        .lease_namespace = settings->leader_election_namespace,
        .lease_name = settings->leader_election_lock_name,
        .duration_ms = settings->leader_election_duration_ms,
        .renew_deadline_ms = settings->leader_election_renew_deadline_ms,
        .retry_ms = settings->leader_election_retry_period_ms,
        .has_redis = health.is_shared,
    };
    leadership.election = app_election(app, leadership.has_redis);
    return leadership_new(&app->loop, &leadership, app->store, app->metrics, app->api, &app->leadership);
}

static void app_make_identity(struct app *app)
{
    snprintf(app->identity, sizeof(app->identity), "%.200s_%ld_%08x", app->settings->pod_name, (long)getpid(),
             random_u32());
    /* It stands in lists, keys and events: whatever POD_NAME is, letters, digits and . _ - are all it has. */
    for (char *c = app->identity; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '_';
    }
}

static int app_build(struct app *app)
{
    int err = metrics_new(&app->metrics);

    if (err == 0)
        err = lost_calls_new(app->store, app->metrics, &app->lost_calls);
    if (err == 0)
        err = app_new_trusted(app);
    if (err == 0)
        err = app_new_servers(app);
    if (err == 0)
        err = app_new_gateway(app);
    if (err == 0)
        err = app_new_api(app);
    if (err == 0)
        err = app_new_reload(app);
    if (err == 0)
        err = app_new_kube(app);
    if (err == 0)
        err = app_new_lead(app);
    if (err < 0)
        log_error("the router cannot be built", log_str("error", strerror(-err)));
    return err;
}

static int app_start(struct app *app)
{
    int err;

    app_make_identity(app);
    err = app_open_store(app);

    if (err == 0)
        err = store_start_events(app->store, &app->loop, app->identity);
    if (err == 0)
        err = app_catch_signals(app);
    if (err == 0)
        err = app_build(app);
    if (err == 0)
        err = listen_all(app->settings, app->server, app->tls, app->metrics_server);
    if (err < 0)
        return err;
    warn_of_settings(app->config);
    warn_of_exposed_files(app->config);
    /* In the same turn of the loop, so that with a store of its own the first request finds the static pods.
     */
    err = leadership_start(app->leadership);
    if (err == 0)
        notify_ready(&app->notify, http_server_port(app->server));
    return err;
}

int app_run(const struct config *config)
{
    struct app app = {.config = config, .settings = config_settings(config), .status = EXIT_OK};
    int err;

    log_configure((enum log_level)app.settings->log_level, (enum log_format)app.settings->log_format);
    log_info("smart-router starts", log_str("version", SMART_ROUTER_VERSION), log_num("pid", getpid()));
    app_ignore_signals();
    app.max_connections = app_raise_descriptors(app.settings);
    if (app_init_loop(&app) < 0)
        return EXIT_FAILED;
    if (app_start(&app) < 0) {
        app.status = EXIT_FAILED;
        app.is_stopping = true;
        if (app.leadership)
            leadership_stop(app.leadership, app_lead_stopped, &app);
        app_stop_gateway(&app);
    }
    uv_run(&app.loop, UV_RUN_DEFAULT);

    err = uv_loop_close(&app.loop);
    assert(err == 0); /* every handle was closed above */
    reload_free(app.reload);
    api_free(app.api);
    gateway_free(app.gateway);
    hold_audio_free(app.hold_audio);
    trusted_free(app.trusted);
    trusted_free(app.pod_allow);
    lost_calls_free(app.lost_calls);
    metrics_free(app.metrics);
    tls_client_context_free(app.redis_tls);
    free(app.static_pods);
    k8s_config_free(app.kube_config);
    if (app.status == EXIT_OK)
        log_info("stopped");
    log_finish(LOG_PATIENCE_MS);
    return app.status;
}
