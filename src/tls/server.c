/*
 * server.c - listens and accepts, runs the timers and turns of all connections, and counts and
 * logs.
 */
#include "tls/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tls/connection.h"
#include "tls/context.h"
#include "tls/handshake.h"
#include "tls/wire.h"

enum {
    SERVER_BACKLOG = 1024, /* a second or two of handshakes: a client that waits longer gives up */
    SERVER_LINE_MAX =
        64, /* handshakes that wait for us; also how many are accepted in one turn of the loop */
    SERVER_LINE_SHARE = 4, /* of handshakes_max, where those are few */
    SERVER_TICK_MIN_MS = 10,
    SERVER_TICK_MAX_MS = 250,
    SERVER_LOG_MS = 1000,
    SERVER_HANDSHAKES_SHARE = 8, /* of the descriptors, for those of whom nothing is known yet */
};

static int server_count_in(struct tls_server *server, struct metrics *metrics)
{
    static const char *const names[HANDSHAKE_ENDS] = {
        [HANDSHAKE_OK] = "ok",           [HANDSHAKE_FAILED] = "failed",   [HANDSHAKE_TIMEOUT] = "timeout",
        [HANDSHAKE_CROWDED] = "crowded", [HANDSHAKE_REFUSED] = "refused",
    };
    static const char *const waits_names[TLS_WAITS] = {
        [TLS_WAIT_HELLO] = "hello", [TLS_WAIT_ANSWERED] = "answered", [TLS_WAIT_OWING] = "owing",
        [TLS_WAIT_SHARE] = "share", [TLS_WAIT_BUSY] = "busy",
    };
    static const char *const status[] = {"status"};
    static const char *const reason[] = {"reason"};
    struct metrics_family *handshakes =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_tls_handshakes_total",
                       "TLS handshakes, by how they ended.", status, 1, NULL, 0);
    struct metrics_family *connections =
        metrics_family(metrics, METRICS_GAUGE, "smart_router_tls_connections",
                       "TLS connections that are open, behind their handshake.", NULL, 0, NULL, 0);
    struct metrics_family *not_after =
        metrics_family(metrics, METRICS_GAUGE, "smart_router_tls_certificate_expiry_timestamp_seconds",
                       "Until when the certificate in use is valid.", NULL, 0, NULL, 0);

    struct metrics_family *dataless = metrics_family(
        metrics, METRICS_COUNTER, "smart_router_tls_dataless_records_total",
        "TLS records without data that clients sent behind their handshake.", NULL, 0, NULL, 0);
    struct metrics_family *cut = metrics_family(
        metrics, METRICS_COUNTER, "smart_router_tls_cut_total",
        "TLS connections cut because their client sent too many records without data, or asked for another "
        "handshake.",
        NULL, 0, NULL, 0);
    struct metrics_family *waits =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_tls_waits_total",
                       "Times that a TLS connection had to wait for a later turn of the event loop, by why.",
                       reason, 1, NULL, 0);

    if (!handshakes || !connections || !not_after || !dataless || !cut || !waits)
        return -ENOMEM;
    for (unsigned i = 0; i < TLS_WAITS; i++)
        server->waits[i] = metrics_series(waits, &waits_names[i]);
    for (unsigned i = 0; i < HANDSHAKE_ENDS; i++)
        server->handshakes[i] = metrics_series(handshakes, &names[i]);
    server->connections = metrics_series(connections, NULL);
    server->not_after = metrics_series(not_after, NULL);
    server->dataless = metrics_series(dataless, NULL);
    server->cut = metrics_series(cut, NULL);
    metrics_set(server->connections, 0);
    metrics_set(server->dataless, 0);
    metrics_set(server->cut, 0);
    return 0;
}

int tls_server_list_metrics(struct metrics *metrics)
{
    struct tls_server server = {0};

    return server_count_in(&server, metrics);
}

/* Who only connects must not take the descriptors that others need, those who ask for health among them. */
static size_t handshakes_max(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return TLS_HANDSHAKES_MAX;
    return max_u64(min_u64(TLS_HANDSHAKES_MAX, limit.rlim_cur / SERVER_HANDSHAKES_SHARE), 1);
}

static void server_go_on(struct list *link)
{
    tls_connection_go_on(LIST_ENTRY(link, struct tls_connection, turn_link));
}

static void server_step(struct list *link)
{
    tls_handshake_go_on(LIST_ENTRY(link, struct tls_connection, turn_link));
}

int tls_server_new(uv_loop_t *loop, const struct tls_settings *settings, struct metrics *metrics,
                   struct tls_server **ret_server, struct tls_notes *ret_notes,
                   struct tls_problem *ret_problem)
{
    struct tls_server *server;
    uint64_t shortest = min_u64(settings->handshake_timeout_ms, settings->write_timeout_ms);
    int err;

    assert(settings->accepted);
    assert(shortest > 0 && settings->max_connections > 0);

    server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->loop = loop;
    server->settings = *settings;
    server->fd = -1;
    server->handshakes_max = handshakes_max();
    server->tick_ms = min_u64(max_u64(shortest / 8, SERVER_TICK_MIN_MS), SERVER_TICK_MAX_MS);
    list_init(&server->handshaking);
    list_init(&server->open);
    list_init(&server->ending);
    tls_lines_init(&server->lines,
                   max_u64(min_u64(SERVER_LINE_MAX, server->handshakes_max / SERVER_LINE_SHARE), 1),
                   server_go_on, server_step);
    server->wire_method = tls_wire_method_new();
    err = server->wire_method ? server_count_in(server, metrics) : -ENOMEM;
    if (err == 0)
        err = tls_context_new(settings->certificate_file, settings->key_file, &server->context, ret_notes,
                              ret_problem);
    if (err < 0) {
        BIO_meth_free(server->wire_method);
        free(server);
        return err;
    }
    metrics_set(server->not_after, (double)ret_notes->not_after_s);
    err = uv_timer_init(loop, &server->timer);
    assert(err == 0); /* it never fails */
    err = uv_idle_init(loop, &server->turn);
    assert(err == 0); /* likewise */
    server->timer.data = server;
    server->turn.data = server;
    server->objects = 2;
    *ret_server = server;
    return 0;
}

int tls_server_reload(struct tls_server *server, struct tls_notes *ret_notes, struct tls_problem *ret_problem)
{
    SSL_CTX *context;
    int err = tls_context_new(server->settings.certificate_file, server->settings.key_file, &context,
                              ret_notes, ret_problem);

    if (err < 0)
        return err;
    SSL_CTX_free(server->context); /* sessions that came of it keep it */
    server->context = context;
    metrics_set(server->not_after, (double)ret_notes->not_after_s);
    return 0;
}

uint16_t tls_server_port(const struct tls_server *server)
{
    return server->port;
}

size_t tls_server_connections(const struct tls_server *server)
{
    return server->open_count;
}

void tls_server_count(struct tls_server *server, enum handshake_end end)
{
    metrics_add(server->handshakes[end], 1);
}

static void server_accept(uv_poll_t *poll, int status, int events);

static void server_resume_accepting(struct tls_server *server)
{
    if (server->is_accepting && !server->is_accept_paused && !server->is_accept_held)
        (void)uv_poll_start(&server->listener, UV_READABLE, server_accept);
}

static void server_tick(uv_timer_t *timer)
{
    struct tls_server *server = timer->data;
    uint64_t now_ms = uv_now(server->loop);

    if (server->is_accept_paused) {
        server->is_accept_paused = false;
        server_resume_accepting(server);
    }
    while (!list_is_empty(&server->handshaking)) {
        struct tls_connection *first = LIST_ENTRY(server->handshaking.next, struct tls_connection, link);

        if (first->deadline_ms > now_ms)
            break;
        tls_connection_give_up(first, HANDSHAKE_TIMEOUT);
    }
    LIST_FOR_EACH (link, &server->ending) {
        struct tls_connection *connection = LIST_ENTRY(link, struct tls_connection, ending_link);

        if (now_ms >= connection->deadline_ms ||
            now_ms - connection->moved_ms >= server->settings.write_timeout_ms)
            tls_connection_close(connection);
    }
    if (list_is_empty(&server->handshaking) && list_is_empty(&server->ending) && !server->is_accept_paused)
        (void)uv_timer_stop(timer);
}

void tls_server_tick_on(struct tls_server *server)
{
    if (!uv_is_active((uv_handle_t *)&server->timer) && !server->is_closing)
        (void)uv_timer_start(&server->timer, server_tick, server->tick_ms, server->tick_ms);
}

/* Those who are in line; then the loop polls, and everybody else comes. */
static void server_turn(uv_idle_t *idle)
{
    struct tls_server *server = idle->data;

    tls_lines_turn(&server->lines);
    if (server->is_accept_held && !tls_lines_are_behind(&server->lines)) {
        server->is_accept_held = false;
        server_resume_accepting(server);
    }
    if (tls_lines_are_empty(&server->lines)) {
        server->wants_turn = false;
        (void)uv_idle_stop(idle);
    }
}

static void server_turn_on(struct tls_server *server)
{
    if (server->wants_turn || server->is_closing)
        return;
    server->wants_turn = true;
    (void)uv_idle_start(&server->turn, server_turn);
}

bool tls_server_has_time(struct tls_server *server)
{
    return tls_lines_have_time(&server->lines, uv_now(server->loop));
}

void tls_server_count_wait(struct tls_server *server, enum tls_wait why)
{
    metrics_add(server->waits[why], 1);
}

void tls_server_wait(struct tls_server *server, struct list *link, enum tls_wait why)
{
    struct tls_lines *lines = &server->lines;
    struct list *const line[TLS_WAITS] = {
        [TLS_WAIT_HELLO] = &lines->hellos, [TLS_WAIT_ANSWERED] = &lines->answered,
        [TLS_WAIT_OWING] = &lines->owing,  [TLS_WAIT_SHARE] = &lines->again,
        [TLS_WAIT_BUSY] = &lines->again,
    };

    tls_server_count_wait(server, why);
    tls_lines_add(line[why], link);
    server_turn_on(server);
}

void tls_server_log_cut(struct tls_server *server, const char *peer)
{
    size_t count;

    metrics_add(server->cut, 1);
    if (log_repeat_is_due(&server->cuts, 1, uv_now(server->loop), SERVER_LOG_MS, &count))
        log_warn(
            "TLS connections cut: their clients sent records without data or asked for another handshake, "
            "which keeps the router busy; block them in front of the router if this goes on",
            log_str("peer", peer), log_num("connections", (int64_t)count));
}

static void server_log_refusals(struct tls_server *server)
{
    size_t count;

    if (log_repeat_is_due(&server->refusals, 1, uv_now(server->loop), SERVER_LOG_MS, &count))
        log_warn("too many TLS connections: new ones are closed",
                 log_num("connections", (int64_t)(server->open_count + server->handshaking_count)),
                 log_num("closed", (int64_t)count));
}

/*
 * The oldest handshake that waits for its client; NULL if none does. A client that waits for us is
 * not to blame. There are few of those, because nobody is accepted while there are many.
 */
static struct tls_connection *server_oldest_slow(struct tls_server *server)
{
    LIST_FOR_EACH (link, &server->handshaking) {
        struct tls_connection *connection = LIST_ENTRY(link, struct tls_connection, link);

        if (list_is_empty(&connection->turn_link))
            return connection;
    }
    return NULL;
}

static void server_take(struct tls_server *server, int fd, const struct sockaddr *address)
{
    bool is_full = server->open_count + server->handshaking_count >= server->settings.max_connections ||
                   server->handshaking_count >= server->handshakes_max;
    struct tls_connection *slow = is_full ? server_oldest_slow(server) : NULL;
    int err;

    if (is_full && !slow) {
        tls_server_count(server, HANDSHAKE_REFUSED);
        server_log_refusals(server);
        (void)close(fd);
        return;
    }
    /*
     * Those who are slow on purpose must not keep the others out: whoever means it has finished long before a
     * thousand others have come.
     */
    if (slow)
        tls_connection_give_up(slow, HANDSHAKE_CROWDED);
    err = tls_connection_new(server, fd, address);
    if (err < 0) {
        tls_server_count(server, HANDSHAKE_FAILED);
        (void)close(fd);
    }
}

void tls_server_log_failure(struct tls_server *server, int err)
{
    if (log_repeat_is_due(&server->accept_failures, 1, uv_now(server->loop), SERVER_LOG_MS, NULL))
        log_warn("a TLS connection could not be accepted", log_str("error", strerror(-err)));
}

static void server_pause_accepting(struct tls_server *server)
{
    server->is_accept_paused = true;
    (void)uv_poll_stop(&server->listener);
    tls_server_tick_on(server);
}

static void server_accept_some(struct tls_server *server, unsigned max)
{
    for (unsigned i = 0; i < max; i++) {
        struct sockaddr_storage address;
        socklen_t len = sizeof(address);
        int fd = accept4(server->fd, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            server_take(server, fd, (struct sockaddr *)&address);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR)
            continue;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            tls_server_log_failure(server, -errno);
            server_pause_accepting(server);
        }
        return;
    }
}

/*
 * While we are behind with handshakes, new clients wait in the kernel, which makes them slower. If they were
 * accepted they would have to be given up again, and honest ones with them.
 */
static void server_accept(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
    struct tls_server *server = poll->data;

    if (tls_lines_are_behind(&server->lines)) {
        server->is_accept_held = true; /* until a turn finds that we are not any more */
        (void)uv_poll_stop(&server->listener);
        return;
    }
    server_accept_some(server, (unsigned)server->lines.line_max);
}

union socket_address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* On failure there is no socket. */
static int server_bind_at(struct tls_server *server, const union socket_address *address)
{
    bool is_six = address->any.sa_family == AF_INET6;
    const int yes = 1;
    const int no = 0;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int err;

    if (fd < 0)
        return -errno;
    if (is_six)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, &address->any, is_six ? sizeof(address->six) : sizeof(address->four)) < 0) {
        err = -errno;
        (void)close(fd);
        return err;
    }
    server->fd = fd;
    return 0;
}

static int server_bind(struct tls_server *server, const char *text, uint16_t port)
{
    union socket_address four = {.four = {.sin_family = AF_INET, .sin_port = htons(port)}};
    union socket_address six = {.six = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
    int err;

    if (text[0] && inet_pton(AF_INET, text, &four.four.sin_addr) == 1)
        return server_bind_at(server, &four);
    if (text[0])
        return inet_pton(AF_INET6, text, &six.six.sin6_addr) == 1 ? server_bind_at(server, &six) : -EINVAL;
    /* All addresses: those of IPv4 alone where there is no IPv6. */
    err = server_bind_at(server, &six);
    return err == -EADDRNOTAVAIL || err == -EAFNOSUPPORT ? server_bind_at(server, &four) : err;
}

/* Of the bound socket server->fd, which is closed on failure. */
static int server_start_listening(struct tls_server *server)
{
    union socket_address address = {.six = {0}};
    socklen_t len = sizeof(address);
    int err = 0;

    if (listen(server->fd, SERVER_BACKLOG) < 0)
        err = -errno;
    if (err == 0 && getsockname(server->fd, &address.any, &len) < 0)
        err = -errno;
    if (err == 0)
        err = uv_poll_init(server->loop, &server->listener, server->fd);
    if (err != 0) {
        (void)close(server->fd);
        server->fd = -1;
        return err;
    }
    server->listener.data = server;
    server->objects++;
    server->is_accepting = true;
    server->port = ntohs(address.any.sa_family == AF_INET6 ? address.six.sin6_port : address.four.sin_port);
    return uv_poll_start(&server->listener, UV_READABLE, server_accept);
}

int tls_server_listen(struct tls_server *server, const char *text, uint16_t port)
{
    int err;

    assert(server->fd < 0);

    err = server_bind(server, text, port);
    return err < 0 ? err : server_start_listening(server);
}

int tls_server_listen_on(struct tls_server *server, int fd)
{
    int flags = fcntl(fd, F_GETFL);

    assert(server->fd < 0);
    assert(fd >= 0);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    server->fd = fd;
    return server_start_listening(server);
}

static void server_handle_closed(uv_handle_t *handle)
{
    tls_server_lost_object(handle->data);
}

static void server_stop_accepting(struct tls_server *server)
{
    if (!server->is_accepting)
        return;
    server->is_accepting = false;
    uv_close((uv_handle_t *)&server->listener, server_handle_closed);
    (void)close(server->fd);
    server->fd = -1;
}

void tls_server_leave(struct tls_server *server)
{
    /* Clients whose connections the kernel has already accepted would be reset when the listener closes. */
    if (server->is_accepting)
        server_accept_some(server, SERVER_BACKLOG);
    server_stop_accepting(server);
}

size_t tls_server_handshakes(const struct tls_server *server)
{
    return server->handshaking_count;
}

void tls_server_drain(struct tls_server *server)
{
    server_stop_accepting(server);
    LIST_FOR_EACH (link, &server->handshaking) {
        tls_connection_close(LIST_ENTRY(link, struct tls_connection, link));
    }
}

void tls_server_lost_object(struct tls_server *server)
{
    void (*closed)(void *arg) = server->closed;
    void *arg = server->closed_arg;

    assert(server->objects > 0);
    if (--server->objects > 0)
        return;
    assert(server->is_closing);
    SSL_CTX_free(server->context);
    BIO_meth_free(server->wire_method);
    free(server);
    closed(arg);
}

void tls_server_close(struct tls_server *server, void (*closed)(void *arg), void *arg)
{
    assert(!server->is_closing);

    server->is_closing = true;
    server->closed = closed;
    server->closed_arg = arg;
    tls_server_drain(server);
    LIST_FOR_EACH (link, &server->open) {
        tls_connection_close(LIST_ENTRY(link, struct tls_connection, link));
    }
    uv_close((uv_handle_t *)&server->timer, server_handle_closed);
    uv_close((uv_handle_t *)&server->turn, server_handle_closed);
}
