/*
 * address_rule.c - the kinds of IP addresses, and the rule which of them a self-registered pod may
 * have.
 */
#include "http/address_rule.h"

#include "base/slice.h"

/* The kinds of IPv4 and IPv6 addresses. Each is one block: so a block is inside if both of its ends are. */
static const struct {
    struct address_block block;
    enum address_kind kind;
} kinds[] = {
    {{{{0}, true}, 8}, ADDRESS_UNSPECIFIED},
    {{{{127}, true}, 8}, ADDRESS_LOOPBACK},
    {{{{169, 254}, true}, 16}, ADDRESS_LINK_LOCAL},
    {{{{224}, true}, 4}, ADDRESS_MULTICAST},
    {{{{255, 255, 255, 255}, true}, 32}, ADDRESS_BROADCAST},
    {{{{0}, false}, 128}, ADDRESS_UNSPECIFIED},
    {{{{[15] = 1}, false}, 128}, ADDRESS_LOOPBACK},
    {{{{0xfe, 0x80}, false}, 10}, ADDRESS_LINK_LOCAL},
    {{{{0xff}, false}, 8}, ADDRESS_MULTICAST},
};

/* Blocks of IPv6 whose addresses hold an IPv4 one, and where. */
static const struct {
    struct address_block block;
    size_t at;
} embeddings[] = {
    {{{{0}, false}, 96}, 12},
    {{{{0x00, 0x64, 0xff, 0x9b}, false}, 96}, 12},
    /* RFC 8215: networks cut their own prefixes out of it, usually one of 96 bits. */
    {{{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, false}, 48}, 12},
    {{{{0x20, 0x02}, false}, 16}, 2},
};

static enum address_kind kind_of(const struct address *address)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (address_block_has(&kinds[i].block, address))
            return kinds[i].kind;
    }
    return ADDRESS_ORDINARY;
}

enum address_kind address_kind(const struct address *address)
{
    enum address_kind kind = kind_of(address);

    for (size_t i = 0; kind == ADDRESS_ORDINARY && i < ARRAY_LEN(embeddings); i++) {
        struct address inner = {.is_ipv4 = true};

        if (!address_block_has(&embeddings[i].block, address))
            continue;
        memcpy(inner.bytes, address->bytes + embeddings[i].at, 4);
        return kind_of(&inner);
    }
    return kind;
}

/* Are all of its addresses of this kind? Then who wrote it meant them. */
static bool block_is_inside(const struct address_block *block, enum address_kind kind)
{
    struct address last = block->address;
    unsigned bits = last.is_ipv4 ? 32 : 128;

    for (unsigned bit = block->bits; bit < bits; bit++)
        last.bytes[bit / 8] |= (uint8_t)(0x80U >> (bit % 8));
    return address_kind(&block->address) == kind && address_kind(&last) == kind;
}

static const char *kind_forbidden_by(enum address_kind kind)
{
    switch (kind) {
    case ADDRESS_LOOPBACK:
        return "is a loopback address, and the request came from elsewhere or through a proxy: "
               "POD_ADDRESS_ALLOW can "
               "allow it";
    case ADDRESS_LINK_LOCAL:
        return "is a link-local address: refused unless POD_ADDRESS_ALLOW names its block";
    case ADDRESS_UNSPECIFIED:
        return "is the unspecified address: refused unless POD_ADDRESS_ALLOW names its block";
    case ADDRESS_MULTICAST:
        return "is a multicast address: refused unless POD_ADDRESS_ALLOW names its block";
    case ADDRESS_BROADCAST:
        return "is the broadcast address: refused unless POD_ADDRESS_ALLOW names its block";
    case ADDRESS_ORDINARY:
        break;
    }
    return NULL;
}

const char *address_forbidden_by(const struct trusted *allow, const struct address *address,
                                 bool may_be_loopback)
{
    enum address_kind kind = address_kind(address);
    bool is_fine = kind == ADDRESS_ORDINARY || (kind == ADDRESS_LOOPBACK && may_be_loopback);
    const struct address_block *block;

    for (size_t i = 0; (block = trusted_block(allow, i)); i++) {
        if (address_block_has(block, address) && (is_fine || block_is_inside(block, kind)))
            return NULL;
    }
    if (trusted_block(allow, 0))
        return "is not in POD_ADDRESS_ALLOW";
    return is_fine ? NULL : kind_forbidden_by(kind);
}

/* RFC 6761: localhost, and what ends with .localhost; each may have a dot at its end. */
static bool is_localhost(struct slice host)
{
    static const char word[] = "localhost";
    const size_t len = sizeof(word) - 1;

    if (host.len > 0 && host.data[host.len - 1] == '.')
        host.len--;
    return host.len >= len && strncasecmp(host.data + host.len - len, word, len) == 0 &&
           (host.len == len || host.data[host.len - len - 1] == '.');
}

/* False: it is a name, or nothing that can be connected to. A zone ("fe80::1%eth0") is left out. */
static bool read_text(const char *text, struct address *ret_address, bool *ret_is_localhost)
{
    struct slice host, port;
    const char *zone;

    *ret_is_localhost = false;
    if (address_split(slice_of(text), &host, &port) < 0)
        return false;
    zone = memchr(host.data, '%', host.len);
    if (zone)
        host.len = (size_t)(zone - host.data);
    *ret_is_localhost = is_localhost(host);
    return address_parse(*ret_is_localhost ? SLICE("127.0.0.1") : host, ret_address) == 0;
}

const char *address_text_forbidden_by(const struct trusted *allow, const char *text, bool may_be_loopback)
{
    static const struct address ipv6_loopback = {.bytes = {[15] = 1}};
    struct address address;
    bool is_name;

    if (!read_text(text, &address, &is_name))
        return NULL;
    /* Which of the two localhost is turns out when it is looked up. */
    if (is_name && !address_forbidden_by(allow, &ipv6_loopback, may_be_loopback))
        return NULL;
    return address_forbidden_by(allow, &address, may_be_loopback);
}

bool address_text_is_loopback(const char *text)
{
    struct address address;
    bool is_name;

    return read_text(text, &address, &is_name) && address_kind(&address) == ADDRESS_LOOPBACK;
}
