/*
 * hello.c - follows the records of a handshake byte by byte, and finds hellos that are too long.
 */
#include "tls/hello.h"

enum {
    RECORD_HEAD = 5,  /* type, version (2), length (2) */
    MESSAGE_HEAD = 4, /* type, length (3) */
    TYPE_CHANGE = 20,
    TYPE_HANDSHAKE = 22,
    MESSAGE_CLIENT_HELLO = 1,
};

static void hello_record_byte(struct tls_hello *hello, uint8_t byte)
{
    if (hello->record_head == 0)
        hello->record_type = byte;
    if (hello->record_head == RECORD_HEAD - 2)
        hello->record_left = (uint32_t)byte << 8;
    if (hello->record_head == RECORD_HEAD - 1)
        hello->record_left |= byte;
    hello->record_head++;
}

/* False: the message is a hello, and too long. */
static bool hello_message_byte(struct tls_hello *hello, uint8_t byte)
{
    if (hello->message_head == 0) {
        hello->message_type = byte;
        hello->message_len = 0;
    } else {
        hello->message_len = hello->message_len << 8 | byte;
    }
    if (++hello->message_head < MESSAGE_HEAD)
        return true;
    hello->message_head = 0;
    hello->message_left = hello->message_len;
    return hello->message_type != MESSAGE_CLIENT_HELLO || hello->message_len <= TLS_HELLO_MAX;
}

/* Takes what it can of a record at once; returns how much that was, 0 if the hello is too long. */
static size_t hello_body(struct tls_hello *hello, const char *data, size_t len)
{
    size_t count = min_u64(len, hello->record_left);

    if (hello->record_type == TYPE_HANDSHAKE && hello->message_left > 0) {
        count = min_u64(count, hello->message_left);
        hello->message_left -= (uint32_t)count;
    } else if (hello->record_type == TYPE_HANDSHAKE) {
        count = 1;
        if (!hello_message_byte(hello, (uint8_t)*data))
            return 0;
    }
    hello->record_left -= (uint32_t)count;
    return count;
}

bool tls_hello_feed(struct tls_hello *hello, const char *data, size_t len)
{
    size_t at = 0;

    while (at < len) {
        size_t count = 1;

        if (hello->record_head == RECORD_HEAD && hello->record_left == 0)
            hello->record_head = 0;
        if (hello->record_head < RECORD_HEAD)
            hello_record_byte(hello, (uint8_t)data[at]);
        else
            count = hello_body(hello, data + at, len - at);
        if (count == 0)
            return false;
        at += count;
    }
    return true;
}

bool tls_hello_changed(const struct tls_hello *hello)
{
    return hello->record_head == RECORD_HEAD && hello->record_type == TYPE_CHANGE;
}
