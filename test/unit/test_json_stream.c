/* test_json_stream.c - a stream of objects, however it is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>

#include "k8s/json_stream.h"

static const char *const OBJECTS[] = {
    "{}",
    "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}",
    "{\"brackets in a string\":\"}]{[\",\"n\":[1,[2,{\"x\":[]}]]}",
    "{\"quote \\\" and end of an escape \\\\\":\"\\\\\\\"}\"}",
    "{\n \"with\" : [ { } ,\n\t{ } ]\r\n}",
    "{\"\\u007b\xc3\xa9\":\"{\"}",
};

/* All objects with `between` after each; the caller frees it. */
static char *text_of(const char *between)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 1 << 16);
    for (size_t i = 0; i < ARRAY_LEN(OBJECTS); i++) {
        strbuf_append_str(&buf, OBJECTS[i]);
        strbuf_append_str(&buf, between);
    }
    assert_false(strbuf_failed(&buf));
    return buf.data;
}

/* Feeds one piece, from memory of exactly its size, and checks the objects from number `seen` on. */
static size_t feed(struct json_stream *stream, const char *data, size_t len, size_t seen)
{
    char *piece = malloc(len ? len : 1);
    struct slice object;
    int rc;

    assert_non_null(piece);
    memcpy(piece, data, len);
    json_stream_feed(stream, (struct slice){piece, len});
    while ((rc = json_stream_next(stream, &object)) == 0) {
        assert_true(seen < ARRAY_LEN(OBJECTS));
        assert_int_equal(object.len, strlen(OBJECTS[seen]));
        assert_memory_equal(object.data, OBJECTS[seen], object.len);
        seen++;
    }
    assert_int_equal(rc, -EAGAIN);
    free(piece);
    return seen;
}

static void stream__is_the_same_whatever_the_cut(void **state UNUSED)
{
    static const char *const betweens[] = {"", "\n", "\r\n \t"};
    struct json_stream stream;

    for (size_t b = 0; b < ARRAY_LEN(betweens); b++) {
        char *text = text_of(betweens[b]);
        size_t len = strlen(text);

        for (size_t first = 0; first <= len; first++) {
            for (size_t second = first; second <= len; second++) {
                size_t seen;

                json_stream_init(&stream, 1024);
                seen = feed(&stream, text, first, 0);
                seen = feed(&stream, text + first, second - first, seen);
                seen = feed(&stream, text + second, len - second, seen);
                assert_int_equal(seen, ARRAY_LEN(OBJECTS));
                assert_false(json_stream_is_amid(&stream));
                json_stream_release(&stream);
            }
        }
        free(text);
    }
}

static void stream__comes_byte_by_byte(void **state UNUSED)
{
    char *text = text_of("\n");
    struct json_stream stream;
    size_t seen = 0;

    json_stream_init(&stream, 1024);
    for (size_t i = 0; text[i]; i++)
        seen = feed(&stream, text + i, 1, seen);
    assert_int_equal(seen, ARRAY_LEN(OBJECTS));
    json_stream_release(&stream);
    free(text);
}

static void half_an_object__is_noticed_at_the_end(void **state UNUSED)
{
    struct json_stream stream;
    struct slice object;

    json_stream_init(&stream, 1024);
    assert_false(json_stream_is_amid(&stream));
    json_stream_feed(&stream, SLICE("{} {\"a\":\"}"));
    assert_int_equal(json_stream_next(&stream, &object), 0);
    assert_int_equal(json_stream_next(&stream, &object), -EAGAIN);
    assert_true(json_stream_is_amid(&stream));
    json_stream_reset(&stream);
    assert_false(json_stream_is_amid(&stream));
    json_stream_feed(&stream, SLICE("{}"));
    assert_int_equal(json_stream_next(&stream, &object), 0);
    json_stream_release(&stream);
}

static void garbage_between_objects__fails_for_good(void **state UNUSED)
{
    static const char *const garbage[] = {"x", "[1]", "\"text\"", "}", "1", ",", "\xef\xbb\xbf{}"};
    struct json_stream stream;
    struct slice object;

    for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
        json_stream_init(&stream, 1024);
        json_stream_feed(&stream, SLICE("{}\n"));
        assert_int_equal(json_stream_next(&stream, &object), 0);
        assert_int_equal(json_stream_next(&stream, &object), -EAGAIN);
        json_stream_feed(&stream, slice_of(garbage[i]));
        assert_int_equal(json_stream_next(&stream, &object), -EBADMSG);
        json_stream_feed(&stream, SLICE("{}"));
        assert_int_equal(json_stream_next(&stream, &object), -EBADMSG);
        json_stream_release(&stream);
    }
}

/* An object of exactly `len` bytes in two pieces, or in one if `cut` is 0. */
static int next_of_size(size_t len, size_t cut, size_t max)
{
    char *text = malloc(len + 1);
    struct json_stream stream;
    struct slice object;
    int rc = -EAGAIN;

    assert_non_null(text);
    memset(text, 'x', len);
    memcpy(text, "{\"", 2);
    memcpy(text + len - 2, "\"}", 2);
    json_stream_init(&stream, max);
    if (cut > 0) {
        json_stream_feed(&stream, (struct slice){text, cut});
        rc = json_stream_next(&stream, &object);
    }
    if (rc == -EAGAIN) {
        json_stream_feed(&stream, (struct slice){text + cut, len - cut});
        rc = json_stream_next(&stream, &object);
    }
    json_stream_release(&stream);
    free(text);
    return rc;
}

static void object__may_be_as_long_as_the_limit_and_no_longer(void **state UNUSED)
{
    for (size_t cut = 0; cut < 100; cut++) {
        assert_int_equal(next_of_size(100, cut, 100), 0);
        assert_int_equal(next_of_size(101, cut, 100), -EMSGSIZE);
    }
    assert_int_equal(next_of_size(JSON_STREAM_OBJECT_MAX, 4096, JSON_STREAM_OBJECT_MAX), 0);
    assert_int_equal(next_of_size(JSON_STREAM_OBJECT_MAX + 1, 4096, JSON_STREAM_OBJECT_MAX), -EMSGSIZE);
}

static void endless_object__is_stopped_before_it_ends(void **state UNUSED)
{
    struct json_stream stream;
    struct slice object;
    int rc = -EAGAIN;

    json_stream_init(&stream, 100);
    json_stream_feed(&stream, SLICE("{\""));
    assert_int_equal(json_stream_next(&stream, &object), -EAGAIN);
    for (int i = 0; i < 10 && rc == -EAGAIN; i++) {
        json_stream_feed(&stream, SLICE("twenty characters..."));
        rc = json_stream_next(&stream, &object);
    }
    assert_int_equal(rc, -EMSGSIZE);
    json_stream_release(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream__is_the_same_whatever_the_cut),
        cmocka_unit_test(stream__comes_byte_by_byte),
        cmocka_unit_test(half_an_object__is_noticed_at_the_end),
        cmocka_unit_test(garbage_between_objects__fails_for_good),
        cmocka_unit_test(object__may_be_as_long_as_the_limit_and_no_longer),
        cmocka_unit_test(endless_object__is_stopped_before_it_ends),
    };

    return cmocka_run_group_tests_name("json_stream", tests, NULL, NULL);
}
