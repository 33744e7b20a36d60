/*
 * reserve.c - admits a few connections above the limit, so that vital paths are still answered.
 */
#include "http/reserve.h"

#include <sys/resource.h>

#include "base/log.h"
#include "http/evict.h"

enum {
    RESERVE_SPARE = 32, /* descriptors for everything that is not a client */
    RESERVE_LOG_MS = 10 * 1000,
};

static const char too_many[] = "too many connections";

void reserve_init(struct http_server *server)
{
    struct rlimit limit;

    list_init(&server->reserve);
    server->descriptors_max = INT32_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        server->descriptors_max = min_u64(limit.rlim_cur, INT32_MAX);
    /* Where there are few, they are shared out: half for clients that are let in, and a little for each
     * other. */
    server->descriptors_reserved = min_u64(HTTP_RESERVE_MAX + RESERVE_SPARE, server->descriptors_max / 4);
}

/* The kernel gives out the lowest number that is free: one as high as that means that all below are taken. */
static bool is_beyond(const struct http_server *server, const uv_tcp_t *tcp, uint64_t kept)
{
    uv_os_fd_t fd;

    if (uv_fileno((const uv_handle_t *)tcp, &fd))
        return false;
    return (uint64_t)fd + kept >= server->descriptors_max;
}

static bool reserve_client_is_full(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    size_t count;

    if (clients_enter(&server->clients, connection->peer, &connection->client) == 0)
        return false;
    if (log_repeat_is_due(&server->crowded, 1, uv_now(server->loop), RESERVE_LOG_MS, &count))
        log_warn("too many connections of one client: more of them are refused. If this address is a proxy "
                 "or a load balancer, name it in TRUSTED_PROXIES",
                 log_str("peer", connection->peer), log_num("port", server->port),
                 log_num("max_connections_per_client", (int64_t)server->settings.max_connections_per_client),
                 log_num("refused", (int64_t)count));
    return true;
}

bool reserve_is_needed(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    bool is_full = server->connections >= server->settings.max_connections;

    if (reserve_client_is_full(connection))
        return true;
    if (is_beyond(server, connection->tcp, server->descriptors_reserved))
        is_full = false;
    else if (!is_full || evict_one(server))
        return false;
    if (!log_repeat_is_due(&server->crowds, 1, uv_now(server->loop), RESERVE_LOG_MS, NULL))
        return true;
    log_warn(is_full ? "too many connections, and none is idle: more are refused"
                     : "descriptors are nearly used up: more connections are refused",
             log_num("connections", (int64_t)server->connections), log_num("port", server->port),
             log_num("max_connections", (int64_t)server->settings.max_connections),
             log_num("open_files_limit", (int64_t)server->descriptors_max),
             log_num("refused", (int64_t)server->refused));
    return true;
}

static bool is_unanswered(const struct http_connection *connection)
{
    if (connection_is_gone(connection) || connection->is_lingering)
        return false;
    return !connection->request || connection->request->state == REQUEST_READING;
}

static void reserve_turn_away(struct http_connection *connection)
{
    connection->server->refused++;
    connection_refuse(connection, 503, too_many);
}

static void reserve_evict(struct http_connection *connection)
{
    /*
     * In a flood many connections are accepted before the first of them is read. Whoever has sent its request
     * in time is answered, however many came after it.
     */
    if (is_unanswered(connection))
        connection_hurry(connection);
    if (is_unanswered(connection))
        reserve_turn_away(connection);
    connection_close(connection);
    reserve_remove(connection);
}

void reserve_add(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    bool is_last = is_beyond(server, connection->tcp, server->descriptors_reserved / 2);
    unsigned evicted = is_last ? 2 : server->reserve_count >= HTTP_RESERVE_MAX; /* two make them fewer */

    while (evicted-- > 0 && !list_is_empty(&server->reserve))
        reserve_evict(LIST_ENTRY(server->reserve.next, struct http_connection, reserve_link));
    list_append(&server->reserve, &connection->reserve_link);
    server->reserve_count++;
    connection->is_over_limit = true;
}

void reserve_remove(struct http_connection *connection)
{
    if (!connection->is_over_limit)
        return;
    connection->is_over_limit = false;
    list_remove(&connection->reserve_link);
    connection->server->reserve_count--;
}

bool reserve_admits(struct http_connection *connection)
{
    struct http_request *request = connection->request;

    if (!connection->is_over_limit || !request->header_done)
        return true;
    assert(request->is_looked_up);
    if (request->match_err == 0 && request->match.route->row->is_vital)
        return true;
    connection->server->refused++;
    http_refuse(request, 503, too_many);
    return false;
}

void reserve_expire(struct http_connection *connection)
{
    if (is_unanswered(connection))
        reserve_turn_away(connection);
    else
        connection_close(connection);
}

void reserve_free_descriptor(struct http_server *server)
{
    static const enum http_wait order[] = {WAIT_LINGER, WAIT_SILENT, WAIT_IDLE, WAIT_READ, WAIT_WRITE};

    if (!list_is_empty(&server->reserve)) {
        reserve_evict(LIST_ENTRY(server->reserve.next, struct http_connection, reserve_link));
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        struct list *waiting = &server->waiting[order[i]];

        if (!list_is_empty(waiting)) {
            connection_reset(LIST_ENTRY(waiting->next, struct http_connection, wait_link));
            return;
        }
    }
}
