/*
 * proxy_headers.h - the headers in which proxies name the client, and requests that came without a
 * proxy.
 */
#ifndef HTTP_PROXY_HEADERS_H
#define HTTP_PROXY_HEADERS_H

#include "http/http.h"

/*
 * Is it a header in which a proxy names the client, or what the client asked for? Anybody can send
 * one. An underscore is taken for a hyphen, as many frameworks take it.
 */
bool header_names_client(struct slice name);

/* Compares as header_names_client does; `word` is in lower case, with hyphens. */
bool header_is(struct slice name, const char *word);

/*
 * Did somebody on this machine send the request, and no proxy? Whoever stands behind a proxy that
 * is on this machine is a stranger. Every proxy that is worth its name says so in a header;
 * TRUSTED_PROXIES does not matter here, because whoever it has made a client of might be a
 * stranger's invention.
 */
bool request_is_local(const struct http_request *request);

#endif
