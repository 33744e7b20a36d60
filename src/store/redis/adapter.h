/*
 * adapter.h - one hiredis context on a libuv loop.
 *
 * Until the connection is made the socket is watched; afterwards what hiredis wants to write waits
 * for adapter_flush, so that all commands of one turn of the loop leave in one write. Every hook
 * runs with hiredis on the stack, except `closed`.
 */
#ifndef STORE_REDIS_ADAPTER_H
#define STORE_REDIS_ADAPTER_H

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <uv.h>

#include "base/base.h"

struct adapter; /* opaque: see adapter.c */

struct adapter_hooks {
    void (*dirty)(void *arg); /* something waits for adapter_flush */
    void (*released)(void *arg,
                     const char *reason); /* hiredis frees the context; `reason` is its last error */
    void (*closed)(void *arg);            /* the adapter is gone */
    void *arg;
};

/*
 * Takes over the events of `context`; hiredis owns it, and redisAsyncFree(context) ends the
 * adapter. 0, -ENOMEM or what libuv says; then the context is the caller's to free.
 */
int adapter_attach(uv_loop_t *loop, redisAsyncContext *context, const struct adapter_hooks *hooks,
                   struct adapter **ret_adapter) MUST_CHECK;

/*
 * From now on `fd` is the other side: takes it, and puts it in the place of the socket that is
 * connected. 0 or a negative errno; then nothing has changed, but `fd` is closed.
 */
int adapter_replace_socket(struct adapter *adapter, int fd) MUST_CHECK;

/* Writes the commands that wait. May end the adapter. */
void adapter_flush(struct adapter *adapter);

#endif
