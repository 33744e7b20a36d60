/*
 * tunnel.c - copies bytes between the client's and the pod's socket until both have closed or are
 * idle.
 */
#include "gateway/tunnel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { TUNNEL_MAGIC = 0x74756e6c, KEEPALIVE_S = 30 };

/* One socket, and what waits to be written to it. */
struct tunnel_side {
    struct tunnel *tunnel;
    struct tunnel_side *other;
    uv_tcp_t *tcp; /* NULL once closed */
    int fd;
    struct metrics_series *total; /* of bytes that go to this side, in all tunnels */
    uint64_t bytes;               /* in this one */
    char *pending;                /* what the kernel did not take; NULL: nothing */
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool has_ended; /* sends nothing more */
    bool is_shut;   /* nothing more is sent to it */
    bool is_shutting;
};

struct tunnel {
    unsigned magic;
    struct tunnel_settings settings;
    struct tunnel_side client;
    struct tunnel_side pod;
    uv_timer_t idle;
    uint64_t started_ms; /* uv_now, as all times here */
    uint64_t active_ms;
    uint64_t client_ms; /* the client was heard, or could not be */
    unsigned handles;   /* that must close before it is freed */
    bool is_closing;
    bool pod_broke;
    bool has_end;
    enum tunnel_end end;
    tunnel_ended_fn ended;
    void *arg;
};

const char *tunnel_end_name(enum tunnel_end end)
{
    static const char *const names[TUNNEL_ENDS] = {
        [TUNNEL_CLOSED_BY_CLIENT] = "client_closed",
        [TUNNEL_CLOSED_BY_POD] = "pod_closed",
        [TUNNEL_CLIENT_FAILED] = "client_failed",
        [TUNNEL_POD_FAILED] = "pod_failed",
        [TUNNEL_IDLE] = "idle",
        [TUNNEL_CUT] = "cut",
        [TUNNEL_OVER] = "call_over",
        [TUNNEL_REPLACED] = "replaced",
    };

    assert(end < TUNNEL_ENDS);
    return names[end];
}

static void tunnel_note_end(struct tunnel *tunnel, enum tunnel_end end)
{
    if (!tunnel->has_end)
        tunnel->end = end;
    tunnel->has_end = true;
}

static void tunnel_lost_handle(struct tunnel *tunnel)
{
    struct tunnel_report report;
    tunnel_ended_fn ended = tunnel->ended;
    void *arg = tunnel->arg;

    assert(tunnel->handles > 0);
    if (--tunnel->handles > 0)
        return;
    report = (struct tunnel_report){.end = tunnel->end,
                                    .to_pod_bytes = tunnel->pod.bytes,
                                    .to_client_bytes = tunnel->client.bytes,
                                    .duration_ms = uv_now(tunnel->settings.loop) - tunnel->started_ms,
                                    .pod_broke = tunnel->pod_broke};
    free(tunnel->client.pending);
    free(tunnel->pod.pending);
    tunnel->magic = 0;
    free(tunnel);
    ended(arg, &report);
}

static void tunnel_socket_closed(uv_handle_t *handle)
{
    struct tunnel_side *side = handle->data;

    MAGIC_CHECK(side->tunnel, TUNNEL_MAGIC);
    side->tcp = NULL;
    free(handle);
    tunnel_lost_handle(side->tunnel);
}

static void tunnel_timer_closed(uv_handle_t *handle)
{
    tunnel_lost_handle(handle->data);
}

static void tunnel_close(struct tunnel *tunnel, enum tunnel_end end)
{
    tunnel_note_end(tunnel, end);
    if (tunnel->is_closing)
        return;
    tunnel->is_closing = true;
    uv_close((uv_handle_t *)tunnel->client.tcp, tunnel_socket_closed);
    uv_close((uv_handle_t *)tunnel->pod.tcp, tunnel_socket_closed);
    uv_close((uv_handle_t *)&tunnel->idle, tunnel_timer_closed);
}

bool tunnel_client_has_ended(const struct tunnel *tunnel)
{
    MAGIC_CHECK(tunnel, TUNNEL_MAGIC);
    return tunnel->is_closing || tunnel->client.has_ended;
}

uint64_t tunnel_client_silence_ms(const struct tunnel *tunnel)
{
    MAGIC_CHECK(tunnel, TUNNEL_MAGIC);
    if (tunnel->client.has_ended)
        return UINT64_MAX;
    /* While the pod does not take what it has, nobody listens to the client. */
    return tunnel->pod.pending ? 0 : uv_now(tunnel->settings.loop) - tunnel->client_ms;
}

bool tunnel_is_closing(const struct tunnel *tunnel)
{
    MAGIC_CHECK(tunnel, TUNNEL_MAGIC);
    return tunnel->is_closing;
}

void tunnel_cut(struct tunnel *tunnel, enum tunnel_end end)
{
    MAGIC_CHECK(tunnel, TUNNEL_MAGIC);
    tunnel_close(tunnel, end);
}

static void tunnel_close_if_done(struct tunnel *tunnel)
{
    if (tunnel->client.is_shut && tunnel->pod.is_shut)
        tunnel_close(tunnel, tunnel->end);
}

static void side_shut(uv_shutdown_t *shutdown, int status UNUSED)
{
    struct tunnel_side *side = CONTAINER_OF(shutdown, struct tunnel_side, shutdown);

    MAGIC_CHECK(side->tunnel, TUNNEL_MAGIC);
    /* Whether it worked or not: nothing more can be sent. */
    side->is_shut = true;
    if (!side->tunnel->is_closing)
        tunnel_close_if_done(side->tunnel);
}

/* Nothing more comes for this side: tells it so once it has all that waits. */
static void side_finish(struct tunnel_side *side)
{
    if (side->is_shut || side->is_shutting || side->tunnel->is_closing)
        return;
    side->is_shutting = true;
    if (uv_shutdown(&side->shutdown, (uv_stream_t *)side->tcp, side_shut))
        side_shut(&side->shutdown, 0);
}

static bool side_is_client(const struct tunnel_side *side)
{
    return side == &side->tunnel->client;
}

/* The socket is broken. What it has sent still goes to the other side, and then both are closed. */
static void side_failed(struct tunnel_side *side)
{
    struct tunnel *tunnel = side->tunnel;

    if (tunnel->is_closing)
        return;
    tunnel_note_end(tunnel, side_is_client(side) ? TUNNEL_CLIENT_FAILED : TUNNEL_POD_FAILED);
    tunnel->pod_broke |= !side_is_client(side);
    (void)uv_read_stop((uv_stream_t *)side->tcp);
    (void)uv_read_stop((uv_stream_t *)side->other->tcp);
    side->has_ended = true;
    side->other->has_ended = true;
    side->is_shut = true;
    side_finish(side->other);
    tunnel_close_if_done(tunnel);
}

static void side_read_on(struct tunnel_side *side);

static void side_written(uv_write_t *write, int status)
{
    struct tunnel_side *side = CONTAINER_OF(write, struct tunnel_side, write);
    struct tunnel *tunnel = side->tunnel;

    MAGIC_CHECK(side->tunnel, TUNNEL_MAGIC);
    free(TAKE(side->pending));
    if (tunnel->is_closing)
        return;
    if (status < 0) {
        side_failed(side);
        return;
    }
    tunnel->active_ms = uv_now(tunnel->settings.loop);
    if (!side_is_client(side))
        tunnel->client_ms = tunnel->active_ms;
    if (!side->other->has_ended)
        side_read_on(side->other);
}

/* Sends now what the kernel takes, and keeps the rest. False: the side failed. */
static bool side_send(struct tunnel_side *side, const char *data, size_t len)
{
    ssize_t taken;
    uv_buf_t rest;

    assert(!side->pending);
    side->bytes += len;
    metrics_add(side->total, (double)len);
    /* As uv_try_write, but send() spares what write() does for files. Nothing waits in libuv's queue. */
    taken = send(side->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken == (ssize_t)len)
        return true;
    if (taken < 0 && errno != EAGAIN && errno != EINTR) {
        side_failed(side);
        return false;
    }
    if (taken < 0)
        taken = 0;
    len -= (size_t)taken;
    side->pending = malloc(len);
    if (!side->pending) {
        side_failed(side);
        return false;
    }
    memcpy(side->pending, data + taken, len);
    rest = uv_buf_init(side->pending, (unsigned)len);
    if (uv_write(&side->write, (uv_stream_t *)side->tcp, &rest, 1, side_written)) {
        free(TAKE(side->pending));
        side_failed(side);
        return false;
    }
    return true;
}

static void side_alloc(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *ret_buf)
{
    struct tunnel_side *side = handle->data;

    MAGIC_CHECK(side->tunnel, TUNNEL_MAGIC);
    *ret_buf = uv_buf_init(side->tunnel->settings.scratch, TUNNEL_BUFFER);
}

static void side_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct tunnel_side *side = stream->data;
    struct tunnel *tunnel = side->tunnel;

    MAGIC_CHECK(tunnel, TUNNEL_MAGIC);
    if (count == 0)
        return;
    if (count == UV_EOF) {
        tunnel_note_end(tunnel, side_is_client(side) ? TUNNEL_CLOSED_BY_CLIENT : TUNNEL_CLOSED_BY_POD);
        side->has_ended = true;
        (void)uv_read_stop(stream);
        side_finish(side->other);
        return;
    }
    if (count < 0) {
        side_failed(side);
        return;
    }
    tunnel->active_ms = uv_now(tunnel->settings.loop);
    if (side_is_client(side))
        tunnel->client_ms = tunnel->active_ms;
    if (side_send(side->other, buf->base, (size_t)count) && side->other->pending)
        (void)uv_read_stop(stream);
}

static void side_read_on(struct tunnel_side *side)
{
    if (uv_read_start((uv_stream_t *)side->tcp, side_alloc, side_read))
        side_failed(side);
}

static void tunnel_await(struct tunnel *tunnel);

/* The timer is not moved by every byte: when it fires it looks how long it has really been quiet. */
static void tunnel_looked(uv_timer_t *timer)
{
    struct tunnel *tunnel = timer->data;

    if (uv_now(tunnel->settings.loop) - tunnel->active_ms >= tunnel->settings.idle_timeout_ms)
        tunnel_close(tunnel, TUNNEL_IDLE);
    else
        tunnel_await(tunnel);
}

static void tunnel_await(struct tunnel *tunnel)
{
    uint64_t quiet_ms = uv_now(tunnel->settings.loop) - tunnel->active_ms;

    (void)uv_timer_start(&tunnel->idle, tunnel_looked, tunnel->settings.idle_timeout_ms - quiet_ms, 0);
}

/*
 * A peer that vanished while it is being written to is not quiet, because writing goes on: the kernel gives
 * up on it after the same time without an acknowledgement.
 */
static void side_init(struct tunnel *tunnel, struct tunnel_side *side, struct tunnel_side *other,
                      uv_tcp_t *tcp, struct metrics_series *total)
{
    unsigned patience_ms = (unsigned)min_u64(tunnel->settings.idle_timeout_ms, INT32_MAX);
    int err;

    side->tunnel = tunnel;
    side->other = other;
    side->tcp = tcp;
    side->total = total;
    tcp->data = side;
    err = uv_fileno((uv_handle_t *)tcp, &side->fd);
    assert(err == 0);
    (void)uv_tcp_nodelay(tcp, 1);
    (void)uv_tcp_keepalive(tcp, 1, KEEPALIVE_S);
    (void)setsockopt(side->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof(patience_ms));
}

static void side_begin(struct tunnel_side *side, struct slice ahead)
{
    if (side->tunnel->is_closing || side->has_ended)
        return;
    if (ahead.len > 0 && !side_send(side->other, ahead.data, ahead.len))
        return;
    if (!side->other->pending)
        side_read_on(side);
}

int tunnel_start(const struct tunnel_settings *settings, uv_tcp_t *client, uv_tcp_t *pod,
                 struct slice to_client, struct slice to_pod, tunnel_ended_fn ended, void *arg,
                 struct tunnel **ret_tunnel)
{
    struct tunnel *tunnel = calloc(1, sizeof(*tunnel));
    int err;

    if (!tunnel)
        return -ENOMEM;
    tunnel->magic = TUNNEL_MAGIC;
    tunnel->settings = *settings;
    tunnel->ended = ended;
    tunnel->arg = arg;
    tunnel->handles = 3;
    err = uv_timer_init(settings->loop, &tunnel->idle);
    assert(err == 0); /* it never fails */
    tunnel->idle.data = tunnel;
    tunnel->started_ms = uv_now(settings->loop);
    tunnel->active_ms = tunnel->started_ms;
    tunnel->client_ms = tunnel->started_ms;
    side_init(tunnel, &tunnel->client, &tunnel->pod, client, settings->to_client);
    side_init(tunnel, &tunnel->pod, &tunnel->client, pod, settings->to_pod);
    tunnel_await(tunnel);
    side_begin(&tunnel->pod, to_client);
    side_begin(&tunnel->client, to_pod);
    *ret_tunnel = tunnel;
    return 0;
}
