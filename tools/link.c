/*
 * link.c - connects, reads, writes and closes one TCP connection.
 */
#include "link.h"

#include <netinet/tcp.h>
#include <stdlib.h>

/*
 * Frames are small and seldom: nothing is gained by waiting for more, nor by a congestion control that paces,
 * which sets a timer for each of them.
 */
static void link_tune(struct link *link)
{
    static const char control[] = "reno";

    uv_tcp_nodelay(&link->tcp, 1);
    if (uv_fileno((const uv_handle_t *)&link->tcp, &link->fd) == 0)
        (void)setsockopt(link->fd, IPPROTO_TCP, TCP_CONGESTION, control, sizeof(control) - 1);
}

static struct link *link_of(void *handle)
{
    return CONTAINER_OF(handle, struct link, tcp);
}

static void link_end(struct link *link, int err)
{
    if (link->has_ended || link_is_closing(link))
        return;
    link->has_ended = true;
    link_read_stop(link);
    link->ops->ended(link, err);
}

static void link_on_alloc(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *buf)
{
    struct link *link = link_of(handle);

    *buf = uv_buf_init(link->net->buffer, sizeof(link->net->buffer));
}

static void link_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct link *link = link_of(stream);

    if (n > 0)
        link->ops->data(link, buf->base, (size_t)n);
    else if (n < 0)
        link_end(link, n == UV_EOF ? 0 : (int)n);
}

void link_read_start(struct link *link)
{
    if (link->is_reading || link->has_ended || link_is_closing(link))
        return;
    link->is_reading = uv_read_start((uv_stream_t *)&link->tcp, link_on_alloc, link_on_read) == 0;
}

void link_read_stop(struct link *link)
{
    if (!link->is_reading)
        return;
    link->is_reading = false;
    uv_read_stop((uv_stream_t *)&link->tcp);
}

static void link_on_connect(uv_connect_t *connect, int status)
{
    struct link *link = CONTAINER_OF(connect, struct link, connect);

    if (link_is_closing(link))
        return;
    if (status != 0) {
        link_end(link, status);
        return;
    }
    link_tune(link);
    link_read_start(link);
    link->ops->connected(link);
}

static void link_init(struct link *link, struct net *net, const struct link_ops *ops)
{
    *link = (struct link){.net = net, .ops = ops, .fd = -1};
    uv_tcp_init(&net->loop, &link->tcp);
}

int link_connect(struct link *link, struct net *net, const struct link_ops *ops,
                 const struct sockaddr *address)
{
    link_init(link, net, ops);
    return uv_tcp_connect(&link->connect, &link->tcp, address, link_on_connect);
}

int link_accept(struct link *link, struct net *net, const struct link_ops *ops, uv_stream_t *listener)
{
    int r;

    link_init(link, net, ops);
    r = uv_accept(listener, (uv_stream_t *)&link->tcp);
    if (r != 0)
        return r;
    link_tune(link);
    link_read_start(link);
    return 0;
}

struct link_rest {
    uv_write_t write;
    char data[];
};

static void link_on_write(uv_write_t *write, int status)
{
    struct link *link = link_of(write->handle);

    free(CONTAINER_OF(write, struct link_rest, write));
    if (link_is_closing(link))
        return;
    if (status != 0)
        link_end(link, status);
    else if (link->tcp.write_queue_size == 0 && link->ops->drained)
        link->ops->drained(link);
}

int link_write(struct link *link, const char *data, size_t len)
{
    uv_buf_t buf;
    struct link_rest *rest;
    ssize_t sent = 0;
    int r;

    if (link->has_ended || link_is_closing(link))
        return -ENOTCONN;
    if (link->tcp.write_queue_size == 0) {
        /* Not uv_try_write, which calls write: through the layer of files, on the way that counts most. */
        sent = send(link->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent == (ssize_t)len)
            return 0;
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        sent = sent < 0 ? 0 : sent;
    }
    len -= (size_t)sent;
    if (link->tcp.write_queue_size + len > LINK_QUEUE_MAX)
        return -ENOBUFS;
    rest = malloc(sizeof(*rest) + len);
    if (!rest)
        return -ENOMEM;
    memcpy(rest->data, data + sent, len);
    buf = uv_buf_init(rest->data, (unsigned)len);
    r = uv_write(&rest->write, (uv_stream_t *)&link->tcp, &buf, 1, link_on_write);
    if (r != 0)
        free(rest);
    return r;
}

bool link_is_full(const struct link *link)
{
    return link->tcp.write_queue_size > LINK_QUEUE_HIGH;
}

bool link_is_closing(const struct link *link)
{
    return uv_is_closing((const uv_handle_t *)&link->tcp);
}

static void link_on_close(uv_handle_t *handle)
{
    struct link *link = link_of(handle);

    link->ops->closed(link);
}

void link_close(struct link *link)
{
    if (!link_is_closing(link))
        uv_close((uv_handle_t *)&link->tcp, link_on_close);
}

void link_reset(struct link *link)
{
    if (!link_is_closing(link) && uv_tcp_close_reset(&link->tcp, link_on_close) != 0)
        link_close(link);
}
