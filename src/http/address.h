/*
 * address.h - IP addresses and blocks of them, as numbers that can be compared.
 *
 * An IPv4 address in IPv6's clothes (::ffff:192.0.2.1) is an IPv4 address. Does no I/O and looks up no names.
 */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include <netinet/in.h>

#include "base/base.h"

enum { ADDRESS_TEXT_SIZE = INET6_ADDRSTRLEN };

struct address {
    uint8_t bytes[16]; /* of an IPv4 address the first four; the others are 0 */
    bool is_ipv4;
};

/* All addresses that share their first `bits` bits with `address`. */
struct address_block {
    struct address address; /* the bits beyond are 0 */
    unsigned bits;
};

/* "192.0.2.1" or "2001:db8::1", nothing before it and nothing after. 0 or -EINVAL. */
int address_parse(struct slice text, struct address *ret_address) MUST_CHECK;

/* An IPv4 or IPv6 socket's address; a zone and the port are left out. 0 or -EINVAL: neither of the two. */
int address_of_socket(const struct sockaddr *socket_address, struct address *ret_address) MUST_CHECK;

/*
 * Takes "host", "host:port", "[host]" or "[host]:port" apart; a host with colons and without brackets has no
 * port. *ret_port is empty if there is none; neither is looked at. 0 or -EINVAL.
 */
int address_split(struct slice text, struct slice *ret_host, struct slice *ret_port) MUST_CHECK;

/* An address, or "192.0.2.0/24". 0 or -EINVAL. */
int address_block_parse(struct slice text, struct address_block *ret_block) MUST_CHECK;

bool address_block_has(const struct address_block *block, const struct address *address);

/* Clears everything beyond the first `bits` bits. */
void address_cut(struct address *address, unsigned bits);

void address_format(const struct address *address, char text[ADDRESS_TEXT_SIZE]);

#endif
