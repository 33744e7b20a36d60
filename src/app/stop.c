/*
 * stop.c - the phases of a stop, driven by a timer that looks at the connections that are left.
 */
#include "app/stop.h"

#include "base/log.h"

enum {
    STOP_LOOK_MS = 10,
    STOP_LOOK_AT_STREAMS_MS = 100, /* they may take hours */
    STOP_LOG_MS = 30 * 1000,
    STOP_HANDSHAKES_MS = 2000,
    STOP_DEPART_MS = 1000,  /* for streams to close, once they were told to */
    STOP_RELEASE_MS = 2000, /* for the store to answer, after the grace of a call is over */
};

static void stop_look(uv_timer_t *timer);

static uint64_t stop_now(const struct stop *stop)
{
    return uv_now(stop->timer.loop);
}

/*
 * Whether another router is alive is not asked once only: one that is just being replaced as well may be away
 * for a moment, and that is no reason to cut calls.
 */
static uint64_t stop_streams_until(struct stop *stop)
{
    const struct stop_parts *parts = &stop->parts;
    uint64_t timeout_ms;

    if (stop->is_hasty)
        return stop->requests_until_ms;
    if (stop->departs_at_once)
        return stop->drain_since_ms;
    if (gateway_others(parts->gateway) > 0)
        stop->has_seen_others = true;
    timeout_ms = parts->has_stream_timeout ? parts->stream_timeout_ms
                 : stop->has_seen_others   ? parts->call_max_ms
                                           : 0;
    return stop->drain_since_ms + max_u64(timeout_ms, parts->timeout_ms);
}

static void stop_drain(struct stop *stop)
{
    const struct stop_parts *parts = &stop->parts;

    stop->phase = STOP_DRAINING;
    stop->drain_since_ms = stop_now(stop);
    stop->requests_until_ms = stop->drain_since_ms + parts->timeout_ms;
    stop->log_at_ms = stop->drain_since_ms;
    api_end_watchers(parts->api);
    gateway_drain(parts->gateway);
    http_server_drain(parts->server);
    if (parts->tls)
        tls_server_drain(parts->tls);
}

static void stop_log_streams(struct stop *stop, size_t streams, uint64_t until_ms)
{
    uint64_t now_ms = stop_now(stop);

    if (now_ms < stop->log_at_ms)
        return;
    stop->log_at_ms = now_ms + STOP_LOG_MS;
    notify_streams(stop->parts.notify, streams, (until_ms - now_ms) / 1000);
    log_info("stopping: streams are still open", log_num("connections", (int64_t)streams),
             log_num("cut_after_seconds", (int64_t)((until_ms - now_ms) / 1000)));
}

/* True: no request is left. */
static bool stop_finish_requests(struct stop *stop)
{
    size_t connections = http_server_connections(stop->parts.server);

    if (connections == 0)
        return true;
    if (stop_now(stop) < stop->requests_until_ms)
        return false;
    if (!stop->is_cut)
        log_warn("connections cut at the shutdown timeout", log_num("connections", (int64_t)connections));
    stop->is_cut = true;
    http_server_cut(stop->parts.server);
    return true; /* what is cut closes in a moment, and nobody waits for it */
}

/* True: no stream is left, or no time for those that are. */
static bool stop_finish_streams(struct stop *stop)
{
    size_t streams = gateway_connections(stop->parts.gateway);
    uint64_t until_ms = stop_streams_until(stop);

    if (streams == 0)
        return true;
    /* It may be that others are alive of whom this router has not heard yet. */
    if (!stop->is_hasty && gateway_is_looking_for_others(stop->parts.gateway))
        return false;
    if (stop_now(stop) >= until_ms)
        return true;
    stop_log_streams(stop, streams, until_ms);
    return false;
}

/* A call that closed a moment ago may come back to another router: released at once, it could not. */
static bool stop_awaits_calls(struct stop *stop)
{
    const struct stop_parts *parts = &stop->parts;
    uint64_t until_ms = stop->empty_since_ms + parts->release_grace_ms + STOP_RELEASE_MS;

    if (stop->is_hasty || gateway_returning_calls(parts->gateway) == 0)
        return false;
    if (gateway_is_looking_for_others(parts->gateway))
        return true;
    until_ms = min_u64(until_ms, stop_streams_until(stop)); /* which also notes whether there are others */
    return stop->has_seen_others && stop_now(stop) < until_ms;
}

/* What was sent to clients may still have to be encrypted and taken by them. */
static bool stop_awaits_tls(const struct stop *stop)
{
    const struct stop_parts *parts = &stop->parts;
    uint64_t until_ms = stop->requests_until_ms;

    if (!stop->is_hasty)
        until_ms = max_u64(until_ms, stop->empty_since_ms + parts->timeout_ms);
    return parts->tls && tls_server_connections(parts->tls) > 0 && stop_now(stop) < until_ms;
}

/* Nobody is connected. Is that all? */
static bool stop_is_settled(struct stop *stop)
{
    if (stop->empty_since_ms == 0)
        stop->empty_since_ms = stop_now(stop);
    return !stop_awaits_calls(stop) && !stop_awaits_tls(stop);
}

/* Whoever has connected to the TLS port before it closed is answered as well; but first comes the handshake.
 */
static bool stop_awaits_handshakes(struct stop *stop)
{
    struct tls_server *tls = stop->parts.tls;

    if (!tls || stop->is_hasty)
        return false;
    if (stop->handshakes_until_ms == 0) {
        tls_server_leave(tls);
        stop->handshakes_until_ms = stop_now(stop) + STOP_HANDSHAKES_MS;
    }
    return tls_server_handshakes(tls) > 0 && stop_now(stop) < stop->handshakes_until_ms;
}

/* True: the calls of streams that are left may come back, and their streams are closed, or take too long. */
static bool stop_has_departed(struct stop *stop)
{
    struct gateway *gateway = stop->parts.gateway;

    if (gateway_connections(gateway) == 0)
        return true;
    if (stop->phase != STOP_DEPARTING) {
        stop->phase = STOP_DEPARTING;
        stop->depart_until_ms = stop_now(stop) + STOP_DEPART_MS;
        gateway_depart(gateway, NULL);
        uv_timer_set_repeat(&stop->timer, STOP_LOOK_MS);
        return false;
    }
    if (gateway_is_departing(gateway)) {
        stop->depart_until_ms = stop_now(stop) + STOP_DEPART_MS; /* the store has its own limit */
        return false;
    }
    return stop_now(stop) >= stop->depart_until_ms;
}

static void stop_look(uv_timer_t *timer)
{
    struct stop *stop = timer->data;
    bool has_requests, has_streams;

    if (stop->phase == STOP_DELAY && (stop_now(stop) < stop->delay_until_ms || stop_awaits_handshakes(stop)))
        return;
    if (stop->phase == STOP_DELAY)
        stop_drain(stop);
    has_requests = !stop_finish_requests(stop);
    has_streams = stop->phase != STOP_DEPARTING && !stop_finish_streams(stop);
    if (!has_requests && has_streams)
        uv_timer_set_repeat(timer, STOP_LOOK_AT_STREAMS_MS);
    if (has_requests || has_streams) {
        stop->empty_since_ms = 0;
        return;
    }
    if (!stop_has_departed(stop))
        return;
    if (gateway_connections(stop->parts.gateway) == 0 && !stop_is_settled(stop))
        return;
    stop->phase = STOP_DONE;
    uv_timer_stop(timer);
    stop->parts.stopped(stop->parts.stopped_arg);
}

void stop_init(struct stop *stop, uv_loop_t *loop)
{
    *stop = (struct stop){.phase = STOP_NOT_YET};
    (void)uv_timer_init(loop, &stop->timer);
    stop->timer.data = stop;
}

void stop_begin(struct stop *stop, const struct stop_parts *parts, bool is_hasty)
{
    assert(stop->phase == STOP_NOT_YET);
    stop->parts = *parts;
    stop->phase = STOP_DELAY;
    stop->is_hasty = is_hasty;
    stop->delay_until_ms = stop_now(stop) + (is_hasty ? 0 : parts->delay_ms);
    api_set_stopping(parts->api);
    http_server_leave(parts->server);
    gateway_look_for_others(parts->gateway);
    stop->departs_at_once = !gateway_shares_store(parts->gateway) && api_resumes(parts->api) &&
                            !(parts->has_stream_timeout && parts->stream_timeout_ms > 0);
    if (stop->departs_at_once && !is_hasty) {
        api_set_departing(parts->api, parts->delay_ms);
        gateway_depart(parts->gateway, api_provider_asks);
    }
    uv_timer_start(&stop->timer, stop_look, 0, STOP_LOOK_MS);
}

void stop_hurry(struct stop *stop)
{
    if (stop->phase != STOP_DELAY && stop->phase != STOP_DRAINING)
        return;
    stop->is_hasty = true;
    stop->delay_until_ms = 0;
    stop->requests_until_ms = stop_now(stop) + stop->parts.timeout_ms;
    uv_timer_set_repeat(&stop->timer, STOP_LOOK_MS);
}

void stop_close(struct stop *stop)
{
    uv_close((uv_handle_t *)&stop->timer, NULL);
}
