/*
 * url.h - parses http:// and ws:// URLs, and looks up their addresses.
 */
#ifndef TOOLS_URL_H
#define TOOLS_URL_H

#include <netinet/in.h>

#include "base/base.h"

enum {
    URL_HOST_MAX = 255,
    URL_PATH_MAX = 2048,
};

struct url {
    char host[URL_HOST_MAX + 1];
    uint16_t port;
    char path[URL_PATH_MAX + 1]; /* with the query; "/" at least */
    bool is_tls;
};

/* "ws://host[:port][/path]", also http, https and wss. -EINVAL: it is none. */
int url_parse(struct slice text, struct url *ret_url) MUST_CHECK;

/* "host:port". */
int url_parse_endpoint(const char *text, struct url *ret_url) MUST_CHECK;

/* Names are looked up while the loop waits; what a test uses is a number, or localhost, which is 127.0.0.1.
 */
int url_resolve(const struct url *url, struct sockaddr_storage *ret_address) MUST_CHECK;

#endif
