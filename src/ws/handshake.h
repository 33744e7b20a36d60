/*
 * handshake.h - the keys of the WebSocket handshake (RFC 6455, 4), and a server's answer.
 *
 * Pure functions. Reading the request's other headers is the HTTP server's work.
 */
#ifndef WS_HANDSHAKE_H
#define WS_HANDSHAKE_H

#include "base/strbuf.h"

enum {
    WS_KEY_LEN = 24,    /* of Sec-WebSocket-Key: 16 bytes in base64 */
    WS_ACCEPT_LEN = 28, /* of Sec-WebSocket-Accept */
};

/* A random key for a client. */
void ws_make_key(char ret_key[WS_KEY_LEN + 1]);

/* Is it 16 bytes in base64, with the padding, and nothing around it? */
bool ws_key_is_valid(struct slice key);

/* What the server must answer to this key, which may be any text. */
void ws_accept_key(struct slice key, char ret_accept[WS_ACCEPT_LEN + 1]);

/*
 * Appends the head of a 101 answer, with the empty line, and without extensions or a subprotocol. `extra` is
 * further header lines, each with its CRLF, or "". -EINVAL: the key is not valid, and nothing was appended.
 */
int ws_write_accept(struct strbuf *buf, struct slice key, const char *extra) MUST_CHECK;

#endif
