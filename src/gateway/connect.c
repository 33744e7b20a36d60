/*
 * connect.c - resolves a pod's address and connects to it, with one time limit for all its
 * addresses.
 */
#include "gateway/connect.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/names.h"
#include "http/address_rule.h"

enum { CONNECT_TRIES_MAX = 4 }; /* addresses of one name */

enum { CONNECTING_MAGIC = 0x636f6e6e };

struct connecting {
    unsigned magic;
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_getaddrinfo_t lookup;
    uv_connect_t connect;
    uv_tcp_t *tcp;
    struct sockaddr_storage addresses[CONNECT_TRIES_MAX];
    const struct trusted *allow;
    size_t count;
    size_t next;
    bool is_guarded;
    bool may_be_loopback;
    bool is_looking;
    bool is_done; /* the outcome is known; what is under way must still come back */
    bool is_late; /* the time is over, but the sockets are looked at once more */
    bool is_left; /* `done` has run; the lookup that is still under way frees it */
    bool is_timer_closed;
    int err;
    connect_done_fn done;
    void *arg;
};

/* Splits it into host and port. 0 or -EINVAL. */
static int read_address(const char *address, uint16_t default_port, char host[ADDRESS_MAX + 1],
                        uint16_t *ret_port)
{
    struct slice host_text, port_text;
    unsigned long port = 0;

    if (address_split(slice_of(address), &host_text, &port_text) < 0 || host_text.len > ADDRESS_MAX ||
        port_text.len > 5)
        return -EINVAL;
    for (size_t i = 0; i < port_text.len; i++) {
        if (port_text.data[i] < '0' || port_text.data[i] > '9')
            return -EINVAL;
        port = port * 10 + (unsigned long)(port_text.data[i] - '0');
    }
    if (port_text.len == 0)
        port = default_port;
    if (port == 0 || port > 65535)
        return -EINVAL;
    memcpy(host, host_text.data, host_text.len);
    host[host_text.len] = '\0';
    *ret_port = (uint16_t)port;
    return 0;
}

/* May it be connected to? Asked of every address, right before it is used: a name may change what it means.
 */
static bool connect_may_try(const struct connecting *connecting, const struct sockaddr *socket_address)
{
    struct address address;

    if (!connecting->is_guarded)
        return true;
    return address_of_socket(socket_address, &address) == 0 &&
           !address_forbidden_by(connecting->allow, &address, connecting->may_be_loopback);
}

static void connecting_free(struct connecting *connecting)
{
    connecting->magic = 0;
    free(connecting);
}

static void connect_finish(struct connecting *connecting)
{
    connect_done_fn done = connecting->done;
    void *arg = connecting->arg;
    int err = connecting->err;
    uv_tcp_t *tcp = connecting->tcp;

    if (!connecting->is_timer_closed || (err && tcp))
        return;
    /* A lookup cannot be stopped once it has begun, and takes as long as the name servers' silence lasts. */
    if (connecting->is_looking)
        connecting->is_left = true;
    else
        connecting_free(connecting);
    done(arg, err, tcp);
}

static void connect_timer_closed(uv_handle_t *handle)
{
    struct connecting *connecting = handle->data;

    MAGIC_CHECK(connecting, CONNECTING_MAGIC);
    connecting->is_timer_closed = true;
    connect_finish(connecting);
}

static void connect_next(struct connecting *connecting);

static void connect_tcp_closed(uv_handle_t *handle)
{
    struct connecting *connecting = handle->data;

    MAGIC_CHECK(connecting, CONNECTING_MAGIC);
    free(handle);
    connecting->tcp = NULL;
    if (connecting->is_done)
        connect_finish(connecting);
    else
        connect_next(connecting);
}

/* The outcome is known; closes what is left, and `done` runs when all of it is. */
static void connect_over(struct connecting *connecting, int err)
{
    if (connecting->is_done)
        return;
    connecting->is_done = true;
    /* A lookup that has not even begun waits behind those of others. Its callback comes all the same. */
    if (connecting->is_looking && uv_cancel((uv_req_t *)&connecting->lookup) == 0 && err == -ETIMEDOUT)
        err = UV_EAI_CANCELED;
    connecting->err = err;
    if (err && connecting->tcp && !uv_is_closing((uv_handle_t *)connecting->tcp))
        uv_close((uv_handle_t *)connecting->tcp, connect_tcp_closed);
    uv_close((uv_handle_t *)&connecting->timer, connect_timer_closed);
}

static void connect_connected(uv_connect_t *connect, int status)
{
    struct connecting *connecting = CONTAINER_OF(connect, struct connecting, connect);

    MAGIC_CHECK(connecting, CONNECTING_MAGIC);
    if (connecting->is_done || status == UV_ECANCELED)
        return;
    if (status == 0) {
        connect_over(connecting, 0);
        return;
    }
    connecting->err = status;
    if (connecting->next == connecting->count)
        connect_over(connecting, status);
    else
        uv_close((uv_handle_t *)connecting->tcp, connect_tcp_closed);
}

static void connect_next(struct connecting *connecting)
{
    const struct sockaddr *address;
    int err = -ENOMEM;

    assert(connecting->next < connecting->count);
    address = (const struct sockaddr *)&connecting->addresses[connecting->next++];
    connecting->tcp = malloc(sizeof(*connecting->tcp));
    if (connecting->tcp) {
        err = uv_tcp_init(connecting->loop, connecting->tcp);
        connecting->tcp->data = connecting;
        if (err < 0) {
            free(connecting->tcp);
            connecting->tcp = NULL;
        } else {
            err = uv_tcp_connect(&connecting->connect, connecting->tcp, address, connect_connected);
        }
    }
    if (!err)
        return;
    /* No route to this one, perhaps: a host may have addresses of a family that this machine does not speak.
     */
    if (connecting->tcp && connecting->next < connecting->count)
        uv_close((uv_handle_t *)connecting->tcp, connect_tcp_closed);
    else
        connect_over(connecting, err);
}

static void connect_looked_up(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found)
{
    struct connecting *connecting = CONTAINER_OF(lookup, struct connecting, lookup);
    bool has_found;

    MAGIC_CHECK(connecting, CONNECTING_MAGIC);
    connecting->is_looking = false;
    if (connecting->is_left) {
        uv_freeaddrinfo(found);
        connecting_free(connecting);
        return;
    }
    for (const struct addrinfo *info = found; info && connecting->count < CONNECT_TRIES_MAX;
         info = info->ai_next)
        if (info->ai_addrlen <= sizeof(connecting->addresses[0]) &&
            connect_may_try(connecting, info->ai_addr))
            memcpy(&connecting->addresses[connecting->count++], info->ai_addr, info->ai_addrlen);
    has_found = found != NULL;
    uv_freeaddrinfo(found);
    if (connecting->is_done)
        return; /* the timer is being closed, and then it finishes */
    if (status || connecting->count == 0)
        connect_over(connecting, status ? status : has_found ? -EACCES : UV_EAI_NONAME);
    else
        connect_next(connecting);
}

bool connect_failed_here(int err)
{
    return err == UV_EMFILE || err == UV_ENFILE || err == UV_ENOMEM || err == UV_ENOBUFS ||
           err == UV_EADDRNOTAVAIL || err == UV_EAI_MEMORY || err == UV_EAI_CANCELED;
}

/*
 * Timers come before sockets in a turn of the loop: if it was this process that stood still, the connection
 * may be there by now, and one more turn finds it.
 */
static void connect_timed_out(uv_timer_t *timer)
{
    struct connecting *connecting = timer->data;

    MAGIC_CHECK(connecting, CONNECTING_MAGIC);
    if (connecting->is_late)
        connect_over(connecting, -ETIMEDOUT);
    else
        (void)uv_timer_start(timer, connect_timed_out, 1, 0);
    connecting->is_late = true;
}

void connect_cancel(struct connecting *connecting)
{
    connect_over(connecting, -ECANCELED);
}

static int connect_begin(struct connecting *connecting, const char *host, uint16_t port)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct sockaddr_storage *address = &connecting->addresses[0];
    char service[8];
    int err;

    if (uv_ip4_addr(host, port, (struct sockaddr_in *)address) == 0 ||
        uv_ip6_addr(host, port, (struct sockaddr_in6 *)address) == 0) {
        if (!connect_may_try(connecting, (const struct sockaddr *)address))
            return -EACCES;
        connecting->count = 1;
        connect_next(connecting);
        return 0;
    }
    snprintf(service, sizeof(service), "%u", port);
    err = uv_getaddrinfo(connecting->loop, &connecting->lookup, connect_looked_up, host, service, &hints);
    if (err == 0)
        connecting->is_looking = true;
    return err;
}

int connect_start(uv_loop_t *loop, const struct connect_target *target, connect_done_fn done, void *arg,
                  struct connecting **ret_connecting)
{
    struct connecting *connecting;
    char host[ADDRESS_MAX + 1];
    uint16_t port;
    int err = read_address(target->address, target->default_port, host, &port);

    if (err < 0)
        return err;
    connecting = calloc(1, sizeof(*connecting));
    if (!connecting)
        return -ENOMEM;
    connecting->magic = CONNECTING_MAGIC;
    connecting->loop = loop;
    connecting->done = done;
    connecting->arg = arg;
    connecting->allow = target->allow;
    connecting->is_guarded = target->is_guarded;
    connecting->may_be_loopback = address_text_is_loopback(target->address);
    err = uv_timer_init(loop, &connecting->timer);
    assert(err == 0); /* it never fails */
    connecting->timer.data = connecting;
    (void)uv_timer_start(&connecting->timer, connect_timed_out, target->timeout_ms, 0);
    err = connect_begin(connecting, host, port);
    if (err < 0)
        connect_over(connecting, err);
    *ret_connecting = connecting;
    return 0;
}
