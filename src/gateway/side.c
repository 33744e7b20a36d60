/*
 * side.c - reads one socket and writes to it; keeps what the kernel does not take.
 */
#include "gateway/side.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { SIDE_MAGIC = 0x73696465, WRITE_MAGIC = 0x77726974, KEEPALIVE_S = 30 };

/* Bytes that wait. Parts that do not last are copied behind the struct. */
struct side_write {
    unsigned magic;
    struct side *side;
    uv_write_t write;
    size_t len;
    char copy[];
};

static void side_lost_handle(struct side *side)
{
    void (*closed)(void *arg) = side->settings.events ? side->settings.events->closed : NULL;
    void *arg = side->settings.arg;

    assert(side->handles > 0);
    if (--side->handles > 0)
        return;
    side->magic = 0;
    free(side);
    if (closed)
        closed(arg);
}

static void side_socket_closed(uv_handle_t *handle)
{
    struct side *side = handle->data;

    MAGIC_CHECK(side, SIDE_MAGIC);
    free(handle);
    side->tcp = NULL;
    side_lost_handle(side);
}

void side_close(struct side *side)
{
    MAGIC_CHECK(side, SIDE_MAGIC);
    if (side->is_closing)
        return;
    side->is_closing = true;
    uv_close((uv_handle_t *)side->tcp, side_socket_closed);
}

static void side_alloc(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *ret_buf)
{
    struct side *side = handle->data;

    MAGIC_CHECK(side, SIDE_MAGIC);
    *ret_buf = uv_buf_init(side->settings.scratch, SIDE_BUFFER);
}

static void side_has_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buf)
{
    struct side *side = stream->data;

    MAGIC_CHECK(side, SIDE_MAGIC);
    if (count == 0)
        return;
    if (count > 0) {
        side->settings.events->received(side, buf->base, (size_t)count);
        return;
    }
    side_stop_reading(side);
    side->has_ended = true;
    side->settings.events->ended(side, count == UV_EOF ? 0 : (int)count);
}

int side_read(struct side *side)
{
    int err;

    MAGIC_CHECK(side, SIDE_MAGIC);
    if (side->is_reading)
        return 0;
    assert(!side->has_ended && !side->is_closing);
    err = uv_read_start((uv_stream_t *)side->tcp, side_alloc, side_has_read);
    side->is_reading = err == 0;
    return err;
}

void side_stop_reading(struct side *side)
{
    MAGIC_CHECK(side, SIDE_MAGIC);
    if (side->is_reading)
        (void)uv_read_stop((uv_stream_t *)side->tcp);
    side->is_reading = false;
}

static void side_written(uv_write_t *write, int status)
{
    struct side_write *waiting = CONTAINER_OF(write, struct side_write, write);
    struct side *side = waiting->side;
    bool is_told;

    MAGIC_CHECK(waiting, WRITE_MAGIC);
    MAGIC_CHECK(side, SIDE_MAGIC);
    assert(side->pending >= waiting->len);
    side->pending -= waiting->len;
    waiting->magic = 0;
    free(waiting);
    is_told = !side->is_closing && side->settings.events && (side->pending == 0 || status < 0);
    if (is_told)
        side->settings.events->drained(side, status);
    side_lost_handle(side);
}

/* Keeps what is left of the parts after `taken` bytes. 0 or a negative errno. */
static int side_keep(struct side *side, const struct side_part *parts, size_t count, size_t taken)
{
    uv_buf_t bufs[SIDE_PARTS_MAX];
    struct side_write *waiting;
    unsigned buf_count = 0;
    size_t copied = 0;
    size_t len = 0;
    char *at;
    int err;

    for (size_t i = 0; i < count; i++)
        copied += parts[i].lasts ? 0 : parts[i].len;
    waiting = malloc(sizeof(*waiting) + copied);
    if (!waiting)
        return -ENOMEM;
    at = waiting->copy;
    for (size_t i = 0; i < count; i++) {
        size_t skipped = min_u64(taken, parts[i].len);
        size_t rest = parts[i].len - skipped;
        const char *data = parts[i].data + skipped;

        taken -= skipped;
        if (rest == 0)
            continue;
        if (!parts[i].lasts) {
            memcpy(at, data, rest);
            data = at;
            at += rest;
        }
        bufs[buf_count++] = uv_buf_init((char *)(uintptr_t)data, (unsigned)rest);
        len += rest;
    }
    waiting->magic = WRITE_MAGIC;
    waiting->side = side;
    waiting->len = len;
    err = uv_write(&waiting->write, (uv_stream_t *)side->tcp, bufs, buf_count, side_written);
    if (err < 0) {
        free(waiting);
        return err;
    }
    side->pending += len;
    side->handles++;
    return 0;
}

/* What the kernel takes now of what is to be sent; as send(). */
static ssize_t side_try(const struct side *side, const struct side_part *parts, size_t count)
{
    struct iovec vector[SIDE_PARTS_MAX];
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = count};

    /* As uv_try_write, but send() spares what write() does for files. Nothing waits in libuv's queue. */
    if (count == 1)
        return send(side->fd, parts[0].data, parts[0].len, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (size_t i = 0; i < count; i++)
        vector[i] = (struct iovec){.iov_base = (char *)(uintptr_t)parts[i].data, .iov_len = parts[i].len};
    return sendmsg(side->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int side_send(struct side *side, const struct side_part *parts, size_t count)
{
    ssize_t taken = 0;
    size_t len = 0;

    MAGIC_CHECK(side, SIDE_MAGIC);
    assert(count <= SIDE_PARTS_MAX && !side->is_closing && !side->is_finishing);
    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    if (len == 0)
        return 0;
    side->bytes += len;
    if (side->pending == 0)
        taken = side_try(side, parts, count);
    if (taken == (ssize_t)len)
        return 0;
    if (taken < 0 && errno != EAGAIN && errno != EINTR)
        return -errno;
    return side_keep(side, parts, count, taken < 0 ? 0 : (size_t)taken);
}

static void side_shut(uv_shutdown_t *shutdown, int status UNUSED)
{
    struct side *side = CONTAINER_OF(shutdown, struct side, shutdown);

    MAGIC_CHECK(side, SIDE_MAGIC);
    /* Whether it worked or not: nothing more can be sent. */
    side->is_finished = true;
    if (!side->settings.events)
        side_close(side);
    else if (!side->is_closing)
        side->settings.events->finished(side);
    side_lost_handle(side);
}

void side_finish(struct side *side)
{
    MAGIC_CHECK(side, SIDE_MAGIC);
    if (side->is_finishing || side->is_closing)
        return;
    side->is_finishing = true;
    side->handles++;
    /* It fails only for a socket that is not connected any more. */
    if (uv_shutdown(&side->shutdown, (uv_stream_t *)side->tcp, side_shut)) {
        side->handles--;
        side->is_finished = true;
    }
}

void side_leave(struct side *side, struct slice last)
{
    const struct side_part part = {last.data, last.len, false};

    MAGIC_CHECK(side, SIDE_MAGIC);
    side_stop_reading(side);
    side->settings.events = NULL;
    if (side->is_closing)
        return;
    if (last.len > 0 && !side->is_finishing && side_send(side, &part, 1) == 0 && side->pending == 0)
        side_finish(side);
    /* A peer that does not even take the last word is not waited for. */
    if (!side->is_finishing || side->is_finished)
        side_close(side);
}

int side_new(const struct side_settings *settings, uv_tcp_t *tcp, struct side **ret_side)
{
    unsigned patience_ms = (unsigned)min_u64(settings->patience_ms, INT32_MAX);
    struct side *side = calloc(1, sizeof(*side));
    int err;

    if (!side)
        return -ENOMEM;
    side->magic = SIDE_MAGIC;
    side->settings = *settings;
    side->tcp = tcp;
    side->handles = 1;
    tcp->data = side;
    err = uv_fileno((uv_handle_t *)tcp, &side->fd);
    assert(err == 0);
    (void)uv_tcp_nodelay(tcp, 1);
    (void)uv_tcp_keepalive(tcp, 1, KEEPALIVE_S);
    /*
     * A peer that vanished while it is being written to is not quiet, because writing goes on: the kernel
     * gives up on it after this time without an acknowledgement.
     */
    (void)setsockopt(side->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof(patience_ms));
    *ret_side = side;
    return 0;
}

void side_give_back(struct side *side)
{
    MAGIC_CHECK(side, SIDE_MAGIC);
    assert(side->handles == 1 && !side->is_reading && !side->is_closing);
    side->magic = 0;
    free(side);
}
