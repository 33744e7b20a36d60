/*
 * wire.c - opens one connection, sends commands on it, and matches replies with them in order.
 */
#include "store/redis/wire.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/redis/adapter.h"
#include "store/redis/address.h"
#include "store/redis/resp.h"
#include "store/redis/tls_reason.h"

enum {
    WIRE_MAGIC = 0x77697265,
    WIRE_ADDRESSES_MAX = 8,
    WIRE_NUMERIC_MAX = 80, /* an IPv6 address with a zone */
};

struct wire {
    unsigned magic;
    uv_loop_t *loop;
    struct redis_address address;
    struct wire_hooks hooks;
    struct adapter *adapter;
    redisAsyncContext *context;
    struct tls_client_context *tls_context; /* NULL: clear text */
    struct tls_client *tls;                 /* between hiredis and the server; NULL: not yet, or no TLS */
    struct list requests;                   /* oldest first */
    uv_getaddrinfo_t resolve;
    char numeric[WIRE_ADDRESSES_MAX][WIRE_NUMERIC_MAX];
    size_t numeric_count;
    size_t tried;
    unsigned first_address;
    size_t refs; /* the owner, the lookup, each adapter, each client of TLS */
    bool is_resolving;
    bool is_connected; /* and TLS has not begun */
    bool is_open;
    bool is_opened_told;
    bool is_failed;
    bool is_gone;      /* the owner has dropped it or was told that it is lost */
    bool is_explained; /* the reason is one of TLS: another address of the name cannot tell more */
    char reason[WIRE_REASON_MAX];
};

static void wire_unref(struct wire *wire)
{
    struct wire_hooks hooks;

    MAGIC_CHECK(wire, WIRE_MAGIC);
    hooks = wire->hooks;
    assert(wire->refs > 0);
    if (--wire->refs > 0)
        return;
    free(wire);
    hooks.freed(hooks.arg);
}

static void wire_set_reason(struct wire *wire, const char *reason)
{
    if (wire->is_explained)
        return;
    if (wire->address.port)
        snprintf(wire->reason, sizeof(wire->reason), "%s:%u: %s", wire->address.host,
                 (unsigned)wire->address.port, reason);
    else
        snprintf(wire->reason, sizeof(wire->reason), "%s: %s", wire->address.host, reason);
}

static void wire_fail_requests(struct wire *wire)
{
    while (!list_is_empty(&wire->requests)) {
        struct wire_request *request = LIST_ENTRY(wire->requests.next, struct wire_request, link);

        list_remove(&request->link);
        request->done(request, -ENOTCONN, NULL);
    }
}

static void wire_lose(struct wire *wire)
{
    assert(!wire->is_gone);
    wire->is_gone = true;
    wire_fail_requests(wire);
    wire->hooks.lost(wire->hooks.arg, wire->reason);
    wire_unref(wire);
}

static void wire_connect_next(struct wire *wire);

static void wire_adapter_dirty(void *arg)
{
    struct wire *wire = arg;

    MAGIC_CHECK(wire, WIRE_MAGIC);
    wire->hooks.dirty(wire->hooks.arg);
}

static void wire_set_tls_reason(struct wire *wire, const struct tls_client *tls)
{
    const char *detail;
    enum tls_client_fault fault = tls_client_fault(tls, &detail);
    char where[ADDRESS_TEXT_MAX];

    if (fault == TLS_FAULT_NONE)
        return;
    address_text(&wire->address, where, sizeof(where));
    tls_reason(fault, detail, where, wire->reason, sizeof(wire->reason));
    wire->is_explained = true;
}

static void wire_adapter_released(void *arg, const char *reason)
{
    struct wire *wire = arg;
    struct tls_client *tls;

    MAGIC_CHECK(wire, WIRE_MAGIC);
    wire->context = NULL;
    wire->adapter = NULL;
    wire->is_connected = false;
    tls = TAKE(wire->tls);
    if (tls) {
        wire_set_tls_reason(wire, tls);
        tls_client_stop(tls);
    }
    if (wire->is_gone)
        return;
    wire_set_reason(wire, reason);
    if (wire->is_open)
        wire_lose(wire);
    else
        wire_connect_next(wire);
}

static void wire_adapter_closed(void *arg)
{
    wire_unref(arg);
}

/*
 * hiredis 0.14 goes on using the context after this callback: nothing may be freed here, so that
 * the owner is told by wire_flush. A failure to connect comes by way of wire_adapter_released.
 */
static void wire_connected(const redisAsyncContext *context, int status)
{
    struct wire *wire = context->data;

    MAGIC_CHECK(wire, WIRE_MAGIC);
    if (status != REDIS_OK)
        return;
    wire->is_connected = wire->tls_context != NULL;
    wire->is_open = !wire->tls_context;
    wire->hooks.dirty(wire->hooks.arg);
}

static void wire_tls_opened(void *arg)
{
    struct wire *wire = arg;

    MAGIC_CHECK(wire, WIRE_MAGIC);
    wire->is_open = true;
    wire->hooks.dirty(wire->hooks.arg);
}

static void wire_tls_closed(void *arg)
{
    wire_unref(arg);
}

/* hiredis keeps talking to the descriptor that it knows; behind it there is TLS from now on. */
static int wire_insert_tls(struct wire *wire)
{
    const struct tls_client_hooks hooks = {wire_tls_opened, wire_tls_closed, wire};
    int fd = fcntl(wire->context->c.fd, F_DUPFD_CLOEXEC, 0);
    int inner;
    int err;

    if (fd < 0)
        return -errno;
    err = tls_client_start(wire->loop, wire->tls_context, fd, wire->address.host, &hooks, &wire->tls, &inner);
    if (err < 0) {
        (void)close(fd);
        return err;
    }
    wire->refs++;
    return adapter_replace_socket(wire->adapter, inner);
}

static void wire_begin_tls(struct wire *wire)
{
    int err;

    wire->is_connected = false;
    err = wire_insert_tls(wire);
    if (err == 0)
        return;
    /* wire_adapter_released takes it from here, with this reason. */
    snprintf(wire->context->c.errstr, sizeof(wire->context->c.errstr), "TLS cannot begin: %s",
             uv_strerror(err));
    wire->context->c.err = REDIS_ERR_OTHER;
    redisAsyncFree(wire->context);
}

static redisAsyncContext *wire_connect(struct wire *wire, const char *numeric)
{
    return wire->address.port ? redisAsyncConnect(numeric, wire->address.port)
                              : redisAsyncConnectUnix(wire->address.host);
}

static int wire_attach(struct wire *wire, redisAsyncContext *context)
{
    const struct adapter_hooks hooks = {wire_adapter_dirty, wire_adapter_released, wire_adapter_closed, wire};
    int err;

    context->data = wire;
    err = adapter_attach(wire->loop, context, &hooks, &wire->adapter);
    if (err < 0)
        return err;
    wire->refs++;
    wire->context = context;
    if (wire->address.port)
        (void)redisEnableKeepAlive(&context->c);
    redisAsyncSetConnectCallback(context, wire_connected);
    return 0;
}

static void wire_connect_next(struct wire *wire)
{
    while (wire->tried < wire->numeric_count) {
        size_t which = (wire->first_address + wire->tried) % wire->numeric_count;
        redisAsyncContext *context = wire_connect(wire, wire->numeric[which]);
        int err;

        wire->tried++;
        if (!context) {
            wire_set_reason(wire, "no memory");
            continue;
        }
        if (context->err) {
            wire_set_reason(wire, context->errstr);
            redisAsyncFree(context);
            continue;
        }
        err = wire_attach(wire, context);
        if (err == 0)
            return;
        wire_set_reason(wire, uv_strerror(err));
        redisAsyncFree(context);
    }
    wire->is_failed = true;
    wire->hooks.dirty(wire->hooks.arg);
}

static void wire_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *found)
{
    struct wire *wire = resolve->data;

    MAGIC_CHECK(wire, WIRE_MAGIC);
    wire->is_resolving = false;
    if (!wire->is_gone) {
        wire_set_reason(wire, status ? uv_strerror(status) : "the name has no address");
        for (struct addrinfo *at = found; at && wire->numeric_count < WIRE_ADDRESSES_MAX; at = at->ai_next) {
            char *numeric = wire->numeric[wire->numeric_count];

            if (getnameinfo(at->ai_addr, at->ai_addrlen, numeric, WIRE_NUMERIC_MAX, NULL, 0,
                            NI_NUMERICHOST) == 0)
                wire->numeric_count++;
        }
        wire_connect_next(wire);
    }
    uv_freeaddrinfo(found);
    wire_unref(wire);
}

static bool wire_is_numeric(const char *host)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    return uv_ip4_addr(host, 0, &v4) == 0 || uv_ip6_addr(host, 0, &v6) == 0;
}

/* hiredis would look names up itself, and stop the loop meanwhile. */
static int wire_resolve(struct wire *wire)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int err;

    wire->resolve.data = wire;
    err = uv_getaddrinfo(wire->loop, &wire->resolve, wire_resolved, wire->address.host, NULL, &hints);
    if (err < 0)
        return err;
    wire->is_resolving = true;
    wire->refs++;
    return 0;
}

int wire_open(uv_loop_t *loop, const struct redis_address *address, unsigned first_address,
              struct tls_client_context *tls, const struct wire_hooks *hooks, struct wire **ret_wire)
{
    struct wire *wire = calloc(1, sizeof(*wire));
    int err;

    if (!wire)
        return -ENOMEM;
    wire->magic = WIRE_MAGIC;
    wire->loop = loop;
    wire->address = *address;
    wire->first_address = first_address;
    wire->tls_context = tls;
    wire->hooks = *hooks;
    wire->refs = 1;
    list_init(&wire->requests);
    *ret_wire = wire;
    if (address->port == 0 || (wire_is_numeric(address->host) && strlen(address->host) < WIRE_NUMERIC_MAX)) {
        snprintf(wire->numeric[0], WIRE_NUMERIC_MAX, "%.*s", WIRE_NUMERIC_MAX - 1,
                 address->port ? address->host : "");
        wire->numeric_count = 1;
        wire_connect_next(wire);
        return 0;
    }
    err = wire_resolve(wire);
    if (err < 0) {
        wire_set_reason(wire, uv_strerror(err));
        wire->is_failed = true;
        hooks->dirty(hooks->arg);
    }
    return 0;
}

bool wire_is_resolving(const struct wire *wire)
{
    return wire->is_resolving;
}

bool wire_is_shaking_hands(const struct wire *wire)
{
    return wire->tls && !wire->is_open;
}

bool wire_is_idle(const struct wire *wire)
{
    return list_is_empty(&wire->requests);
}

/* More came than was asked for: then it is not known either whose answer this one is. */
static bool wire_is_out_of_step(const redisAsyncContext *context)
{
    return !context->replies.head && context->c.reader->pos < context->c.reader->len;
}

static void wire_replied(redisAsyncContext *context, void *reply, void *arg)
{
    struct wire *wire = arg;
    struct wire_request *request;

    MAGIC_CHECK(wire, WIRE_MAGIC);
    /*
     * Without a reply the context is being freed; wire_adapter_released or wire_drop fails the
     * requests.
     */
    if (!reply || wire->is_gone)
        return;
    if (wire_is_out_of_step(context)) {
        redisAsyncFree(context);
        return;
    }
    assert(!list_is_empty(&wire->requests));
    request = LIST_ENTRY(wire->requests.next, struct wire_request, link);
    list_remove(&request->link);
    request->done(request, 0, reply);
}

int wire_send(struct wire *wire, const char *command, size_t len, struct wire_request *request)
{
    assert(command[len] == '\0');
    if (wire->is_gone || !wire->is_open || !wire->context)
        return -ENOTCONN;
    if (redisAsyncFormattedCommand(wire->context, wire_replied, wire, command, len) != REDIS_OK)
        return wire->context->c.flags & (REDIS_DISCONNECTING | REDIS_FREEING) ? -ENOTCONN : -ENOMEM;
    list_append(&wire->requests, &request->link);
    return 0;
}

static void wire_heard(redisAsyncContext *context UNUSED, void *arg_reply, void *arg)
{
    const redisReply *reply = arg_reply;
    struct wire *wire = arg;

    MAGIC_CHECK(wire, WIRE_MAGIC);
    /* "message", channel, text; or "subscribe", channel, count. */
    if (!reply || wire->is_gone || reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return;
    if (reply->element[2]->type == REDIS_REPLY_STRING)
        wire->hooks.heard(wire->hooks.arg, (struct slice){reply->element[2]->str, reply->element[2]->len});
    else if (strcmp(reply->element[0]->str, "subscribe") == 0)
        wire->hooks.heard(wire->hooks.arg, (struct slice){NULL, 0});
}

int wire_subscribe(struct wire *wire, const char *channel)
{
    const struct slice args[] = {SLICE("SUBSCRIBE"), slice_of(channel)};
    size_t len = resp_size(args, ARRAY_LEN(args));
    char *command;
    int status;

    assert(wire->hooks.heard && list_is_empty(&wire->requests));
    if (wire->is_gone || !wire->is_open || !wire->context)
        return -ENOTCONN;
    command = malloc(len + 1);
    if (!command)
        return -ENOMEM;
    *resp_write(command, args, ARRAY_LEN(args)) = '\0';
    status = redisAsyncFormattedCommand(wire->context, wire_heard, wire, command, len);
    free(command);
    return status == REDIS_OK ? 0 : -ENOMEM;
}

void wire_flush(struct wire *wire)
{
    if (wire->is_failed) {
        wire_lose(wire);
        return;
    }
    if (wire->is_connected)
        wire_begin_tls(wire);
    if (wire->is_open && !wire->is_opened_told) {
        bool is_gone;

        wire->is_opened_told = true;
        wire->refs++;
        wire->hooks.opened(wire->hooks.arg);
        is_gone = wire->is_gone;
        wire_unref(wire);
        if (is_gone)
            return;
    }
    if (wire->adapter)
        adapter_flush(wire->adapter);
    if (wire->tls)
        tls_client_push(wire->tls);
}

void wire_drop(struct wire *wire)
{
    assert(!wire->is_gone);
    wire->is_gone = true;
    /*
     * Inside a callback of hiredis the context lives until that returns; is_gone keeps it silent.
     */
    if (wire->context)
        redisAsyncFree(wire->context);
    if (wire->is_resolving)
        (void)uv_cancel((uv_req_t *)&wire->resolve);
    wire_fail_requests(wire);
    wire_unref(wire);
}
