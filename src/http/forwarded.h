/*
 * forwarded.h - the real client and the real URL of a request that came through a proxy.
 *
 * Anybody can send X-Forwarded headers, so they count only if the connection comes from a proxy that the
 * operator has named. Does no I/O, looks up no names, and does not log.
 */
#ifndef HTTP_FORWARDED_H
#define HTTP_FORWARDED_H

#include "http/address.h"
#include "http/http.h"

struct trusted; /* opaque: the proxies whose word counts */

enum {
    TRUSTED_MAX = 256,       /* addresses and blocks */
    FORWARDED_HOST_MAX = 255 /* a longer X-Forwarded-Host is no host */
};

/*
 * Reads a list such as "10.0.0.0/8, 2001:db8::/32, 192.0.2.7"; "" is the empty list.
 *
 * 0; -EINVAL with a sentence in `error`; -ENOMEM.
 */
int trusted_new(const char *text, struct trusted **ret_trusted, char *error, size_t error_size) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct trusted *trusted_free(struct trusted *trusted);

/* NULL trusts nobody. */
bool trusted_has(const struct trusted *trusted, const struct address *address);

/* The blocks of the list, from 0 on; NULL: there are not so many. */
const struct address_block *trusted_block(const struct trusted *trusted, size_t index);

struct forwarded {
    bool is_by_proxy; /* the peer is trusted: its X-Forwarded headers count */
    bool is_https;
    struct slice host;  /* with its port, as it was given; empty if nobody named one that can be a host */
    const char *client; /* the address as text, in the request's arena or the connection; "" if unknown */
};

/*
 * What a trusted peer says in X-Forwarded-Proto, X-Forwarded-Host and X-Forwarded-For; what it does not say,
 * and everything if the peer is not trusted, is what the connection itself shows: is it TLS, the Host header,
 * the peer.
 *
 * The client is the right-most entry of X-Forwarded-For that is not itself trusted: each proxy appends whom
 * it has seen, and what stands further left may be the client's own invention. If all are trusted it is the
 * left-most; an entry that is no address ends the search at the one to its right. Of several protocols or
 * hosts the first counts, which is the one nearest to the client.
 */
void forwarded_read(const struct trusted *trusted, struct http_request *request, struct forwarded *ret);

#endif
