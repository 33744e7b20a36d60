/*
 * proxy_headers.c - the list of headers by which proxies name a client, and the test whether a
 * request came from this machine.
 */
#include "http/proxy_headers.h"

#include "http/address_rule.h"

/* A word that ends with a hyphen stands for all that begin with it. */
static const char *const client_headers[] = {
    "forwarded",           "x-forwarded",        "x-forwarded-",   "x-real-ip",
    "x-client-ip",         "client-ip",          "x-remote-ip",    "x-remote-addr",
    "x-cluster-client-ip", "true-client-ip",     "cf-connecting-", "fastly-client-ip",
    "fly-client-ip",       "x-azure-",           "x-appengine-",   "x-envoy-external-address",
    "x-proxyuser-ip",      "x-originating-ip",   "x-original-",    "x-rewrite-url",
    "proxy-client-ip",     "wl-proxy-client-ip", "x-vercel-",      "incap-client-ip",
};

/* Is `word` at the beginning of `name`? */
static bool begins_with(struct slice name, const char *word)
{
    size_t len = strlen(word);

    if (name.len < len)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name.data[i];

        if (c >= 'A' && c <= 'Z')
            c = (char)(c | 0x20);
        if ((c == '_' ? '-' : c) != word[i])
            return false;
    }
    return true;
}

bool header_is(struct slice name, const char *word)
{
    return name.len == strlen(word) && begins_with(name, word);
}

bool header_names_client(struct slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(client_headers); i++) {
        const char *word = client_headers[i];
        size_t len = strlen(word);

        if (begins_with(name, word) && (name.len == len || word[len - 1] == '-'))
            return true;
    }
    return false;
}

bool request_is_local(const struct http_request *request)
{
    struct address peer;

    if (address_parse(slice_of(http_request_peer(request)), &peer) < 0 ||
        address_kind(&peer) != ADDRESS_LOOPBACK)
        return false;
    for (size_t i = 0; i < http_request_header_count(request); i++) {
        struct slice name, value;

        http_request_header_at(request, i, &name, &value);
        if (header_names_client(name) || header_is(name, "via"))
            return false;
    }
    return true;
}
