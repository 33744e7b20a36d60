/*
 * address.c - parses, compares and formats IP addresses and blocks; splits host:port.
 */
#include "http/address.h"

#include <arpa/inet.h>

enum { MAPPED_BITS = 96 }; /* of ::ffff:0:0/96, in which IPv4 lives within IPv6 */

static unsigned address_bits(const struct address *address)
{
    return address->is_ipv4 ? 32 : 128;
}

static void address_take_ipv6(const struct in6_addr *six, struct address *ret_address)
{
    *ret_address = (struct address){0};
    if (IN6_IS_ADDR_V4MAPPED(six)) {
        memcpy(ret_address->bytes, six->s6_addr + 12, 4);
        ret_address->is_ipv4 = true;
    } else {
        memcpy(ret_address->bytes, six->s6_addr, sizeof(six->s6_addr));
    }
}

int address_parse(struct slice text, struct address *ret_address)
{
    struct in6_addr six;
    char copy[ADDRESS_TEXT_SIZE];

    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.data, '\0', text.len))
        return -EINVAL;
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    *ret_address = (struct address){0};
    if (inet_pton(AF_INET, copy, ret_address->bytes) == 1) {
        ret_address->is_ipv4 = true;
        return 0;
    }
    if (inet_pton(AF_INET6, copy, &six) != 1)
        return -EINVAL;
    address_take_ipv6(&six, ret_address);
    return 0;
}

int address_of_socket(const struct sockaddr *socket_address, struct address *ret_address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)socket_address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)socket_address;

    if (socket_address->sa_family == AF_INET6) {
        address_take_ipv6(&six->sin6_addr, ret_address);
        return 0;
    }
    if (socket_address->sa_family != AF_INET)
        return -EINVAL;
    *ret_address = (struct address){.is_ipv4 = true};
    memcpy(ret_address->bytes, &four->sin_addr, 4);
    return 0;
}

int address_split(struct slice text, struct slice *ret_host, struct slice *ret_port)
{
    const char *end = text.data + text.len;
    const char *colon = memchr(text.data, ':', text.len);
    struct slice host = text;

    if (text.len > 0 && text.data[0] == '[') {
        const char *bracket = memchr(text.data, ']', text.len);

        if (!bracket || (bracket + 1 < end && bracket[1] != ':'))
            return -EINVAL;
        host = (struct slice){text.data + 1, (size_t)(bracket - text.data - 1)};
        colon = bracket + 1 < end ? bracket + 1 : NULL;
    } else if (colon && memchr(colon + 1, ':', (size_t)(end - colon - 1))) {
        colon = NULL;
    } else if (colon) {
        host.len = (size_t)(colon - text.data);
    }
    if (host.len == 0 || (colon && colon + 1 == end))
        return -EINVAL;
    *ret_host = host;
    *ret_port = colon ? (struct slice){colon + 1, (size_t)(end - colon - 1)} : (struct slice){"", 0};
    return 0;
}

void address_cut(struct address *address, unsigned bits)
{
    for (unsigned i = 0; i < sizeof(address->bytes); i++) {
        unsigned kept = bits > 8 * i ? bits - 8 * i : 0;

        if (kept < 8)
            address->bytes[i] &= (uint8_t)(0xff00U >> kept);
    }
}

/* The number of bits behind the slash: one to three digits and no more than 128. */
static int bits_parse(struct slice text, unsigned *ret_bits)
{
    unsigned bits = 0;

    if (text.len == 0 || text.len > 3)
        return -EINVAL;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -EINVAL;
        bits = bits * 10 + (unsigned)(text.data[i] - '0');
    }
    if (bits > 128)
        return -EINVAL;
    *ret_bits = bits;
    return 0;
}

int address_block_parse(struct slice text, struct address_block *ret_block)
{
    const char *slash = memchr(text.data, '/', text.len);
    struct slice name = {text.data, slash ? (size_t)(slash - text.data) : text.len};
    struct address_block block;
    bool is_mapped;

    if (address_parse(name, &block.address) < 0)
        return -EINVAL;
    block.bits = address_bits(&block.address);
    if (slash) {
        if (bits_parse((struct slice){slash + 1, text.len - name.len - 1}, &block.bits) < 0)
            return -EINVAL;
        is_mapped = block.address.is_ipv4 && memchr(name.data, ':', name.len);
        if (is_mapped && block.bits < MAPPED_BITS)
            return -EINVAL; /* half of it would be IPv4 and half IPv6 */
        if (is_mapped)
            block.bits -= MAPPED_BITS;
        if (block.bits > address_bits(&block.address))
            return -EINVAL;
    }
    address_cut(&block.address, block.bits);
    *ret_block = block;
    return 0;
}

bool address_block_has(const struct address_block *block, const struct address *address)
{
    struct address cut = *address;

    if (block->address.is_ipv4 != address->is_ipv4)
        return false;
    address_cut(&cut, block->bits);
    return memcmp(cut.bytes, block->address.bytes, sizeof(cut.bytes)) == 0;
}

void address_format(const struct address *address, char text[ADDRESS_TEXT_SIZE])
{
    const char *done =
        inet_ntop(address->is_ipv4 ? AF_INET : AF_INET6, address->bytes, text, ADDRESS_TEXT_SIZE);

    assert(done);
}
