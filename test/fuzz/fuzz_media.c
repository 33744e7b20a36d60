/*
 * fuzz_media.c - messages of providers' media streams: what is read agrees with a JSON parser, what is
 * written is JSON.
 *
 * An input is a byte and a message. The event of the message is the same for every longer beginning of it. A
 * stream that was understood can be played to, and its marks are known when they come back.
 */
#include <stdio.h>

#include "base/json.h"
#include "fuzz.h"
#include "media/dialect.h"

enum { PARSE_MAX = 1 << 22 };

static const char *const names[] = {"twilio", "plivo", "exotel"};

static enum media_event event_named(const char *name)
{
    static const struct {
        const char *name;
        enum media_event event;
    } events[] = {{"connected", MEDIA_CONNECTED},
                  {"start", MEDIA_START},
                  {"media", MEDIA_MEDIA},
                  {"dtmf", MEDIA_DTMF},
                  {"mark", MEDIA_MARK},
                  {"playedStream", MEDIA_MARK},
                  {"played", MEDIA_MARK},
                  {"clearedAudio", MEDIA_CLEARED},
                  {"stop", MEDIA_STOP}};

    for (size_t i = 0; name && i < ARRAY_LEN(events); i++)
        if (strcmp(events[i].name, name) == 0)
            return events[i].event;
    return MEDIA_OTHER;
}

static void check_event(struct slice text, const cJSON *tree)
{
    enum media_event event = media_event(text);

    for (size_t len = 0; len <= text.len; len += 1 + len / 16) {
        enum media_event early = media_event((struct slice){text.data, len});

        assert(early == MEDIA_OTHER || early == event);
    }
    /* Names that are written with escapes are not looked for. */
    if (tree && !memchr(text.data, '\\', text.len))
        assert(event == event_named(cJSON_IsObject(tree) ? json_get_string(tree, "event") : NULL));
}

static void expect_json(struct strbuf *buf)
{
    assert(!strbuf_failed(buf) && json_is_valid(strbuf_slice(buf)));
}

/* What comes back for a mark that was written, as the provider writes it. */
static void check_mark(const struct media_start *start, uint64_t number)
{
    char text[256];
    uint64_t found = number + 1;
    struct strbuf buf;
    int len;

    strbuf_init(&buf, NULL, MEDIA_WRITE_MAX);
    media_write_mark(&buf, start, number);
    expect_json(&buf);
    len = snprintf(text, sizeof(text),
                   start->dialect->mark_object ? "{\"event\":\"mark\",\"mark\":{\"name\":\"sr-hold-%llu\"}}"
                                               : "{\"event\":\"playedStream\",\"name\":\"sr-hold-%llu\"}",
                   (unsigned long long)number);
    assert(media_is_our_mark(start->dialect, (struct slice){text, (size_t)len}, &found) && found == number);
    strbuf_release(&buf);
}

static void check_start(const struct media_start *start, uint8_t flags)
{
    struct strbuf buf;

    assert(start->stream_id[0] && strlen(start->stream_id) <= MEDIA_ID_MAX);
    assert(strlen(start->call_id) <= MEDIA_ID_MAX && start->format <= MEDIA_FORMATS);
    strbuf_init(&buf, NULL, MEDIA_WRITE_MAX);
    media_write_clear(&buf, start);
    expect_json(&buf);
    if (start->format < MEDIA_FORMATS) {
        strbuf_reset(&buf);
        media_write_play_begin(&buf, start);
        media_write_play_end(&buf, start);
        expect_json(&buf);
    }
    strbuf_release(&buf);
    check_mark(start, flags);
    check_mark(start, UINT64_MAX - flags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint8_t flags = input_byte(&input);
    const struct dialect *dialect = dialect_find(names[flags % ARRAY_LEN(names)]);
    struct slice text = input_rest(&input);
    struct media_start start;
    struct arena arena;
    uint64_t number = 0;
    const cJSON *tree;

    if (!text.data)
        text.data = "";
    arena_init(&arena, PARSE_MAX);
    tree = json_parse(&arena, text);
    check_event(text, tree);
    if (media_read_start(dialect, text, &start) == 0) {
        assert(tree && start.dialect == dialect);
        check_start(&start, flags);
        assert(media_read_start(NULL, text, &start) == 0);
    } else if (media_read_start(NULL, text, &start) == 0) {
        assert(tree && start.dialect != dialect);
        check_start(&start, flags);
    }
    if (media_is_our_mark(dialect, text, &number)) {
        assert(tree && media_event(text) == MEDIA_MARK);
    }
    arena_release(&arena);
    return 0;
}
