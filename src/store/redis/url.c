/*
 * url.c - where Redis is, from the settings' text. The texts of errors never hold what stood in the
 * URL, because that may be a password.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "base/hex.h"
#include "base/slice.h"
#include "store/redis/address.h"

enum {
    URL_REDIS_PORT = 6379,
    URL_SENTINEL_PORT = 26379,
    URL_DATABASE_MAX = 65535,
    URL_DATABASE_NONE = -1,
};

struct url_error {
    char *text;
    size_t size;
};

/* The rest of the caller's memory for users and passwords. */
struct url_credentials {
    char *data;
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

static bool slice_starts_with(struct slice text, const char *start)
{
    return text.len >= strlen(start) && memcmp(text.data, start, strlen(start)) == 0;
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

/*
 * Decodes and adds a NUL; returns the bytes used with it, 0 if it does not fit or is not
 * well-formed.
 */
static size_t percent_decode(struct slice text, char *out, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '%') {
            int high = text.len - i > 2 ? hex_value(text.data[i + 1]) : -1;
            int low = text.len - i > 2 ? hex_value(text.data[i + 2]) : -1;

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

/* Those of the first URL that has any count for all; the others may repeat them. */
static int take_credentials(struct redis_link_settings *settings, const char *user, const char *password,
                            const struct url_error *error)
{
    if (!settings->password[0]) {
        settings->user = user;
        settings->password = password;
    } else if (strcmp(settings->user, user) != 0 || strcmp(settings->password, password) != 0) {
        return url_refuse(error, "the URLs of the list have different users or passwords; they must be the "
                                 "same, or left out in all but one");
    }
    return 0;
}

/* "user:password" or ":password". */
static int parse_credentials(struct slice info, struct redis_link_settings *settings,
                             struct url_credentials *credentials, const struct url_error *error)
{
    const char *colon = memchr(info.data, ':', info.len);
    char *decoded = credentials->data;
    struct slice user;
    struct slice password;
    size_t used;
    size_t more;

    if (!colon || (size_t)(colon - info.data) + 1 == info.len)
        return url_refuse(error, "there is a user but no password; write redis://user:password@host or "
                                 "redis://:password@host");
    user = (struct slice){info.data, (size_t)(colon - info.data)};
    password = (struct slice){colon + 1, info.len - user.len - 1};
    if (memchr(user.data, ',', user.len))
        return url_refuse(error,
                          "user and password come first and all hosts stand behind the @; a comma in a "
                          "user is written %%2C");
    used = percent_decode(user, decoded, credentials->size);
    more = used ? percent_decode(password, decoded + used, credentials->size - used) : 0;
    if (more == 0)
        return url_refuse(error,
                          "user and password must be percent-encoded (%%40 for @), without %%00, and "
                          "not longer than %zu bytes",
                          credentials->size);
    credentials->data += used + more;
    credentials->size -= used + more;
    return take_credentials(settings, decoded, decoded + used, error);
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

static int parse_database(struct slice text, int *ret_database, const struct url_error *error)
{
    unsigned long number;

    if (!parse_number(text, URL_DATABASE_MAX, &number))
        return url_refuse(error, "the database must be a number from 0 to %d, and stand behind the last host",
                          URL_DATABASE_MAX);
    *ret_database = (int)number;
    return 0;
}

static int take_database(struct redis_link_settings *settings, int database, const struct url_error *error)
{
    if (database == URL_DATABASE_NONE)
        return 0;
    if (settings->database != URL_DATABASE_NONE && settings->database != database)
        return url_refuse(error, "the URLs of the list have different databases; they must be the same, or "
                                 "left out in all but one");
    settings->database = database;
    return 0;
}

/* Cuts "?db=n" off; nothing else may be asked for. */
static int parse_query(struct slice *rest, int *ret_database, const struct url_error *error)
{
    const char *question = memchr(rest->data, '?', rest->len);
    struct slice query;

    if (!question)
        return 0;
    query = (struct slice){question + 1, (size_t)(rest->data + rest->len - question) - 1};
    rest->len = (size_t)(question - rest->data);
    if (query.len < 3 || memcmp(query.data, "db=", 3) != 0)
        return url_refuse(error, "after ? only db=NUMBER is known");
    return parse_database((struct slice){query.data + 3, query.len - 3}, ret_database, error);
}

/* Cuts "user:password@" off. The last @ counts: passwords are pasted without encoding them. */
static int parse_user(struct slice *rest, struct redis_link_settings *settings,
                      struct url_credentials *credentials, const struct url_error *error)
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
    return parse_credentials(info, settings, credentials, error);
}

static int parse_socket(struct slice path, struct redis_link_settings *settings,
                        const struct url_error *error)
{
    struct sockaddr_un socket_address;

    if (path.len < 2 || path.data[0] != '/')
        return url_refuse(error, "the path of the socket must begin with /, as in unix:///run/redis.sock");
    if (percent_decode(path, settings->servers[0].host, sizeof(socket_address.sun_path)) == 0)
        return url_refuse(error, "the path of the socket is too long or not well encoded");
    settings->servers[0].port = 0;
    settings->server_count = 1;
    return 0;
}

/* A host that is named twice is tried once. */
static int add_server(struct redis_link_settings *settings, struct slice host, const struct url_error *error)
{
    struct redis_address server;
    int err = parse_host(host, URL_REDIS_PORT, &server, error);

    if (err < 0)
        return err;
    for (size_t i = 0; i < settings->server_count; i++) {
        if (address_equals(&settings->servers[i], &server))
            return 0;
    }
    if (settings->server_count == REDIS_SERVERS_MAX)
        return url_refuse(error, "more than %d servers", REDIS_SERVERS_MAX);
    settings->servers[settings->server_count++] = server;
    return 0;
}

/* "host[:port],host[:port]…[/db]" */
static int parse_servers(struct slice rest, struct redis_link_settings *settings, int *ret_database,
                         const struct url_error *error)
{
    const char *slash = memchr(rest.data, '/', rest.len);
    struct slice host;
    int err = 0;

    if (slash) {
        struct slice database = {slash + 1, (size_t)(rest.data + rest.len - slash) - 1};

        if (database.len > 0)
            err = parse_database(database, ret_database, error);
        rest.len = (size_t)(slash - rest.data);
    }
    while (err == 0 && slice_take_first(&rest, &host))
        err = add_server(settings, host, error);
    return err;
}

/* One URL of those that there may be. */
static int parse_one(struct slice url, struct redis_link_settings *settings,
                     struct url_credentials *credentials, const struct url_error *error)
{
    bool is_socket = slice_starts_with(url, "unix://");
    bool is_tls = slice_starts_with(url, "rediss://");
    int database = URL_DATABASE_NONE;
    struct slice rest;
    size_t scheme_len;
    int err;

    if (!is_socket && !is_tls && !slice_starts_with(url, "redis://"))
        return url_refuse(error, "it must begin with redis://, rediss:// or unix://");
    if (settings->server_count > 0 && settings->is_tls != is_tls)
        return url_refuse(error, "the URLs of the list have different schemes: all servers speak TLS "
                                 "(rediss://), or none does (redis://)");
    settings->is_tls = is_tls;
    scheme_len = strlen(is_socket ? "unix://" : is_tls ? "rediss://" : "redis://");
    rest = (struct slice){url.data + scheme_len, url.len - scheme_len};
    err = parse_user(&rest, settings, credentials, error);
    if (err == 0)
        err = parse_query(&rest, &database, error);
    if (err == 0)
        err =
            is_socket ? parse_socket(rest, settings, error) : parse_servers(rest, settings, &database, error);
    return err < 0 ? err : take_database(settings, database, error);
}

/*
 * NULL: none. The next URL of a list begins behind a comma and with a scheme; other commas are
 * within a URL.
 */
static const char *next_url(const char *text)
{
    for (const char *at = strchr(text, ','); at; at = strchr(at + 1, ',')) {
        const char *word = at + 1 + strspn(at + 1, " ");

        if (starts_with(word + strspn(word, "abcdefghijklmnopqrstuvwxyz"), "://"))
            return word;
    }
    return NULL;
}

int redis_link_parse_url(const char *url, struct redis_link_settings *settings, char *credentials,
                         size_t credentials_size, char *error_text, size_t error_size)
{
    const struct url_error error = {error_text, error_size};
    struct url_credentials left = {credentials, credentials_size};
    size_t count = 0;
    int err = 0;

    assert(credentials_size > 0);
    settings->user = "";
    settings->password = "";
    settings->database = URL_DATABASE_NONE;
    settings->server_count = 0;
    settings->is_tls = false;
    for (const char *at = url; at && err == 0; count++) {
        const char *next = next_url(at);
        struct slice one = slice_of(at);

        if (next)
            one.len = (size_t)((const char *)memrchr(at, ',', (size_t)(next - at)) - at);
        if ((next || count > 0) && slice_starts_with(one, "unix://"))
            return url_refuse(&error, "a list cannot hold a socket; unix:// stands alone");
        err = parse_one(one, settings, &left, &error);
        at = next;
    }
    if (settings->database == URL_DATABASE_NONE)
        settings->database = 0;
    return err;
}

int redis_link_parse_sentinels(const char *text, struct redis_link_settings *settings, char *error_text,
                               size_t error_size)
{
    const struct url_error error = {error_text, error_size};

    settings->sentinel_count = 0;
    for (const char *at = text; at;) {
        const char *comma = strchr(at, ',');
        struct slice one = {at, comma ? (size_t)(comma - at) : strlen(at)};
        int err;

        one = slice_trim(one);
        if (settings->sentinel_count == REDIS_SENTINELS_MAX)
            return url_refuse(&error, "more than %d sentinels", REDIS_SENTINELS_MAX);
        err = parse_host(one, URL_SENTINEL_PORT, &settings->sentinels[settings->sentinel_count], &error);
        if (err < 0)
            return err;
        settings->sentinel_count++;
        at = comma ? comma + 1 : NULL;
    }
    return 0;
}
