/*
 * wire.c - opens one connection, sends commands on it, and matches replies with them in order.
 */
#include "store/redis/wire.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/adapter.h"
#include "store/redis/resp.h"

enum {
    WIRE_ADDRESSES_MAX = 8,
    WIRE_NUMERIC_MAX = 80, /* an IPv6 address with a zone */
};

struct wire {
    uv_loop_t *loop;
    struct redis_address address;
    struct wire_hooks hooks;
    struct adapter *adapter;
    redisAsyncContext *context;
    struct list requests; /* oldest first */
    uv_getaddrinfo_t resolve;
    char numeric[WIRE_ADDRESSES_MAX][WIRE_NUMERIC_MAX];
    size_t numeric_count;
    size_t tried;
    unsigned turn;
    size_t refs; /* the owner, the lookup, each adapter */
    bool is_resolving;
    bool is_open;
    bool is_opened_told;
    bool is_failed;
    bool is_gone; /* the owner has dropped it or was told that it is lost */
    char reason[WIRE_REASON_MAX];
};

static void wire_unref(struct wire *wire)
{
    struct wire_hooks hooks = wire->hooks;

    assert(wire->refs > 0);
    if (--wire->refs > 0)
        return;
    free(wire);
    hooks.freed(hooks.arg);
}

static void wire_set_reason(struct wire *wire, const char *reason)
{
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

    wire->hooks.dirty(wire->hooks.arg);
}

static void wire_adapter_released(void *arg, const char *reason)
{
    struct wire *wire = arg;

    wire->context = NULL;
    wire->adapter = NULL;
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
 * hiredis 0.14 goes on using the context after this callback: nothing may be freed here, so that the owner
 * is told by wire_flush. A failure to connect comes by way of wire_adapter_released.
 */
static void wire_connected(const redisAsyncContext *context, int status)
{
    struct wire *wire = context->data;

    if (status != REDIS_OK)
        return;
    wire->is_open = true;
    wire->hooks.dirty(wire->hooks.arg);
}

static redisAsyncContext *wire_connect(struct wire *wire, const char *numeric)
{
    return wire->address.port ? redisAsyncConnect(numeric, wire->address.port)
                              : redisAsyncConnectUnix(wire->address.host);
}

static int wire_attach(struct wire *wire, redisAsyncContext *context)
{
    const struct adapter_hooks hooks = {wire_adapter_dirty, wire_adapter_released, wire_adapter_closed, wire};
    int rc;

    context->data = wire;
    rc = adapter_attach(wire->loop, context, &hooks, &wire->adapter);
    if (rc)
        return rc;
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
        size_t which = (wire->turn + wire->tried) % wire->numeric_count;
        redisAsyncContext *context = wire_connect(wire, wire->numeric[which]);
        int rc;

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
        rc = wire_attach(wire, context);
        if (rc == 0)
            return;
        wire_set_reason(wire, uv_strerror(rc));
        redisAsyncFree(context);
    }
    wire->is_failed = true;
    wire->hooks.dirty(wire->hooks.arg);
}

static void wire_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *found)
{
    struct wire *wire = resolve->data;

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
    int rc;

    wire->resolve.data = wire;
    rc = uv_getaddrinfo(wire->loop, &wire->resolve, wire_resolved, wire->address.host, NULL, &hints);
    if (rc)
        return rc;
    wire->is_resolving = true;
    wire->refs++;
    return 0;
}

int wire_open(uv_loop_t *loop, const struct redis_address *address, unsigned turn,
              const struct wire_hooks *hooks, struct wire **ret_wire)
{
    struct wire *wire = calloc(1, sizeof(*wire));
    int rc;

    if (!wire)
        return -ENOMEM;
    wire->loop = loop;
    wire->address = *address;
    wire->turn = turn;
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
    rc = wire_resolve(wire);
    if (rc) {
        wire_set_reason(wire, uv_strerror(rc));
        wire->is_failed = true;
        hooks->dirty(hooks->arg);
    }
    return 0;
}

bool wire_is_resolving(const struct wire *wire)
{
    return wire->is_resolving;
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

    /* Without a reply the context is being freed; wire_adapter_released or wire_drop fails the requests. */
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
    int rc;

    assert(wire->hooks.heard && list_is_empty(&wire->requests));
    if (wire->is_gone || !wire->is_open || !wire->context)
        return -ENOTCONN;
    command = malloc(len + 1);
    if (!command)
        return -ENOMEM;
    *resp_write(command, args, ARRAY_LEN(args)) = '\0';
    rc = redisAsyncFormattedCommand(wire->context, wire_heard, wire, command, len);
    free(command);
    return rc == REDIS_OK ? 0 : -ENOMEM;
}

void wire_flush(struct wire *wire)
{
    if (wire->is_failed) {
        wire_lose(wire);
        return;
    }
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
}

void wire_drop(struct wire *wire)
{
    assert(!wire->is_gone);
    wire->is_gone = true;
    /* Inside a callback of hiredis the context lives until that returns; is_gone keeps it silent. */
    if (wire->context)
        redisAsyncFree(wire->context);
    if (wire->is_resolving)
        (void)uv_cancel((uv_req_t *)&wire->resolve);
    wire_fail_requests(wire);
    wire_unref(wire);
}
