/*
 * url.c - parses URLs and resolves their hosts.
 */
#include "url.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

static const struct {
    const char *prefix;
    uint16_t port;
    bool is_tls;
} schemes[] = {
    {"http://", 80, false},
    {"ws://", 80, false},
    {"https://", 443, true},
    {"wss://", 443, true},
};

/* "host", "host:port", "[::1]:port" */
static int parse_authority(struct slice text, struct url *url)
{
    struct slice host = text;
    const char *colon;
    char digits[8];
    char *end;
    long port;

    if (text.len > 0 && text.data[0] == '[') {
        const char *bracket = memchr(text.data, ']', text.len);

        if (!bracket)
            return -EINVAL;
        host = (struct slice){text.data + 1, (size_t)(bracket - text.data - 1)};
        colon = memchr(bracket, ':', text.len - (size_t)(bracket - text.data));
    } else {
        colon = memchr(text.data, ':', text.len);
        if (colon)
            host.len = (size_t)(colon - text.data);
    }
    if (host.len == 0 || host.len > URL_HOST_MAX)
        return -EINVAL;
    memcpy(url->host, host.data, host.len);
    url->host[host.len] = '\0';
    if (!colon)
        return 0;
    text.len -= (size_t)(colon + 1 - text.data);
    if (text.len == 0 || text.len >= sizeof(digits))
        return -EINVAL;
    memcpy(digits, colon + 1, text.len);
    digits[text.len] = '\0';
    port = strtol(digits, &end, 10);
    if (*end != '\0' || port < 1 || port > UINT16_MAX)
        return -EINVAL;
    url->port = (uint16_t)port;
    return 0;
}

int url_parse(struct slice text, struct url *ret_url)
{
    struct url url = {.path = "/"};
    size_t authority;
    int r;

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        size_t len = strlen(schemes[i].prefix);

        if (text.len <= len || memcmp(text.data, schemes[i].prefix, len) != 0)
            continue;
        url.port = schemes[i].port;
        url.is_tls = schemes[i].is_tls;
        text.data += len;
        text.len -= len;
        break;
    }
    if (url.port == 0)
        return -EINVAL;
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.data[i] <= ' ')
            return -EINVAL;
    }
    for (authority = 0; authority < text.len && text.data[authority] != '/'; authority++)
        ;
    if (text.len - authority > URL_PATH_MAX)
        return -EINVAL;
    r = parse_authority((struct slice){text.data, authority}, &url);
    if (r != 0)
        return r;
    if (authority < text.len) {
        memcpy(url.path, text.data + authority, text.len - authority);
        url.path[text.len - authority] = '\0';
    }
    *ret_url = url;
    return 0;
}

int url_parse_endpoint(const char *text, struct url *ret_url)
{
    struct url url = {.path = "/"};
    int r = parse_authority(slice_of(text), &url);

    if (r != 0)
        return r;
    if (url.port == 0)
        return -EINVAL;
    *ret_url = url;
    return 0;
}

int url_resolve(const struct url *url, struct sockaddr_storage *ret_address)
{
    const char *host = strcmp(url->host, "localhost") == 0 ? "127.0.0.1" : url->host;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char service[8];

    *ret_address = (struct sockaddr_storage){0};
    if (uv_ip4_addr(host, url->port, (struct sockaddr_in *)ret_address) == 0)
        return 0;
    if (uv_ip6_addr(host, url->port, (struct sockaddr_in6 *)ret_address) == 0)
        return 0;
    snprintf(service, sizeof(service), "%u", url->port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return -ENOENT;
    memcpy(ret_address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}
