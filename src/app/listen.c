/*
 * listen.c - checks the addresses of the listeners, opens them, and logs where they are or why
 * they failed.
 */
#include "app/listen.h"

#include <stdio.h>

#include "base/log.h"
#include "http/address.h"

enum { MESSAGE_MAX = 256 };

/* Where a listener is to be, and the variables that say so. */
struct place {
    const char *name;
    const char *address; /* "": all */
    const char *address_variable;
    const char *port_variable;
    uint16_t port;
    int fd; /* -1: it opens a socket itself */
};

void check_binds(struct config *config)
{
    const struct settings *settings = config_settings(config);
    const struct {
        const char *name;
        const char *text;
    } binds[] = {
        {"HTTP_BIND", settings->http_bind},
        {"METRICS_BIND", settings->metrics_bind},
        {"TLS_BIND", settings->tls_bind},
    };
    struct address address;

    for (size_t i = 0; i < ARRAY_LEN(binds); i++) {
        if (binds[i].text[0] && address_parse(slice_of(binds[i].text), &address) < 0)
            config_add_error(config, binds[i].name,
                             "is not an IP address such as 127.0.0.1 or ::1; names are not looked up");
    }
}

/* A listener without an address of its own is where the API is. */
static void place_set_address(struct place *place, const struct settings *settings, const char *address,
                              const char *variable)
{
    place->address = address[0] ? address : settings->http_bind;
    place->address_variable = address[0] ? variable : "HTTP_BIND";
}

static const char *place_text(const struct place *place)
{
    if (place->fd >= 0)
        return "inherited";
    return place->address[0] ? place->address : "all";
}

/* `err` and `port` are what came of it. */
static int place_log(const struct place *place, int err, uint16_t port)
{
    char message[MESSAGE_MAX];

    if (err == 0) {
        log_info("listening", log_str("name", place->name), log_str("address", place_text(place)),
                 log_num("port", port));
        return 0;
    }
    if (place->fd >= 0)
        snprintf(message, sizeof(message), "cannot listen on the socket that was inherited for %s",
                 place->name);
    else if (err == -EADDRINUSE)
        snprintf(message, sizeof(message), "port %u is in use: set %s to another, or stop what listens there",
                 place->port, place->port_variable);
    else if (err == -EADDRNOTAVAIL && place->address[0])
        snprintf(message, sizeof(message),
                 "this machine does not have the address %s: set %s to one that it has, or to none for all",
                 place->address, place->address_variable);
    else
        snprintf(message, sizeof(message), "cannot listen on port %u (%s)", place->port,
                 place->port_variable);
    log_error(message, log_num("port", place->port), log_str("address", place_text(place)),
              log_str("error", strerror(-err)));
    return err;
}

static int listen_at(const struct place *place, struct http_server *server)
{
    int err = place->fd >= 0 ? http_server_listen_on(server, place->fd)
                             : http_server_listen(server, place->address, place->port);

    return place_log(place, err, http_server_port(server));
}

static int listen_http(const struct settings *settings, int fd, struct http_server *server)
{
    struct place place = {
        .name = "http", .port = settings->http_port, .port_variable = "HTTP_PORT", .fd = fd};

    place_set_address(&place, settings, settings->http_bind, "HTTP_BIND");
    return listen_at(&place, server);
}

static int listen_metrics(const struct settings *settings, int fd, struct http_server *server)
{
    struct place place = {
        .name = "metrics", .port = settings->metrics_port, .port_variable = "METRICS_PORT", .fd = fd};

    place_set_address(&place, settings, settings->metrics_bind, "METRICS_BIND");
    return listen_at(&place, server);
}

static int listen_tls(const struct settings *settings, int fd, struct tls_server *server)
{
    struct place place = {.name = "https", .port = settings->tls_port, .port_variable = "TLS_PORT", .fd = fd};
    int err;

    if (!server && fd >= 0) {
        log_error("a socket was inherited for https, but there is no certificate: set TLS_CERT_FILE and "
                  "TLS_KEY_FILE, or take the socket away");
        return -EINVAL;
    }
    if (!server)
        return 0;
    place_set_address(&place, settings, settings->tls_bind, "TLS_BIND");
    err = fd >= 0 ? tls_server_listen_on(server, fd) : tls_server_listen(server, place.address, place.port);
    return place_log(&place, err, tls_server_port(server));
}

int listen_all(const struct settings *settings, struct http_server *http, struct tls_server *tls,
               struct http_server *metrics)
{
    struct inherited inherited;
    char error[MESSAGE_MAX];
    int err = inherited_find(&inherited, error, sizeof(error));

    if (err < 0) {
        log_error("the sockets that the router was started with are of no use", log_str("error", error));
        return err;
    }
    err = listen_http(settings, inherited.fds[INHERITED_HTTP], http);
    if (err == 0)
        err = listen_tls(settings, inherited.fds[INHERITED_HTTPS], tls);
    if (err == 0)
        err = listen_metrics(settings, inherited.fds[INHERITED_METRICS], metrics);
    return err;
}
