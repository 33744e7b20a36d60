/* test_tls_hello.c - hellos that announce too much, however they are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tls/hello.h"

enum {
    CHANGE = 20,
    HANDSHAKE = 22,
    DATA = 23,
};

struct stream {
    char data[256 * 1024];
    size_t len;
};

static struct stream stream;

static void add_record(unsigned type, const char *body, size_t len)
{
    const unsigned char head[] = {(unsigned char)type, 3, 1, (unsigned char)(len >> 8), (unsigned char)len};

    assert_true(stream.len + sizeof(head) + len <= sizeof(stream.data));
    memcpy(stream.data + stream.len, head, sizeof(head));
    memcpy(stream.data + stream.len + sizeof(head), body, len);
    stream.len += sizeof(head) + len;
}

/* A message of `len` bytes, of which `sent` come, in records of `size` bytes. */
static void add_message(unsigned type, size_t len, size_t sent, size_t size)
{
    static char body[64 * 1024];

    memset(body, 1, sizeof(body)); /* so that anything inside looks like the head of a hello */
    body[0] = (char)type;
    body[1] = (char)(len >> 16);
    body[2] = (char)(len >> 8);
    body[3] = (char)len;
    for (size_t at = 0; at < 4 + sent; at += size)
        add_record(HANDSHAKE, body + at, min_u64(size, 4 + sent - at));
}

/* Is all of the stream let through, in pieces of `size`? */
static bool passes(size_t size)
{
    struct tls_hello hello = {0};

    for (size_t at = 0; at < stream.len; at += size) {
        if (!tls_hello_feed(&hello, stream.data + at, min_u64(size, stream.len - at)))
            return false;
    }
    return true;
}

static void hello__of_any_honest_length_passes(void **state UNUSED)
{
    static const size_t lengths[] = {0, 1, 200, 517, 1800, 16000, TLS_HELLO_MAX};
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 100, 16384};

    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        for (size_t j = 0; j < ARRAY_LEN(sizes); j++) {
            stream.len = 0;
            add_message(1, lengths[i], lengths[i], sizes[j]);
            assert_true(passes(1) && passes(5) && passes(1000) && passes(stream.len));
        }
    }
}

static void hello__that_announces_too_much_does_not(void **state UNUSED)
{
    static const size_t sizes[] = {1, 2, 3, 4, 5, 100};

    for (size_t j = 0; j < ARRAY_LEN(sizes); j++) {
        stream.len = 0;
        add_message(1, TLS_HELLO_MAX + 1, 0, sizes[j]);
        assert_false(passes(1) || passes(3) || passes(stream.len));
        stream.len = 0;
        add_message(1, 0xffffff, 100, sizes[j]);
        assert_false(passes(1) || passes(3) || passes(stream.len));
    }
}

static void second_hello__is_measured_as_well(void **state UNUSED)
{
    stream.len = 0;
    add_message(1, 500, 500, 200);
    add_record(CHANGE, "\1", 1);
    add_message(1, 600, 600, 1000);
    assert_true(passes(1) && passes(stream.len));
    add_message(1, 131000, 5, 1000);
    assert_false(passes(1) || passes(stream.len));
}

static void other_records_and_messages__are_not_measured(void **state UNUSED)
{
    stream.len = 0;
    add_record(DATA, "\1\xff\xff\xff", 4);
    add_message(16, 70, 70, 1000);
    add_record(21, "\1\xff", 2);
    add_record(HANDSHAKE, "", 0);
    add_message(1, 500, 500, 1000);
    assert_true(passes(1) && passes(stream.len));
}

static void change_to_encryption__is_seen(void **state UNUSED)
{
    struct tls_hello hello = {0};

    stream.len = 0;
    add_record(CHANGE, "\1", 1);
    assert_true(tls_hello_feed(&hello, stream.data, stream.len));
    assert_true(tls_hello_changed(&hello));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello__of_any_honest_length_passes),
        cmocka_unit_test(hello__that_announces_too_much_does_not),
        cmocka_unit_test(second_hello__is_measured_as_well),
        cmocka_unit_test(other_records_and_messages__are_not_measured),
        cmocka_unit_test(change_to_encryption__is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
