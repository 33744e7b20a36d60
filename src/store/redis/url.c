/*
 * url.c - where Redis is, from the settings' text. The texts of errors never hold what stood in the URL,
 * because that may be a password.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "store/redis/reply.h"

enum {
    URL_REDIS_PORT = 6379,
    URL_SENTINEL_PORT = 26379,
    URL_DATABASE_MAX = 65535,
};

struct url_error {
    char *text;
    size_t size;
};

static int PRINTF_LIKE(2, 3) url_refuse(const struct url_error *error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error->text, error->size, format, args);
    va_end(args);
    return -EINVAL;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* False: not only digits, or more than `max`. */
static bool parse_number(struct slice text, unsigned long max, unsigned long *ret_number)
{
    unsigned long number = 0;

    if (text.len == 0 || text.len > 9)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        number = number * 10 + (unsigned long)(text.data[i] - '0');
    }
    if (number > max)
        return false;
    *ret_number = number;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes and adds a NUL; returns the bytes used with it, 0 if it does not fit or is not well-formed. */
static size_t percent_decode(struct slice text, char *out, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '%') {
            int high = text.len - i > 2 ? hex_digit(text.data[i + 1]) : -1;
            int low = text.len - i > 2 ? hex_digit(text.data[i + 2]) : -1;

            if (high < 0 || low < 0 || (high == 0 && low == 0))
                return 0;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (used + 1 >= size)
            return 0;
        out[used++] = c;
    }
    if (size == 0)
        return 0;
    out[used] = '\0';
    return used + 1;
}

/* "user:password" or ":password". */
static int parse_credentials(struct slice info, struct redis_link_settings *settings, char *credentials,
                             size_t credentials_size, const struct url_error *error)
{
    const char *colon = memchr(info.data, ':', info.len);
    struct slice user;
    struct slice password;
    size_t used;

    if (!colon || (size_t)(colon - info.data) + 1 == info.len)
        return url_refuse(error, "there is a user but no password; write redis://user:password@host or "
                                 "redis://:password@host");
    user = (struct slice){info.data, (size_t)(colon - info.data)};
    password = (struct slice){colon + 1, info.len - user.len - 1};
    used = percent_decode(user, credentials, credentials_size);
    if (used == 0 || percent_decode(password, credentials + used, credentials_size - used) == 0)
        return url_refuse(error,
                          "user and password must be percent-encoded (%%40 for @), without %%00, and "
                          "not longer than %zu bytes",
                          credentials_size);
    settings->user = credentials;
    settings->password = credentials + used;
    return 0;
}

/* "host", "host:port", "[::1]:port" */
static int parse_host(struct slice text, unsigned long default_port, struct redis_address *ret_address,
                      const struct url_error *error)
{
    struct slice host = text;
    const char *colon = NULL;
    unsigned long port = default_port;

    if (text.len > 0 && text.data[0] == '[') {
        const char *bracket = memchr(text.data, ']', text.len);

        if (!bracket)
            return url_refuse(error, "the ] of an IPv6 address is missing");
        host = (struct slice){text.data + 1, (size_t)(bracket - text.data) - 1};
        if (bracket + 1 < text.data + text.len)
            colon = bracket + 1;
        if (colon && *colon != ':')
            return url_refuse(error, "a port after ] needs a colon");
    } else {
        colon = memchr(text.data, ':', text.len);
        if (colon)
            host.len = (size_t)(colon - text.data);
    }
    if (colon) {
        struct slice digits = {colon + 1, (size_t)(text.data + text.len - colon) - 1};

        if (!parse_number(digits, UINT16_MAX, &port) || port == 0)
            return url_refuse(error, "the port must be a number from 1 to 65535; an IPv6 address needs []");
    }
    if (host.len == 0)
        return url_refuse(error, "the host is missing");
    if (!address_set(ret_address, host, (long long)port))
        return url_refuse(error, "the host is too long");
    return 0;
}

static int parse_database(struct slice text, struct redis_link_settings *settings,
                          const struct url_error *error)
{
    unsigned long number;

    if (!parse_number(text, URL_DATABASE_MAX, &number))
        return url_refuse(error, "the database must be a number from 0 to %d", URL_DATABASE_MAX);
    settings->database = (int)number;
    return 0;
}

/* Cuts "?db=n" off; nothing else may be asked for. */
static int parse_query(struct slice *rest, struct redis_link_settings *settings,
                       const struct url_error *error)
{
    const char *question = memchr(rest->data, '?', rest->len);
    struct slice query;

    if (!question)
        return 0;
    query = (struct slice){question + 1, (size_t)(rest->data + rest->len - question) - 1};
    rest->len = (size_t)(question - rest->data);
    if (query.len < 3 || memcmp(query.data, "db=", 3) != 0)
        return url_refuse(error, "after ? only db=NUMBER is known");
    return parse_database((struct slice){query.data + 3, query.len - 3}, settings, error);
}

/* Cuts "user:password@" off. The last @ counts: passwords are pasted without encoding them. */
static int parse_user(struct slice *rest, struct redis_link_settings *settings, char *credentials,
                      size_t credentials_size, const struct url_error *error)
{
    const char *slash = memchr(rest->data, '/', rest->len);
    size_t len = slash ? (size_t)(slash - rest->data) : rest->len;
    const char *at = memrchr(rest->data, '@', len);
    struct slice info;

    if (!at)
        return 0;
    info = (struct slice){rest->data, (size_t)(at - rest->data)};
    rest->len -= info.len + 1;
    rest->data = at + 1;
    return parse_credentials(info, settings, credentials, credentials_size, error);
}

static int parse_socket(struct slice path, struct redis_link_settings *settings,
                        const struct url_error *error)
{
    struct sockaddr_un socket_address;

    if (path.len < 2 || path.data[0] != '/')
        return url_refuse(error, "the path of the socket must begin with /, as in unix:///run/redis.sock");
    if (percent_decode(path, settings->server.host, sizeof(socket_address.sun_path)) == 0)
        return url_refuse(error, "the path of the socket is too long or not well encoded");
    settings->server.port = 0;
    return 0;
}

static int parse_server(struct slice rest, struct redis_link_settings *settings,
                        const struct url_error *error)
{
    const char *slash = memchr(rest.data, '/', rest.len);
    struct slice host = rest;

    if (slash) {
        struct slice database = {slash + 1, (size_t)(rest.data + rest.len - slash) - 1};
        int rc = database.len > 0 ? parse_database(database, settings, error) : 0;

        if (rc)
            return rc;
        host.len = (size_t)(slash - rest.data);
    }
    return parse_host(host, URL_REDIS_PORT, &settings->server, error);
}

int redis_link_parse_url(const char *url, struct redis_link_settings *settings, char *credentials,
                         size_t credentials_size, char *error_text, size_t error_size)
{
    const struct url_error error = {error_text, error_size};
    struct slice rest;
    bool is_socket = starts_with(url, "unix://");
    int rc;

    assert(credentials_size > 0);
    settings->user = "";
    settings->password = "";
    settings->database = 0;
    if (starts_with(url, "rediss://")) {
        (void)url_refuse(&error, "rediss:// needs TLS, which the installed hiredis does not have");
        return -ENOTSUP;
    }
    if (!is_socket && !starts_with(url, "redis://"))
        return url_refuse(&error, "it must begin with redis:// or unix://");
    rest = slice_of(strstr(url, "://") + 3);
    rc = parse_user(&rest, settings, credentials, credentials_size, &error);
    if (rc == 0)
        rc = parse_query(&rest, settings, &error);
    if (rc == 0)
        rc = is_socket ? parse_socket(rest, settings, &error) : parse_server(rest, settings, &error);
    return rc;
}

int redis_link_parse_sentinels(const char *text, struct redis_link_settings *settings, char *error_text,
                               size_t error_size)
{
    const struct url_error error = {error_text, error_size};

    settings->sentinel_count = 0;
    for (const char *at = text; at;) {
        const char *comma = strchr(at, ',');
        struct slice one = {at, comma ? (size_t)(comma - at) : strlen(at)};
        int rc;

        while (one.len > 0 && one.data[0] == ' ') {
            one.data++;
            one.len--;
        }
        while (one.len > 0 && one.data[one.len - 1] == ' ')
            one.len--;
        if (settings->sentinel_count == REDIS_SENTINELS_MAX)
            return url_refuse(&error, "more than %d sentinels", REDIS_SENTINELS_MAX);
        rc = parse_host(one, URL_SENTINEL_PORT, &settings->sentinels[settings->sentinel_count], &error);
        if (rc)
            return rc;
        settings->sentinel_count++;
        at = comma ? comma + 1 : NULL;
    }
    return 0;
}
