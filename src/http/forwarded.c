/*
 * forwarded.c - reads X-Forwarded-For, -Proto and -Host of requests that trusted proxies sent.
 */
#include "http/forwarded.h"

#include "http/request.h"

enum { HOPS_MAX = 32 }; /* proxies in a row: a list that is longer was not made by proxies */

/* An entry of X-Forwarded-For. Some proxies add the port, and then put IPv6 addresses into brackets. */
static int entry_parse(struct slice entry, struct address *ret_address)
{
    const char *end;

    if (entry.len > 0 && entry.data[0] == '[') {
        end = memchr(entry.data, ']', entry.len);
        if (!end)
            return -EINVAL;
        return address_parse((struct slice){entry.data + 1, (size_t)(end - entry.data - 1)}, ret_address);
    }
    end = memchr(entry.data, ':', entry.len);
    if (end && memchr(entry.data, '.', (size_t)(end - entry.data)))
        entry.len = (size_t)(end - entry.data);
    return address_parse(entry, ret_address);
}

/*
 * Goes from proxy to proxy, away from us, as long as they are trusted. `at` is the peer and becomes the
 * client. Returns whether it is another one.
 */
static bool forwarded_follow(const struct trusted *trusted, const struct http_request *request,
                             struct address *at)
{
    unsigned hops = 0;

    /* A header that came in several lines is one list, in the order of the lines. */
    for (size_t i = request->header_count; i-- > 0;) {
        struct slice name = http_request_span(request, request->headers[i].name);
        struct slice rest = http_request_span(request, request->headers[i].value);
        struct slice entry;

        if (!slice_is_word(name, "x-forwarded-for"))
            continue;
        while (hops < HOPS_MAX && trusted_has(trusted, at) && slice_take_last(&rest, &entry)) {
            struct address next;

            if (entry.len == 0)
                continue;
            if (entry_parse(entry, &next) < 0)
                return hops > 0;
            *at = next;
            hops++;
        }
    }
    return hops > 0;
}

static const char *forwarded_client(const struct trusted *trusted, struct http_request *request,
                                    struct address *at)
{
    char text[ADDRESS_TEXT_SIZE];
    const char *copy = NULL;

    if (forwarded_follow(trusted, request, at)) {
        address_format(at, text);
        copy = arena_strdup(&request->arena, text);
    }
    return copy ? copy : http_request_peer(request);
}

static struct slice first_of(const struct http_request *request, const char *name)
{
    struct slice rest = http_request_header(request, name);
    struct slice entry = {NULL, 0};

    (void)slice_take_first(&rest, &entry);
    return entry;
}

/* What it is compared with and put into must not be confused by it; whether it exists is not our business. */
static bool is_host(struct slice text)
{
    if (text.len == 0 || text.len > FORWARDED_HOST_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!is_letter && !(c >= '0' && c <= '9') && !(c && strchr("-._~:[]", c)))
            return false;
    }
    return true;
}

void forwarded_read(const struct trusted *trusted, struct http_request *request, struct forwarded *ret)
{
    struct address peer;
    struct slice proto;
    struct slice host;

    ret->is_by_proxy = false;
    ret->is_https = http_request_is_tls(request);
    host = http_request_header(request, "host");
    ret->host = is_host(host) ? host : (struct slice){NULL, 0};
    ret->client = http_request_peer(request);
    if (!trusted_block(trusted, 0) || address_parse(slice_of(ret->client), &peer) < 0 ||
        !trusted_has(trusted, &peer))
        return;
    ret->is_by_proxy = true;
    proto = first_of(request, "x-forwarded-proto");
    if (slice_is_word(proto, "https") || slice_is_word(proto, "wss"))
        ret->is_https = true;
    else if (slice_is_word(proto, "http") || slice_is_word(proto, "ws"))
        ret->is_https = false;
    host = first_of(request, "x-forwarded-host");
    if (is_host(host))
        ret->host = host;
    ret->client = forwarded_client(trusted, request, &peer);
}
