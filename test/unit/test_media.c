/* test_media.c - the messages of the providers' media streams, read and written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/json.h"
#include "media/dialect.h"

static enum media_event event_of(const char *text)
{
    return media_event(slice_of(text));
}

static void event__is_told_for_each_provider(void **state UNUSED)
{
    assert_int_equal(event_of("{\"event\":\"connected\",\"protocol\":\"Call\",\"version\":\"1.0.0\"}"),
                     MEDIA_CONNECTED);
    assert_int_equal(event_of("{ \"event\": \"connected\" }"), MEDIA_CONNECTED);
    assert_int_equal(event_of("{\"event\":\"start\",\"start\":{}}"), MEDIA_START);
    assert_int_equal(event_of("{\"sequenceNumber\":7,\"streamId\":\"a\",\"event\":\"media\"}"), MEDIA_MEDIA);
    assert_int_equal(event_of("{\"event\":\"dtmf\"}"), MEDIA_DTMF);
    assert_int_equal(event_of("{\"event\":\"mark\"}"), MEDIA_MARK);
    assert_int_equal(event_of("{\"event\":\"playedStream\"}"), MEDIA_MARK);
    assert_int_equal(event_of("{\"event\":\"clearedAudio\"}"), MEDIA_CLEARED);
    assert_int_equal(event_of("{\n \"sequence_number\" : \"3\" ,\n\t\"event\" : \"stop\"\r\n}"), MEDIA_STOP);
    assert_int_equal(event_of("{\"event\":\"playAudio\"}"), MEDIA_OTHER);
}

static void event__is_that_of_the_message_itself(void **state UNUSED)
{
    assert_int_equal(event_of("{\"start\":{\"customParameters\":{\"event\":\"stop\"}},\"event\":\"start\"}"),
                     MEDIA_START);
    assert_int_equal(
        event_of("{\"a\":[{\"event\":\"stop\"},[]],\"b\":-1.5e3,\"c\":null,\"event\":\"media\"}"),
        MEDIA_MEDIA);
    assert_int_equal(event_of("{\"name\":\"a \\\"event\\\":\\\"stop\\\" \\\\\",\"event\":\"mark\"}"),
                     MEDIA_MARK);
    assert_int_equal(event_of("{\"name\":\"\\\\\\\"\",\"event\":\"stop\"}"), MEDIA_STOP);
    assert_int_equal(event_of("{\"text\":\"}\",\"event\":\"stop\"}"), MEDIA_STOP);
    assert_int_equal(event_of("[\"event\",\"stop\"]"), MEDIA_OTHER);
    assert_int_equal(event_of("\"event\":\"stop\""), MEDIA_OTHER);
    assert_int_equal(event_of("{\"event\":{\"event\":\"stop\"}}"), MEDIA_OTHER);
}

/* Of a long message only the beginning is looked at. */
static void event__needs_only_the_beginning_that_names_it(void **state UNUSED)
{
    static const char text[] = "{\"streamSid\":\"MZ1\",\"event\":\"media\",\"media\":{\"payload\":\"AAAA\"}}";
    size_t named = strlen("{\"streamSid\":\"MZ1\",\"event\":\"media\"");

    for (size_t len = 0; len < sizeof(text); len++)
        assert_int_equal(media_event((struct slice){text, len}), len < named ? MEDIA_OTHER : MEDIA_MEDIA);
}

static void event__of_what_is_no_message_is_other(void **state UNUSED)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "{}",
                                        "{]",
                                        "{\"a\":]",
                                        "{\"a\":}",
                                        "{\"a\"",
                                        "{\"a\":\"\\",
                                        "{\"a\":[[[[",
                                        "{\"event\"",
                                        "{\"event\":",
                                        "{\"event\":\"",
                                        "{\"event\":\"stop",
                                        "{\"event\":stop}",
                                        "{\"event\" \"stop\"}",
                                        "{\"a\":1 \"event\":\"stop\"}",
                                        "hello"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_equal(event_of(texts[i]), MEDIA_OTHER);
}

static const char twilio_start[] =
    "{\"event\":\"start\",\"sequenceNumber\":\"1\",\"start\":{\"accountSid\":\"AC1\",\"streamSid\":\"MZ1\","
    "\"callSid\":\"CA1\",\"tracks\":[\"inbound\"],\"mediaFormat\":{\"encoding\":\"audio/x-mulaw\","
    "\"sampleRate\":8000,\"channels\":1},\"customParameters\":{\"a\":\"b\"}},\"streamSid\":\"MZ1\"}";
static const char plivo_start[] =
    "{\"sequenceNumber\":0,\"event\":\"start\",\"start\":{\"callId\":\"c-1\",\"streamId\":\"s-1\","
    "\"accountId\":\"1\",\"tracks\":[\"inbound\"],\"mediaFormat\":{\"encoding\":\"audio/x-l16\","
    "\"sampleRate\":16000}},\"extra_headers\":\"{}\"}";
static const char exotel_start[] =
    "{ \"event\": \"start\", \"sequence_number\": \"1\", \"stream_sid\": \"MZ2\", \"start\": {"
    " \"call_sid\": \"CA2\", \"media_format\": { \"encoding\": \"audio/x-raw\", \"sample_rate\": \"24000\","
    " \"bit_rate\": \"16\" } } }";

static struct media_start read_start(const char *dialect, const char *text)
{
    struct media_start start;

    assert_int_equal(media_read_start(dialect_find(dialect), slice_of(text), &start), 0);
    return start;
}

static void start__says_stream_call_and_format(void **state UNUSED)
{
    struct media_start start = read_start("twilio", twilio_start);

    assert_string_equal(start.stream_id, "MZ1");
    assert_string_equal(start.call_id, "CA1");
    assert_int_equal(start.format, MEDIA_MULAW_8K);
    start = read_start("plivo", plivo_start);
    assert_string_equal(start.stream_id, "s-1");
    assert_string_equal(start.call_id, "c-1");
    assert_int_equal(start.format, MEDIA_PCM_16K);
    start = read_start("exotel", exotel_start);
    assert_string_equal(start.stream_id, "MZ2");
    assert_string_equal(start.call_id, "CA2");
    assert_int_equal(start.format, MEDIA_PCM_24K);
}

static void start__tells_its_provider_by_its_members(void **state UNUSED)
{
    assert_ptr_equal(read_start(NULL, twilio_start).dialect, &dialect_twilio);
    assert_ptr_equal(read_start(NULL, plivo_start).dialect, &dialect_plivo);
    assert_ptr_equal(read_start(NULL, exotel_start).dialect, &dialect_exotel);
}

static enum media_format format_of(const char *dialect, const char *format)
{
    const struct dialect *words = dialect_find(dialect);
    char text[512];

    snprintf(text, sizeof(text), "{\"event\":\"start\",\"start\":{\"%s\":\"s\",\"%s\":%s}}", words->stream_id,
             words->format_object, format);
    return read_start(dialect, text).format;
}

static void start__without_a_format_has_the_usual_one(void **state UNUSED)
{
    assert_int_equal(format_of("twilio", "{}"), MEDIA_MULAW_8K);
    assert_int_equal(format_of("twilio", "null"), MEDIA_MULAW_8K);
    assert_int_equal(format_of("plivo", "{}"), MEDIA_MULAW_8K);
    assert_int_equal(format_of("plivo", "{\"encoding\":\"audio/x-l16\"}"), MEDIA_PCM_8K);
    assert_int_equal(format_of("exotel", "{}"), MEDIA_PCM_8K);
    assert_int_equal(format_of("exotel", "{\"encoding\":\"raw/slin\",\"sample_rate\":16000}"), MEDIA_PCM_16K);
    assert_int_equal(format_of("exotel", "{\"encoding\":\"audio/x-mulaw\",\"sample_rate\":\"8000\"}"),
                     MEDIA_MULAW_8K);
}

static void start__with_a_format_that_is_not_known_has_none(void **state UNUSED)
{
    assert_int_equal(format_of("twilio", "{\"encoding\":\"audio/opus\"}"), MEDIA_FORMATS);
    assert_int_equal(format_of("twilio", "{\"sampleRate\":16000}"), MEDIA_FORMATS);
    assert_int_equal(format_of("exotel", "{\"sample_rate\":44100}"), MEDIA_FORMATS);
    assert_int_equal(format_of("exotel", "{\"encoding\":\"audio/x-mulaw\",\"sample_rate\":16000}"),
                     MEDIA_FORMATS);
}

static void start__that_cannot_be_used_is_refused(void **state UNUSED)
{
    static const char *const texts[] = {"",
                                        "{\"event\":\"start\"}",
                                        "{\"event\":\"start\",\"start\":{}}",
                                        "{\"event\":\"start\",\"start\":{\"streamSid\":\"\"}}",
                                        "{\"event\":\"start\",\"start\":{\"streamSid\":7}}",
                                        "{\"event\":\"start\",\"start\":[],\"streamSid\":\"MZ1\"}",
                                        "{\"event\":\"media\",\"start\":{\"streamSid\":\"MZ1\"}}",
                                        "{\"event\":\"start\",\"start\":{\"streamSid\":\"MZ1\"}} x"};
    struct media_start start = {.format = MEDIA_PCM_24K};
    char id[MEDIA_ID_MAX + 2], text[512];

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_equal(media_read_start(&dialect_twilio, slice_of(texts[i]), &start), -EINVAL);
    assert_int_equal(media_read_start(&dialect_twilio, slice_of(plivo_start), &start), -EINVAL);
    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    snprintf(text, sizeof(text), "{\"event\":\"start\",\"start\":{\"streamSid\":\"%s\"}}", id);
    assert_int_equal(media_read_start(&dialect_twilio, slice_of(text), &start), -EINVAL);
    assert_int_equal(start.format, MEDIA_PCM_24K);
    snprintf(text, sizeof(text), "{\"event\":\"start\",\"start\":{\"streamSid\":\"%s\"}}", id + 1);
    assert_int_equal(media_read_start(&dialect_twilio, slice_of(text), &start), 0);
}

static void expect_written(void (*write)(struct strbuf *, const struct media_start *), const char *dialect,
                           enum media_format format, const char *text)
{
    struct media_start start = {.dialect = dialect_find(dialect), .stream_id = "S\"1", .format = format};
    struct strbuf buf;

    strbuf_init(&buf, NULL, MEDIA_WRITE_MAX);
    write(&buf, &start);
    assert_string_equal(buf.data, text);
    strbuf_release(&buf);
}

static void write_play(struct strbuf *buf, const struct media_start *start)
{
    media_write_play_begin(buf, start);
    strbuf_append_str(buf, "QUJD");
    media_write_play_end(buf, start);
    assert_true(json_is_valid(strbuf_slice(buf)));
}

static void write_mark(struct strbuf *buf, const struct media_start *start)
{
    media_write_mark(buf, start, 12);
    assert_true(json_is_valid(strbuf_slice(buf)));
}

static void play__is_written_in_the_words_of_each_provider(void **state UNUSED)
{
    expect_written(write_play, "twilio", MEDIA_MULAW_8K,
                   "{\"event\":\"media\",\"streamSid\":\"S\\\"1\",\"media\":{\"payload\":\"QUJD\"}}");
    expect_written(
        write_play, "plivo", MEDIA_MULAW_8K,
        "{\"event\":\"playAudio\",\"streamId\":\"S\\\"1\",\"media\":{\"contentType\":\"audio/x-mulaw\","
        "\"sampleRate\":8000,\"payload\":\"QUJD\"}}");
    expect_written(
        write_play, "plivo", MEDIA_PCM_16K,
        "{\"event\":\"playAudio\",\"streamId\":\"S\\\"1\",\"media\":{\"contentType\":\"audio/x-l16\","
        "\"sampleRate\":16000,\"payload\":\"QUJD\"}}");
    expect_written(write_play, "exotel", MEDIA_PCM_8K,
                   "{\"event\":\"media\",\"stream_sid\":\"S\\\"1\",\"media\":{\"payload\":\"QUJD\"}}");
}

static void mark_and_clear__are_written_in_the_words_of_each_provider(void **state UNUSED)
{
    expect_written(write_mark, "twilio", MEDIA_MULAW_8K,
                   "{\"event\":\"mark\",\"streamSid\":\"S\\\"1\",\"mark\":{\"name\":\"sr-hold-12\"}}");
    expect_written(write_mark, "plivo", MEDIA_MULAW_8K,
                   "{\"event\":\"checkpoint\",\"streamId\":\"S\\\"1\",\"name\":\"sr-hold-12\"}");
    expect_written(write_mark, "exotel", MEDIA_PCM_8K,
                   "{\"event\":\"mark\",\"stream_sid\":\"S\\\"1\",\"mark\":{\"name\":\"sr-hold-12\"}}");
    expect_written(media_write_clear, "twilio", MEDIA_MULAW_8K,
                   "{\"event\":\"clear\",\"streamSid\":\"S\\\"1\"}");
    expect_written(media_write_clear, "plivo", MEDIA_MULAW_8K,
                   "{\"event\":\"clearAudio\",\"streamId\":\"S\\\"1\"}");
    expect_written(media_write_clear, "exotel", MEDIA_PCM_8K,
                   "{\"event\":\"clear\",\"stream_sid\":\"S\\\"1\"}");
}

/* An id of control characters takes six times its length. */
static void write__never_appends_more_than_it_says(void **state UNUSED)
{
    struct media_start start = {.dialect = &dialect_plivo};
    struct strbuf buf;

    memset(start.stream_id, '\1', MEDIA_ID_MAX);
    strbuf_init(&buf, NULL, MEDIA_WRITE_MAX);
    media_write_play_begin(&buf, &start);
    assert_false(strbuf_failed(&buf));
    strbuf_reset(&buf);
    media_write_mark(&buf, &start, UINT64_MAX);
    assert_false(strbuf_failed(&buf));
    strbuf_release(&buf);
}

static bool is_ours(const char *dialect, const char *text)
{
    uint64_t number = 77;
    bool is_ours = media_is_our_mark(dialect_find(dialect), slice_of(text), &number);

    assert_int_equal(number, is_ours ? 3 : 77);
    return is_ours;
}

static void mark__is_ours_by_its_name(void **state UNUSED)
{
    assert_true(is_ours("twilio", "{\"event\":\"mark\",\"sequenceNumber\":\"4\",\"streamSid\":\"MZ1\","
                                  "\"mark\":{\"name\":\"sr-hold-3\"}}"));
    assert_true(is_ours("exotel", "{ \"event\": \"mark\", \"mark\": { \"name\": \"sr-hold-3\" } }"));
    assert_true(is_ours("plivo", "{\"event\":\"playedStream\",\"streamId\":\"s\",\"name\":\"sr-hold-3\"}"));
    assert_true(is_ours("plivo", "{\"event\":\"playedStream\",\"name\":\"sr-hold-3\"}"));
}

static void mark__of_the_agent_is_not_ours(void **state UNUSED)
{
    static const char *const names[] = {"greeting",   "sr-hold-",     "sr-hold-x",
                                        "sr-hold-3x", "sr-hold--3",   "sr-hold-03",
                                        "sr-hold- 3", "my-sr-hold-3", "sr-hold-99999999999999999999"};
    char text[256];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(text, sizeof(text), "{\"event\":\"mark\",\"mark\":{\"name\":\"%s\"}}", names[i]);
        assert_false(is_ours("twilio", text));
    }
    assert_false(is_ours("twilio", "{\"event\":\"media\",\"mark\":{\"name\":\"sr-hold-3\"}}"));
    assert_false(is_ours("twilio", "{\"event\":\"mark\",\"name\":\"sr-hold-3\"}"));
    assert_false(is_ours("twilio", "{\"event\":\"mark\",\"mark\":{\"name\":\"sr-hold-3\"}"));
    assert_false(is_ours("plivo", "{\"event\":\"playedStream\",\"mark\":{\"name\":\"sr-hold-3\"}}"));
}

static void find__knows_three_names(void **state UNUSED)
{
    assert_ptr_equal(dialect_find("twilio"), &dialect_twilio);
    assert_ptr_equal(dialect_find("plivo"), &dialect_plivo);
    assert_ptr_equal(dialect_find("exotel"), &dialect_exotel);
    assert_null(dialect_find("Twilio"));
    assert_null(dialect_find(""));
    assert_null(dialect_find(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event__is_told_for_each_provider),
        cmocka_unit_test(event__is_that_of_the_message_itself),
        cmocka_unit_test(event__needs_only_the_beginning_that_names_it),
        cmocka_unit_test(event__of_what_is_no_message_is_other),
        cmocka_unit_test(start__says_stream_call_and_format),
        cmocka_unit_test(start__tells_its_provider_by_its_members),
        cmocka_unit_test(start__without_a_format_has_the_usual_one),
        cmocka_unit_test(start__with_a_format_that_is_not_known_has_none),
        cmocka_unit_test(start__that_cannot_be_used_is_refused),
        cmocka_unit_test(play__is_written_in_the_words_of_each_provider),
        cmocka_unit_test(mark_and_clear__are_written_in_the_words_of_each_provider),
        cmocka_unit_test(write__never_appends_more_than_it_says),
        cmocka_unit_test(mark__is_ours_by_its_name),
        cmocka_unit_test(mark__of_the_agent_is_not_ours),
        cmocka_unit_test(find__knows_three_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
