/*
 * gateway.c - builds the gateway, adds its routes, keeps its secrets, makes tickets, and stops it.
 */
#include "gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gateway/gateway_internal.h"
#include "gateway/ticket.h"

enum { GATEWAY_WORDS_MAX = 64 * 1024 };

_Static_assert((int)GATEWAY_TICKET_SIZE > (int)TICKET_MAX, "a ticket must fit");

/* Splits it at commas. The number of secrets, or -EINVAL: too many, or an empty one. */
static int split_secret(const char *text, struct slice secrets[GATEWAY_SECRETS_MAX])
{
    int count = 0;

    if (!text[0])
        return 0;
    if (strlen(text) > GATEWAY_SECRET_MAX)
        return -EINVAL;
    for (;;) {
        size_t len = strcspn(text, ",");

        if (len == 0 || count == GATEWAY_SECRETS_MAX)
            return -EINVAL;
        secrets[count++] = (struct slice){text, len};
        if (!text[len])
            return count;
        text += len + 1;
    }
}

bool gateway_check_secret(const char *secret, char *error, size_t error_size)
{
    struct slice secrets[GATEWAY_SECRETS_MAX];

    if (split_secret(secret, secrets) >= 0)
        return true;
    snprintf(error, error_size, "must be one secret, or two that are separated by a comma");
    return false;
}

/* 0 or -EINVAL. */
static int gateway_take_secret(struct gateway *gateway, const char *secret)
{
    int count = split_secret(secret, gateway->secrets);

    if (count < 0)
        return count;
    memset(gateway->secret_text, 0, sizeof(gateway->secret_text)); /* a shorter one leaves nothing behind */
    memcpy(gateway->secret_text, secret, strlen(secret));
    gateway->secret_count = (size_t)split_secret(gateway->secret_text, gateway->secrets);
    return 0;
}

int gateway_set_secret(struct gateway *gateway, const char *secret)
{
    struct slice secrets[GATEWAY_SECRETS_MAX];

    if (split_secret(secret, secrets) < 0 || (secret[0] != '\0') != (gateway->secret_count > 0))
        return -EINVAL;
    return gateway_take_secret(gateway, secret);
}

static void gateway_call_finished(void *arg, struct held_call *call)
{
    stream_cut_call(arg, call);
}

static void gateway_call_has_moved(void *arg, struct held_call *call, const char *pod)
{
    stream_move_call(arg, call, pod);
}

static void gateway_call_waits(void *arg, struct held_call *call, const struct waiting_call *waiting)
{
    stream_hold_call(arg, call, waiting);
}

static void gateway_call_ended(void *arg, const char *call_sid)
{
    struct gateway *gateway = arg;

    if (!gateway->calls)
        return;
    /* Where others share the store the word takes a moment, and meanwhile the call may have begun anew. */
    if (gateway->settings.shares_store)
        calls_may_have_ended(gateway->calls, call_sid);
    else
        calls_ended(gateway->calls, call_sid);
}

void gateway_call_lost(void *arg, const char *call_sid)
{
    struct gateway *gateway = arg;

    if (gateway->calls)
        calls_lost(gateway->calls, call_sid);
}

void gateway_call_changed(struct gateway *gateway, const char *call_sid)
{
    if (gateway->calls)
        calls_changed(gateway->calls, call_sid);
    if (gateway->waits)
        waits_changed(gateway->waits, call_sid);
}

static void gateway_store_is_back(void *arg)
{
    struct gateway *gateway = arg;

    if (!gateway->calls || gateway->is_stopping_calls)
        return;
    calls_renew_now(gateway->calls);
    waits_keep_now(gateway->waits);
    stream_retry_all(gateway);
}

int gateway_new(uv_loop_t *loop, const struct gateway_settings *settings, struct store *store,
                struct metrics *metrics, struct gateway **ret_gateway)
{
    struct gateway *gateway = calloc(1, sizeof(*gateway));
    const struct calls_settings calls = {.lease_ttl_ms = settings->lease_ttl_ms,
                                         .release_grace_ms = settings->release_grace_ms,
                                         .carrier = settings->identity,
                                         .on_finished = gateway_call_finished,
                                         .on_moved = gateway_call_has_moved,
                                         .on_waiting = gateway_call_waits,
                                         .arg = gateway};
    const struct waits_settings waits = {.carrier = settings->identity,
                                         .release_grace_ms = settings->release_grace_ms,
                                         .on_news = stream_told_of_wait};
    int err;

    assert(settings->connect_timeout_ms > 0 && settings->idle_timeout_ms > 0 &&
           settings->streams_per_call > 0);
    if (!gateway)
        return -ENOMEM;
    gateway->loop = loop;
    gateway->settings = *settings;
    list_init(&gateway->openings);
    list_init(&gateway->streams);
    list_init(&gateway->probes);
    list_init(&gateway->resting);
    arena_init(&gateway->words, GATEWAY_WORDS_MAX);
    err = gateway_take_secret(gateway, settings->secret);
    if (err == 0)
        err = asker_init(&gateway->asker, store, metrics);
    if (err == 0)
        err = gateway_count_in(&gateway->metrics, metrics);
    if (err == 0)
        err = calls_new(loop, &calls, &gateway->asker, metrics, &gateway->calls);
    if (err == 0)
        err = waits_new(loop, &waits, &gateway->asker, metrics, &gateway->waits);
    if (err < 0) {
        free(gateway);
        return err;
    }
    (void)uv_timer_init(loop, &gateway->rest_timer);
    gateway->rest_timer.data = gateway;
    depart_init(gateway);
    store_on_finished(store, gateway_call_ended, gateway);
    store_on_back(store, gateway_store_is_back, gateway);
    if (settings->shares_store)
        presence_start(&gateway->presence, loop, gateway->settings.identity, &gateway->asker);
    *ret_gateway = gateway;
    return 0;
}

struct gateway *gateway_free(struct gateway *gateway)
{
    if (!gateway)
        return NULL;
    assert(!gateway->calls && gateway->opening_count == 0 && gateway->stream_count == 0 &&
           gateway->probe_count == 0);
    explicit_bzero(gateway->secret_text, sizeof(gateway->secret_text));
    arena_release(&gateway->words);
    arena_release(&gateway->departure.arena);
    free(gateway);
    return NULL;
}

static void gateway_asked(struct http_request *request, void *arg)
{
    opening_start(arg, request, false);
}

static void gateway_asked_to_hold(struct http_request *request, void *arg)
{
    opening_start(arg, request, true);
}

#define POD_IN_PATH                                                                                          \
    {                                                                                                        \
        "pod", ROUTE_IN_PATH, ROUTE_TEXT, true, "pod"                                                        \
    }

static const struct route_param pod_params[] = {POD_IN_PATH, {.name = NULL}};
/* The rest is the ticket, if tickets are used, and the path that the pod is asked for. */
static const struct route_param path_params[] = {
    POD_IN_PATH, {"rest", ROUTE_IN_PATH, ROUTE_TEXT, true}, {.name = NULL}};

static const struct route_param ticket_params[] = {{"ticket", ROUTE_IN_PATH, ROUTE_TEXT, true},
                                                   {.name = NULL}};
static const struct route_param ticket_path_params[] = {
    {"ticket", ROUTE_IN_PATH, ROUTE_TEXT, true}, {"rest", ROUTE_IN_PATH, ROUTE_TEXT, true}, {.name = NULL}};

static const struct http_route gateway_routes[] = {
    {"GET", "/ws/pod/{pod}", gateway_asked, ROUTE_BY_TICKET, .log = ROUTE_LOG_BY_MODULE,
     .summary = "Opens a WebSocket of a call to its pod", .params = pod_params},
    {"GET", "/ws/pod/{pod}/{rest...}", gateway_asked, ROUTE_BY_TICKET, .log = ROUTE_LOG_BY_MODULE,
     .summary = "Opens a WebSocket of a call to its pod", .params = path_params},
    {"GET", "/ws/hold/{ticket}", gateway_asked_to_hold, ROUTE_BY_TICKET, .log = ROUTE_LOG_BY_MODULE,
     .summary = "Opens a WebSocket of a call that waits for a pod", .params = ticket_params},
    {"GET", "/ws/hold/{ticket}/{rest...}", gateway_asked_to_hold, ROUTE_BY_TICKET, .log = ROUTE_LOG_BY_MODULE,
     .summary = "Opens a WebSocket of a call that waits for a pod", .params = ticket_path_params},
};

int gateway_serve(struct gateway *gateway, struct http_server *server)
{
    int err = 0;

    for (size_t i = 0; i < ARRAY_LEN(gateway_routes) && err == 0; i++)
        err = http_server_route(server, &gateway_routes[i], gateway);
    return err;
}

void gateway_make_ticket(void *arg, const char *call_sid, const char *pod, struct slice path,
                         char ticket[GATEWAY_TICKET_SIZE])
{
    const struct gateway *gateway = arg;
    uint64_t expiry_ms = clock_wall_ms() + gateway->settings.ticket_ttl_ms;
    const struct ticket_use use = {.purpose = pod[0] ? TICKET_STREAM : TICKET_HOLD, .pod = pod, .path = path};

    /* Without memory, or with a path that nobody can ask for, there is no ticket; the gateway refuses it. */
    if (gateway->secret_count == 0 ||
        ticket_make(gateway->secrets[0], call_sid, &use, expiry_ms / 1000, ticket) < 0)
        ticket[0] = '\0';
}

struct connect_target gateway_target(const struct gateway *gateway, const char *address,
                                     enum pod_source source)
{
    return (struct connect_target){
        .address = address,
        .allow = gateway->settings.pod_allow,
        .timeout_ms = gateway->settings.connect_timeout_ms,
        .default_port = gateway->settings.agent_port,
        .is_guarded = source == POD_SOURCE_API, /* the others are where the operator has put them */
    };
}

size_t gateway_connections(const struct gateway *gateway)
{
    return gateway->stream_count;
}

bool gateway_shares_store(const struct gateway *gateway)
{
    return gateway->settings.shares_store;
}

size_t gateway_returning_calls(const struct gateway *gateway)
{
    return gateway_shares_store(gateway) ? calls_count(gateway->calls) : 0;
}

void gateway_look_for_others(struct gateway *gateway)
{
    if (gateway_shares_store(gateway))
        presence_renew(&gateway->presence);
}

bool gateway_is_looking_for_others(const struct gateway *gateway)
{
    return gateway_shares_store(gateway) && presence_is_asking(&gateway->presence);
}

uint64_t gateway_others(const struct gateway *gateway)
{
    return gateway_shares_store(gateway) ? presence_others(&gateway->presence) : 0;
}

void gateway_drain(struct gateway *gateway)
{
    gateway->is_draining = true;
}

static void gateway_timer_closed(uv_handle_t *handle)
{
    struct gateway *gateway = handle->data;

    if (--gateway->timers > 0)
        return;
    /* The last word: what is not open here any more may be released by others. */
    if (gateway_shares_store(gateway))
        presence_stop(&gateway->presence, gateway->stopped, gateway->stopped_arg);
    else
        gateway->stopped(gateway->stopped_arg);
}

static void gateway_waits_stopped(void *arg)
{
    struct gateway *gateway = arg;

    gateway->waits = NULL;
    gateway->timers = 2;
    uv_close((uv_handle_t *)&gateway->rest_timer, gateway_timer_closed);
    uv_close((uv_handle_t *)&gateway->departure.timer, gateway_timer_closed);
}

static void gateway_calls_stopped(void *arg)
{
    struct gateway *gateway = arg;

    gateway->calls = NULL;
    waits_stop(gateway->waits, gateway_waits_stopped, gateway);
}

void gateway_lost_one(struct gateway *gateway)
{
    if (!gateway->is_stopping || gateway->is_stopping_calls || gateway->opening_count > 0 ||
        gateway->stream_count > 0 || gateway->probe_count > 0 || gateway->departure.is_asking)
        return;
    gateway->is_stopping_calls = true;
    calls_stop(gateway->calls, gateway_calls_stopped, gateway);
}

void gateway_stop(struct gateway *gateway, void (*stopped)(void *arg), void *arg)
{
    assert(!gateway->is_stopping);
    gateway->is_stopping = true;
    gateway->stopped = stopped;
    gateway->stopped_arg = arg;
    calls_leave(gateway->calls);
    LIST_FOR_EACH (link, &gateway->openings) {
        opening_abort(opening_of(link));
    }
    stream_cut_all(gateway);
    probe_cancel_all(gateway);
    gateway_lost_one(gateway);
}
