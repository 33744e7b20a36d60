/*
 * adapter.c - connects hiredis' read and write events to libuv, and delays writes until the end of
 * the turn.
 */
#include "store/redis/adapter.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADAPTER_MAGIC = 0x61647074 };

struct adapter {
    unsigned magic;
    uv_poll_t poll;
    redisAsyncContext *context; /* NULL once hiredis has let go of it */
    struct adapter_hooks hooks;
    int polled; /* the events that libuv watches for */
    bool wants_read;
    bool wants_write; /* the socket was full, or is not connected yet: watch it */
    bool is_dirty;    /* adapter_flush has something to write */
    bool is_flushing;
};

static bool adapter_is_connected(const struct adapter *adapter)
{
    return (adapter->context->c.flags & REDIS_CONNECTED) != 0;
}

/*
 * Bytes without a request. hiredis asserts that there are none, and the next request would take
 * them for its answer: the connection is of no use any more.
 */
static bool adapter_hears_unasked(const struct adapter *adapter)
{
    char byte;

    return adapter_is_connected(adapter) && !adapter->context->replies.head &&
           !(adapter->context->c.flags & REDIS_SUBSCRIBED) &&
           recv(adapter->context->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void adapter_watch(struct adapter *adapter);

static void adapter_polled(uv_poll_t *poll, int status, int events)
{
    struct adapter *adapter = poll->data;

    MAGIC_CHECK(adapter, ADAPTER_MAGIC);
    /*
     * A refused connection comes as an error of the poll; hiredis finds out the reason when it is
     * called.
     */
    if (status < 0) {
        events = UV_READABLE | UV_WRITABLE;
        adapter->polled = 0;
    }
    if (adapter->context && (events & UV_READABLE)) {
        if (adapter_hears_unasked(adapter))
            redisAsyncFree(adapter->context);
        else
            redisAsyncHandleRead(adapter->context);
    }
    if (adapter->context && (events & UV_WRITABLE))
        redisAsyncHandleWrite(adapter->context);
    if (adapter->context)
        adapter_watch(adapter);
}

/* hiredis asks again after every read and write; libuv is told only of changes. */
static void adapter_watch(struct adapter *adapter)
{
    int events = (adapter->wants_read ? UV_READABLE : 0) | (adapter->wants_write ? UV_WRITABLE : 0);

    if (events == adapter->polled)
        return;
    adapter->polled = events;
    if (events)
        uv_poll_start(&adapter->poll, events, adapter_polled);
    else
        uv_poll_stop(&adapter->poll);
}

static void adapter_add_read(void *arg)
{
    struct adapter *adapter = arg;

    MAGIC_CHECK(adapter, ADAPTER_MAGIC);
    adapter->wants_read = true;
    adapter_watch(adapter);
}

static void adapter_del_read(void *arg)
{
    struct adapter *adapter = arg;

    MAGIC_CHECK(adapter, ADAPTER_MAGIC);
    adapter->wants_read = false;
    adapter_watch(adapter);
}

static void adapter_add_write(void *arg)
{
    struct adapter *adapter = arg;

    MAGIC_CHECK(adapter, ADAPTER_MAGIC);
    if (adapter->wants_write)
        return;
    if (adapter->is_flushing || !adapter_is_connected(adapter)) {
        adapter->wants_write = true;
        adapter_watch(adapter);
    } else if (!adapter->is_dirty) {
        adapter->is_dirty = true;
        adapter->hooks.dirty(adapter->hooks.arg);
    }
}

static void adapter_del_write(void *arg)
{
    struct adapter *adapter = arg;

    MAGIC_CHECK(adapter, ADAPTER_MAGIC);
    adapter->wants_write = false;
    adapter_watch(adapter);
}

static void adapter_poll_closed(uv_handle_t *handle)
{
    struct adapter *adapter = handle->data;
    struct adapter_hooks hooks;

    MAGIC_CHECK(adapter, ADAPTER_MAGIC);
    hooks = adapter->hooks;
    free(adapter);
    hooks.closed(hooks.arg);
}

static void adapter_cleanup(void *arg)
{
    struct adapter *adapter = arg;
    const redisAsyncContext *context;

    MAGIC_CHECK(adapter, ADAPTER_MAGIC);
    context = adapter->context;
    adapter->context = NULL;
    uv_close((uv_handle_t *)&adapter->poll, adapter_poll_closed);
    adapter->hooks.released(adapter->hooks.arg,
                            context->c.err ? context->c.errstr : "an answer that nobody asked for");
}

int adapter_attach(uv_loop_t *loop, redisAsyncContext *context, const struct adapter_hooks *hooks,
                   struct adapter **ret_adapter)
{
    struct adapter *adapter = calloc(1, sizeof(*adapter));
    int err;

    assert(!context->ev.data);
    if (!adapter)
        return -ENOMEM;
    err = uv_poll_init(loop, &adapter->poll, context->c.fd);
    if (err < 0) {
        free(adapter);
        return err;
    }
    adapter->magic = ADAPTER_MAGIC;
    adapter->poll.data = adapter;
    adapter->context = context;
    adapter->hooks = *hooks;
    context->ev.data = adapter;
    context->ev.addRead = adapter_add_read;
    context->ev.delRead = adapter_del_read;
    context->ev.addWrite = adapter_add_write;
    context->ev.delWrite = adapter_del_write;
    context->ev.cleanup = adapter_cleanup;
    *ret_adapter = adapter;
    return 0;
}

/*
 * hiredis keeps its number of the descriptor. The poll must let go of the old socket first: somebody
 * else goes on using it under another number, and its events would come here.
 */
int adapter_replace_socket(struct adapter *adapter, int fd)
{
    int err = 0;

    assert(adapter->context && adapter_is_connected(adapter));
    (void)uv_poll_stop(&adapter->poll);
    adapter->polled = 0;
    if (dup3(fd, adapter->context->c.fd, O_CLOEXEC) < 0)
        err = -errno;
    (void)close(fd);
    adapter_watch(adapter);
    return err;
}

void adapter_flush(struct adapter *adapter)
{
    if (!adapter->is_dirty || !adapter->context)
        return;
    /*
     * hiredis goes on using the context after a callback, so an error must not free it there. The flush at
     * the end of the turn writes the rest, and finds the error.
     */
    if (adapter->context->c.flags & REDIS_IN_CALLBACK) {
        int is_done;

        redisBufferWrite(&adapter->context->c, &is_done);
        return;
    }
    adapter->is_dirty = false;
    adapter->is_flushing = true;
    redisAsyncHandleWrite(adapter->context);
    adapter->is_flushing = false;
}
