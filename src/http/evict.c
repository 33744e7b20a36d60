/*
 * evict.c - chooses the connection to close when a new one needs its place, or when large buffers
 * use too much memory.
 */
#include "http/evict.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "base/log.h"

enum { EVICT_LOG_MS = 10 * 1000 };

static bool socket_has_bytes(int fd)
{
    int count = 0;

    return ioctl(fd, FIONREAD, &count) == 0 && count > 0;
}

/* Has something come that has not been read yet? Then the client is about to be served. */
static bool has_unread(const struct http_connection *connection)
{
    uv_os_fd_t fd;

    if (uv_fileno((const uv_handle_t *)connection->tcp, &fd))
        return true;
    /* A TLS client's socket may be closed already and its number another's: at worst a look too cautious. */
    return socket_has_bytes(fd) || (connection->tls_fd >= 0 && socket_has_bytes(connection->tls_fd));
}

static uint64_t waited_ms(const struct http_connection *connection)
{
    const struct http_server *server = connection->server;

    return uv_now(server->loop) + server->wait_ms[connection->wait] - connection->deadline_ms;
}

/*
 * Has something come on a TLS client's socket since this connection waits? It is a part of a record then,
 * which nobody can read before the rest is there.
 */
static bool has_record_under_way(const struct http_connection *connection)
{
    enum { SLACK_MS = 50 }; /* between what the kernel and the loop think is now */
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    if (connection->tls_fd < 0 || getsockopt(connection->tls_fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return false;
    return info.tcpi_last_data_recv + SLACK_MS < waited_ms(connection) &&
           info.tcpi_last_data_recv < connection->server->wait_ms[WAIT_READ];
}

/*
 * Of those that wait for the same thing the one that has done so longest, and for `min_ms` at least; with
 * `spare_records` none of which a part of a record has come.
 */
static struct http_connection *oldest_of(struct http_server *server, enum http_wait wait, uint64_t min_ms,
                                         bool spare_records)
{
    unsigned looks = 0;

    LIST_FOR_EACH (link, &server->waiting[wait]) {
        struct http_connection *connection = LIST_ENTRY(link, struct http_connection, wait_link);

        if (connection->is_over_limit || !connection->is_counted)
            continue; /* it has taken no room; there are few of these */
        if (waited_ms(connection) < min_ms || looks++ == EVICT_LOOKS_MAX)
            break;
        if (spare_records && has_record_under_way(connection))
            continue;
        if (wait == WAIT_LINGER || !has_unread(connection))
            return connection;
    }
    return NULL;
}

/* The oldest of those that are slow, or have been. The slow ones are in front. */
static struct http_connection *oldest_slow(struct http_server *server)
{
    unsigned looks = 0;

    LIST_FOR_EACH (link, &server->waiting[WAIT_READ]) {
        struct http_connection *connection = LIST_ENTRY(link, struct http_connection, wait_link);
        bool is_slow = connection->was_slow || waited_ms(connection) >= EVICT_HASTE_MS;

        if (looks++ == EVICT_LOOKS_MAX)
            break;
        if (is_slow && connection->is_counted && !has_unread(connection))
            return connection;
    }
    return NULL;
}

void evict_note_read(struct http_connection *connection)
{
    if (connection->wait == WAIT_READ && waited_ms(connection) >= EVICT_HASTE_MS)
        connection->was_slow = true;
}

static size_t socket_unsent(int fd)
{
    int count = 0;

    return ioctl(fd, SIOCOUTQ, &count) == 0 && count > 0 ? (size_t)count : 0;
}

/*
 * How much of an answer is on its way, here and in the kernel. The kernel takes so much ahead that what waits
 * here says nothing for seconds.
 */
static size_t connection_unsent(const struct http_connection *connection)
{
    size_t count = uv_stream_get_write_queue_size((const uv_stream_t *)connection->tcp);
    uv_os_fd_t fd;

    if (uv_fileno((const uv_handle_t *)connection->tcp, &fd) == 0)
        count += socket_unsent(fd);
    return count + (connection->tls_fd >= 0 ? socket_unsent(connection->tls_fd) : 0);
}

void evict_note_write(struct http_connection *connection)
{
    struct http_server *server = connection->server;

    connection->unsent = connection_unsent(connection);
    connection->unsent_ms = uv_now(server->loop);
    list_remove(&connection->unsent_link);
    list_append(&server->unread, &connection->unsent_link);
}

/* Whoever has taken something goes to the end of the list, where it has its time again. */
static struct http_connection *oldest_unread(struct http_server *server)
{
    uint64_t now_ms = uv_now(server->loop);
    unsigned looks = 0;

    LIST_FOR_EACH (link, &server->unread) {
        struct http_connection *connection = LIST_ENTRY(link, struct http_connection, unsent_link);
        size_t unsent;

        if (now_ms - connection->unsent_ms < EVICT_PATIENCE_MS || looks++ == EVICT_LOOKS_MAX)
            break;
        if (!connection->is_counted || !connection->request || connection->request->state != REQUEST_WRITING)
            continue;
        unsent = connection_unsent(connection);
        /* Bytes that go through TLS count a little more or less on their way. */
        if (max_u64(unsent, connection->unsent) - min_u64(unsent, connection->unsent) < EVICT_TAKEN_MIN)
            return connection;
        evict_note_write(connection);
    }
    return NULL;
}

/* Of those on which nothing is asked. */
static struct http_connection *choose_idle(struct http_server *server, bool spare_records)
{
    struct http_connection *silent = oldest_of(server, WAIT_SILENT, 0, spare_records);
    struct http_connection *other;

    if (silent && waited_ms(silent) >= EVICT_PATIENCE_MS)
        return silent;
    other = oldest_of(server, WAIT_LINGER, 0, false);
    if (other)
        return other;
    other = oldest_of(server, WAIT_IDLE, 0, spare_records);
    if (silent && other)
        return waited_ms(silent) > waited_ms(other) ? silent : other;
    return silent ? silent : other;
}

static struct http_connection *evict_choose(struct http_server *server)
{
    struct http_connection *connection = choose_idle(server, true);

    if (!connection)
        connection = choose_idle(server, false);
    if (!connection)
        connection = oldest_of(server, WAIT_READ, EVICT_PATIENCE_MS, false);
    if (!connection)
        connection = oldest_unread(server);
    return connection ? connection : oldest_slow(server);
}

/* For the log. */
static const char *evict_reason(const struct http_connection *connection)
{
    switch (connection->wait) {
    case WAIT_READ:
        return "slow to send its request";
    case WAIT_WRITE:
        return "does not read its answer";
    case WAIT_LINGER:
        return "was refused and stayed";
    default:
        return "idle";
    }
}

static void evict_log(struct http_server *server, const struct http_connection *connection)
{
    size_t count;

    if (!log_repeat_is_due(&server->evictions, 1, uv_now(server->loop), EVICT_LOG_MS, &count))
        return;
    log_warn("too many connections: one is closed for each new one, first those that have been idle longest, "
             "then those that are slow; raise MAX_CONNECTIONS if these are clients that you want",
             log_num("port", server->port), log_num("connections", (int64_t)server->connections),
             log_num("max_connections", (int64_t)server->settings.max_connections),
             log_num("closed", (int64_t)count), log_str("peer", connection->peer),
             log_str("reason", evict_reason(connection)),
             log_num("waited_ms", (int64_t)waited_ms(connection)));
}

bool evict_one(struct http_server *server)
{
    struct http_connection *connection = evict_choose(server);

    if (!connection)
        return false;
    evict_log(server, connection);
    server->evicted++;
    /* Its socket closes at the end of this turn of the loop, but its place is free now. */
    server_discount(server, connection);
    if (connection->wait == WAIT_READ)
        connection_refuse(connection, 503, "too many connections");
    if (connection->wait == WAIT_WRITE)
        connection_reset(connection); /* nobody is going to read what the kernel still has */
    else
        connection_close(connection);
    return true;
}

void evict_large(struct http_connection *connection, size_t wanted)
{
    struct http_server *server = connection->server;
    unsigned looks = 0;

    LIST_FOR_EACH (link, &server->large_ones) {
        struct http_connection *other = LIST_ENTRY(link, struct http_connection, large_link);

        if (server->large + wanted <= HTTP_LARGE_MAX || looks++ == EVICT_LOOKS_MAX)
            return;
        if (other != connection && other->wait == WAIT_READ && waited_ms(other) >= EVICT_PATIENCE_MS &&
            !has_unread(other))
            connection_refuse(other, 503, "too many large requests at once");
    }
}
