/*
 * hello.h - checks the announced length of a client's hello before OpenSSL believes it.
 *
 * OpenSSL makes room for a message as soon as its length is known, and takes hellos of up to 128 KiB. A
 * thousand clients of 14 bytes each would have 150 MB. So the clear text of a handshake is read here first,
 * byte by byte as OpenSSL gets it, and a hello that announces more than TLS_HELLO_MAX is refused. Pure: no
 * I/O.
 */
#ifndef TLS_HELLO_H
#define TLS_HELLO_H

#include "base/base.h"

enum { TLS_HELLO_MAX = 16 * 1024 }; /* what OpenSSL has room for anyhow; real ones have some 2 KiB at most */

/* Zeroed: nothing has come yet. */
struct tls_hello {
    uint32_t record_left;  /* bytes of the record that are to come */
    uint32_t message_left; /* likewise of the message */
    uint32_t message_len;
    uint8_t record_head;  /* bytes of the record's header that are here */
    uint8_t message_head; /* likewise of the message's */
    uint8_t record_type;
    uint8_t message_type;
};

/*
 * The next bytes of the client, in the clear or not. False: it announces a hello that is too long, and
 * OpenSSL must not get these bytes. What is encrypted comes in records of other types, or behind
 * tls_hello_is_encrypted.
 */
bool tls_hello_feed(struct tls_hello *hello, const char *data, size_t len) MUST_CHECK;

/* Was the last record a change to encryption? With TLS 1.2 nothing in the clear follows; with 1.3 it says
 * nothing. */
bool tls_hello_changed(const struct tls_hello *hello);

#endif
