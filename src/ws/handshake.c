/*
 * handshake.c - computes the keys of the WebSocket handshake, and writes a server's answer.
 */
#include "ws/handshake.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "base/base64_digit.h"
#include "base/random.h"

/* RFC 6455, 1.3: it shows that the server knows the protocol. */
#define WS_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

enum {
    KEY_BYTES = 16,
    KEY_DIGITS = 22, /* the last one carries 2 of the 128 bits, and 4 that are 0 */
};

void ws_make_key(char ret_key[WS_KEY_LEN + 1])
{
    unsigned char bytes[KEY_BYTES];

    if (!random_bytes_wait(bytes, sizeof(bytes)))
        abort();
    EVP_EncodeBlock((unsigned char *)ret_key, bytes, sizeof(bytes));
}

bool ws_key_is_valid(struct slice key)
{
    if (key.len != WS_KEY_LEN || key.data[KEY_DIGITS] != '=' || key.data[KEY_DIGITS + 1] != '=')
        return false;
    for (size_t i = 0; i < KEY_DIGITS; i++)
        if (base64_value(key.data[i], "+/") < 0)
            return false;
    return true;
}

void ws_accept_key(struct slice key, char ret_accept[WS_ACCEPT_LEN + 1])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned len = 0;

    /* It fails only without memory, or where the library was built without SHA-1. */
    if (!context || !EVP_DigestInit_ex(context, EVP_sha1(), NULL) ||
        !EVP_DigestUpdate(context, key.data, key.len) ||
        !EVP_DigestUpdate(context, WS_GUID, strlen(WS_GUID)) || !EVP_DigestFinal_ex(context, digest, &len) ||
        len != SHA_DIGEST_LENGTH)
        abort();
    EVP_MD_CTX_free(context);
    EVP_EncodeBlock((unsigned char *)ret_accept, digest, SHA_DIGEST_LENGTH);
}

int ws_write_accept(struct strbuf *buf, struct slice key, const char *extra)
{
    char accept[WS_ACCEPT_LEN + 1];

    if (!ws_key_is_valid(key))
        return -EINVAL;
    ws_accept_key(key, accept);
    strbuf_append_str(buf, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                           "Connection: Upgrade\r\nSec-WebSocket-Accept: ");
    strbuf_append_str(buf, accept);
    strbuf_append_str(buf, "\r\n");
    strbuf_append_str(buf, extra);
    strbuf_append_str(buf, "\r\n");
    return 0;
}
