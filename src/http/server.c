/*
 * server.c - listens and accepts, runs the timers of all connections, and drains and closes the
 * server.
 */
#include "http/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/random.h"
#include "http/reserve.h"

enum {
    SERVER_BACKLOG = 4096,
    SERVER_TICK_MIN_MS = 2,
    SERVER_TICK_MAX_MS = 250,
    SERVER_ACCEPT_LOG_MS = 1000,
    /* What is done in one turn of the loop when thousands come, or go, at once: others want their turn. */
    SERVER_ACCEPT_MAX = 8,
    SERVER_EXPIRE_MAX = 8,
    SERVER_HELD_SHARE = 4, /* one of so many connections may be one whose client waits on purpose */
};

static void server_choose_prefix(struct http_server *server)
{
    uint64_t number;

    if (!random_bytes(&number, sizeof(number)))
        number = clock_wall_ms() * UINT64_C(0x9e3779b97f4a7c15);
    hex_write(server->id_prefix, SERVER_ID_PREFIX, number);
}

static void server_set_waits(struct http_server *server)
{
    uint64_t shortest = SERVER_LINGER_MS;

    server->wait_ms[WAIT_SILENT] = server->settings.idle_timeout_ms;
    server->wait_ms[WAIT_IDLE] = server->settings.idle_timeout_ms;
    server->wait_ms[WAIT_READ] = server->settings.read_timeout_ms;
    server->wait_ms[WAIT_WRITE] = server->settings.write_timeout_ms;
    server->wait_ms[WAIT_LINGER] = SERVER_LINGER_MS;
    server->wait_ms[WAIT_RESERVE] = SERVER_RESERVE_MS;
    server->wait_ms[WAIT_FIRST] = SERVER_FIRST_MS;
    for (unsigned i = 0; i < WAIT_COUNT; i++) {
        list_init(&server->waiting[i]);
        if (server->wait_ms[i] > 0)
            shortest = min_u64(shortest, server->wait_ms[i]);
    }
    server->tick_ms = min_u64(max_u64(shortest / 8, SERVER_TICK_MIN_MS), SERVER_TICK_MAX_MS);
}

int http_server_new(uv_loop_t *loop, const struct http_settings *settings, struct http_server **ret_server)
{
    struct http_server *server;
    int err;

    assert(settings->read_timeout_ms > 0 && settings->write_timeout_ms > 0 && settings->idle_timeout_ms > 0);
    assert(settings->max_connections > 0);

    server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->loop = loop;
    server->settings = *settings;
    router_init(&server->router);
    list_init(&server->all);
    list_init(&server->ready);
    list_init(&server->unread);
    list_init(&server->large_ones);
    server_set_waits(server);
    reserve_init(server);
    clients_init(&server->clients, settings->max_connections_per_client, settings->trusted);
    server->held_max = max_u64(settings->max_connections / SERVER_HELD_SHARE, 1);
    server_choose_prefix(server);
    err = uv_timer_init(loop, &server->timer);
    assert(err == 0);
    err = uv_idle_init(loop, &server->idle);
    assert(err == 0);
    server->objects = 2;
    server->timer.data = server;
    server->idle.data = server;
    /* A client that goes away while it is being answered is an error of that write, not of the process. */
    (void)signal(SIGPIPE, SIG_IGN);
    *ret_server = server;
    return 0;
}

int http_server_route(struct http_server *server, const struct http_route *route, void *arg)
{
    return router_add(&server->router, route, arg);
}

void http_server_hooks(struct http_server *server, const struct http_hooks *hooks)
{
    server->hooks = *hooks;
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

size_t http_server_connections(const struct http_server *server)
{
    return server->connections;
}

uint64_t http_server_evicted(const struct http_server *server)
{
    return server->evicted;
}

uint64_t http_server_refused(const struct http_server *server)
{
    return server->refused;
}

char *server_take_buffer(struct http_server *server)
{
    struct http_buffer *buffer = server->buffers;

    if (!buffer)
        return malloc(CONNECTION_BUFFER);
    server->buffers = buffer->next;
    server->buffer_count--;
    return (char *)buffer;
}

void server_give_buffer(struct http_server *server, char *memory)
{
    struct http_buffer *buffer = (struct http_buffer *)(void *)memory;

    if (server->buffer_count >= SERVER_POOL_MAX) {
        free(memory);
        return;
    }
    buffer->next = server->buffers;
    server->buffers = buffer;
    server->buffer_count++;
}

void server_refresh_date(struct http_server *server)
{
    uint64_t now_ms = uv_now(server->loop);
    uint64_t wall_ms;
    time_t seconds;
    struct tm tm;

    if (now_ms < server->date_until_ms)
        return;
    wall_ms = clock_wall_ms();
    seconds = (time_t)(wall_ms / 1000);
    gmtime_r(&seconds, &tm);
    server->date_len =
        strftime(server->date, sizeof(server->date), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
    server->date_until_ms = now_ms + 1000 - wall_ms % 1000;
}

static void server_accept_one(struct http_server *server);

static void server_run_ready(uv_idle_t *idle)
{
    struct http_server *server = idle->data;
    struct list batch;

    server->accepted = 0;
    if (server->is_accept_put_off)
        server_accept_one(server);

    /* Who becomes ready meanwhile waits for the next turn, so that one client cannot hold the loop. */
    list_init(&batch);
    while (!list_is_empty(&server->ready)) {
        struct list *link = server->ready.next;

        list_remove(link);
        list_append(&batch, link);
    }
    while (!list_is_empty(&batch)) {
        struct list *link = batch.next;

        list_remove(link);
        connection_resume(LIST_ENTRY(link, struct http_connection, ready_link));
    }
    if (list_is_empty(&server->ready) && !server->is_accept_put_off && !uv_is_closing((uv_handle_t *)idle)) {
        server->wants_turn = false;
        (void)uv_idle_stop(idle);
    }
}

static void server_want_turn(struct http_server *server)
{
    if (server->wants_turn)
        return;
    server->wants_turn = true;
    (void)uv_idle_start(&server->idle, server_run_ready);
}

void server_make_ready(struct http_server *server, struct http_connection *connection)
{
    list_remove(&connection->ready_link);
    list_append(&server->ready, &connection->ready_link);
    server_want_turn(server);
}

/* Returns whether there are more. */
static bool server_expire_some(struct http_server *server, struct list *waiting)
{
    for (unsigned i = 0; !list_is_empty(waiting); i++) {
        struct http_connection *first = LIST_ENTRY(waiting->next, struct http_connection, wait_link);

        if (first->deadline_ms > uv_now(server->loop))
            break;
        if (i == SERVER_EXPIRE_MAX)
            return true;
        connection_expire(first);
    }
    return false;
}

/*
 * The next connection is known, because each list is in the order of its deadlines. Looking just
 * then, and not every now and then, spreads out what happens to thousands who came one after the
 * other.
 */
static uint64_t server_next_look_ms(const struct http_server *server)
{
    uint64_t now_ms = uv_now(server->loop);
    uint64_t next_ms = server->tick_ms;

    for (unsigned i = 0; i < WAIT_COUNT; i++) {
        const struct list *waiting = &server->waiting[i];
        uint64_t deadline_ms;

        if (list_is_empty(waiting))
            continue;
        deadline_ms = LIST_ENTRY(waiting->next, struct http_connection, wait_link)->deadline_ms;
        next_ms = min_u64(next_ms, deadline_ms > now_ms ? deadline_ms - now_ms : 0);
    }
    return max_u64(next_ms, SERVER_TICK_MIN_MS);
}

static void server_tick(uv_timer_t *timer)
{
    struct http_server *server = timer->data;
    bool has_more = false;

    if (server->is_accept_pending)
        server_accept_one(server);
    for (unsigned i = 0; i < WAIT_COUNT; i++)
        has_more |= server_expire_some(server, &server->waiting[i]);
    if (has_more)
        (void)uv_timer_start(timer, server_tick, 1, 0);
    else if (!list_is_empty(&server->all) || server->is_accept_pending)
        (void)uv_timer_start(timer, server_tick, server_next_look_ms(server), 0);
}

static void server_start_ticking(struct http_server *server)
{
    if (!uv_is_active((uv_handle_t *)&server->timer))
        (void)uv_timer_start(&server->timer, server_tick, server->tick_ms, 0);
}

static void server_socket_freed(uv_handle_t *handle)
{
    struct http_server *server = handle->data;

    free(handle);
    server_lost_object(server);
}

static void server_drop(struct http_server *server, uv_tcp_t *tcp)
{
    tcp->data = server;
    server->objects++;
    uv_close((uv_handle_t *)tcp, server_socket_freed);
}

/* `peer` is NULL if it is the socket's own. */
static void server_take(struct http_server *server, uv_tcp_t *tcp, const char *peer, int tls_fd)
{
    struct http_connection *connection = connection_new(server, tcp, peer);

    if (!connection) {
        server->refused++;
        server_drop(server, tcp);
        return;
    }
    connection->tls_fd = tls_fd;
    if (reserve_is_needed(connection)) {
        reserve_add(connection);
    } else {
        server->connections++;
        connection->is_counted = true;
    }
    connection_await(connection, WAIT_IDLE);
    connection_start(connection);
}

static void server_accept_one(struct http_server *server)
{
    uv_tcp_t *tcp = malloc(sizeof(*tcp));

    server->is_accept_pending = !tcp;
    server->is_accept_put_off = false;
    server_start_ticking(server);
    if (!tcp)
        return; /* libuv holds the socket; the timer tries again */
    if (uv_tcp_init(server->loop, tcp)) {
        free(tcp);
        return;
    }
    if (uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)tcp)) {
        server_drop(server, tcp);
        return;
    }
    server_take(server, tcp, NULL, -1);
}

int http_server_adopt(struct http_server *server, int fd, const char *peer, int tls_fd)
{
    uv_tcp_t *tcp;
    int err;

    if (server->is_draining)
        return -ESHUTDOWN;
    tcp = malloc(sizeof(*tcp));
    if (!tcp)
        return -ENOMEM;
    err = uv_tcp_init(server->loop, tcp);
    if (err < 0) {
        free(tcp);
        return err;
    }
    err = uv_tcp_open(tcp, fd);
    if (err < 0) {
        server_drop(server, tcp);
        return err;
    }
    server_start_ticking(server);
    server_take(server, tcp, peer, tls_fd);
    return 0;
}

static void server_incoming(uv_stream_t *listener, int status)
{
    struct http_server *server = listener->data;

    if (status == 0) {
        server_want_turn(server);
        /* Otherwise libuv holds it, and takes no other until it has been accepted. */
        server->is_accept_put_off = server->accepted++ >= SERVER_ACCEPT_MAX;
        if (!server->is_accept_put_off)
            server_accept_one(server);
        return;
    }
    /*
     * Out of descriptors, although reserve.c leaves some. libuv has one more, with which it takes the
     * connection and drops it. If that one is gone as well it calls again and again until something has
     * changed.
     */
    if (status == UV_EMFILE || status == UV_ENFILE)
        reserve_free_descriptor(server);
    if (log_repeat_is_due(&server->accept_failures, 1, uv_now(server->loop), SERVER_ACCEPT_LOG_MS, NULL))
        log_warn("a connection could not be accepted", log_str("error", uv_strerror(status)));
}

/* `fd` is a socket that is bound already; -1: bind one to `address`. */
static int server_open_listener(struct http_server *server, const struct sockaddr *address, int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } bound = {.six = {0}};
    int len = sizeof(bound);
    int err = uv_tcp_init(server->loop, &server->listener);

    if (err < 0)
        return err;
    server->has_listener = true;
    server->listener.data = server;
    server->objects++;
    err = fd >= 0 ? uv_tcp_open(&server->listener, fd) : uv_tcp_bind(&server->listener, address, 0);
    if (err == 0)
        err = uv_listen((uv_stream_t *)&server->listener, SERVER_BACKLOG, server_incoming);
    if (err == 0)
        err = uv_tcp_getsockname(&server->listener, &bound.any, &len);
    if (err < 0)
        return err;
    server->is_listening = true;
    server->port = ntohs(bound.any.sa_family == AF_INET6 ? bound.six.sin6_port : bound.four.sin_port);
    return 0;
}

static bool server_has_ipv6(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool works;

    if (fd < 0)
        return false;
    works = bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0;
    (void)close(fd);
    return works;
}

int http_server_listen(struct http_server *server, const char *address, uint16_t port)
{
    struct sockaddr_storage storage = {0};
    int err;

    assert(!server->has_listener);

    if (!address[0])
        address = server_has_ipv6() ? "::" : "0.0.0.0";
    err = uv_ip4_addr(address, port, (struct sockaddr_in *)&storage);
    if (err < 0)
        err = uv_ip6_addr(address, port, (struct sockaddr_in6 *)&storage);
    return err < 0 ? err : server_open_listener(server, (struct sockaddr *)&storage, -1);
}

int http_server_listen_on(struct http_server *server, int fd)
{
    assert(!server->has_listener);
    assert(fd >= 0);

    return server_open_listener(server, NULL, fd);
}

static void server_handle_closed(uv_handle_t *handle)
{
    server_lost_object(handle->data);
}

static void server_stop_listening(struct http_server *server)
{
    if (server->has_listener && !uv_is_closing((uv_handle_t *)&server->listener))
        uv_close((uv_handle_t *)&server->listener, server_handle_closed);
    server->is_listening = false;
    server->is_accept_pending = false;
    server->is_accept_put_off = false;
}

void http_server_leave(struct http_server *server)
{
    server->is_leaving = true;
}

/* Clients whose connections the kernel has already accepted would be reset when the listener closes. */
static void server_accept_rest(struct http_server *server)
{
    uv_os_fd_t listener;

    if (!server->is_listening || uv_fileno((uv_handle_t *)&server->listener, &listener))
        return;
    if (server->is_accept_pending || server->is_accept_put_off)
        server_accept_one(server);
    for (unsigned i = 0; i < SERVER_BACKLOG; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0)
            return;
        if (http_server_adopt(server, fd, NULL, -1) < 0)
            (void)close(fd);
    }
}

void http_server_drain(struct http_server *server)
{
    server->is_leaving = true;
    server_accept_rest(server);
    server->is_draining = true;
    server_stop_listening(server);
    LIST_FOR_EACH (link, &server->all) {
        connection_drain(LIST_ENTRY(link, struct http_connection, link));
    }
}

void http_server_cut(struct http_server *server)
{
    LIST_FOR_EACH (link, &server->all) {
        connection_close(LIST_ENTRY(link, struct http_connection, link));
    }
}

void server_discount(struct http_server *server, struct http_connection *connection)
{
    if (connection->is_counted)
        server->connections--;
    connection->is_counted = false;
}

void server_lost_socket(struct http_server *server, struct http_connection *connection)
{
    server_discount(server, connection);
    clients_leave(&server->clients, TAKE(connection->client));
    reserve_remove(connection);
    list_remove(&connection->wait_link);
}

static void server_free(struct http_server *server)
{
    void (*closed)(void *arg) = server->closed;
    void *arg = server->closed_arg;

    while (server->buffers) {
        struct http_buffer *next = server->buffers->next;

        free(server->buffers);
        server->buffers = next;
    }
    while (server->requests) {
        struct http_request *next = server->requests->next_free;

        http_request_free(server->requests);
        server->requests = next;
    }
    router_release(&server->router);
    clients_release(&server->clients);
    free(server);
    if (closed)
        closed(arg);
}

void server_lost_object(struct http_server *server)
{
    assert(server->objects > 0);
    server->objects--;
    if (!server->is_closing)
        return;
    /* The idle handle goes last: until then somebody may still become ready. */
    if (server->objects == 1 && !uv_is_closing((uv_handle_t *)&server->idle))
        uv_close((uv_handle_t *)&server->idle, server_handle_closed);
    if (server->objects == 0)
        server_free(server);
}

void http_server_close(struct http_server *server, void (*closed)(void *arg), void *arg)
{
    assert(!server->is_closing);

    server->is_closing = true;
    server->is_leaving = true;
    server->is_draining = true;
    server->closed = closed;
    server->closed_arg = arg;
    server_stop_listening(server);
    uv_close((uv_handle_t *)&server->timer, server_handle_closed);
    http_server_cut(server);
}
