/*
 * fuzz_form.c - forms, queries, percent-encoding and the parameters in paths.
 *
 * Whatever the text: the fields are those between its ampersands, none is longer than what it was read from,
 * and what is written down again is read as the same. Any bytes, encoded, come out as they were.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "http/form.h"
#include "http/router.h"

enum { ARENA_MAX = 8 * 1024 * 1024 };

static size_t count_pieces(struct slice text)
{
    struct input input = {(const uint8_t *)text.data, text.len};
    size_t count = 0;

    while (input.size > 0)
        count += input_until(&input, '&').len > 0;
    return count;
}

static void check_again(struct arena *arena, const struct form *form, const struct strbuf *text)
{
    struct form again;
    int rc = form_parse(arena, strbuf_slice(text), &again);

    assert(rc == 0);
    assert(again.count == form->count);
    for (size_t i = 0; i < form->count; i++) {
        assert(strcmp(again.fields[i].name, form->fields[i].name) == 0);
        assert(again.fields[i].value_len == form->fields[i].value_len);
        assert(memcmp(again.fields[i].value, form->fields[i].value, form->fields[i].value_len) == 0);
    }
}

static void check_form(struct arena *arena, struct slice text)
{
    struct form form = {NULL, 0};
    struct strbuf buf;
    size_t total = 0;
    int rc = form_parse(arena, text, &form);

    if (count_pieces(text) > FORM_FIELDS_MAX) {
        assert(rc == -E2BIG);
        return;
    }
    assert(rc == 0);
    assert(form.count == count_pieces(text));
    strbuf_init(&buf, arena, ARENA_MAX);
    for (size_t i = 0; i < form.count; i++) {
        const struct form_field *field = &form.fields[i];

        assert(field->value[field->value_len] == '\0');
        total += strlen(field->name) + field->value_len;
        assert(form_get(&form, field->name) != NULL);
        if (i == 0)
            assert(form_get(&form, field->name) == field->value);
        else
            strbuf_append_char(&buf, '&');
        percent_encode(&buf, slice_of(field->name));
        strbuf_append_char(&buf, '=');
        percent_encode(&buf, (struct slice){field->value, field->value_len});
    }
    assert(total <= text.len);
    assert(!strbuf_failed(&buf));
    check_again(arena, &form, &buf);
}

static void handle_nothing(struct http_request *request UNUSED, void *arg UNUSED)
{
}

/* As a value and as a part of a path. */
static void check_bytes(struct arena *arena, struct slice bytes)
{
    static const struct http_route route = {"GET", "/p/{x}", handle_nothing};
    struct router_match match;
    struct router router;
    struct strbuf buf;
    struct form form;
    int rc;

    strbuf_init(&buf, arena, ARENA_MAX);
    strbuf_append_str(&buf, "/p/");
    percent_encode(&buf, bytes);
    assert(buf.len <= 3 + 3 * bytes.len);
    for (size_t i = 3; i < buf.len; i++)
        assert(buf.data[i] > ' ' && buf.data[i] < 127 && !strchr("&=+/?#\"<>", buf.data[i]));

    router_init(&router);
    rc = router_add(&router, &route, NULL);
    assert(rc == 0);
    rc = router_find(&router, ROUTER_GET, strbuf_slice(&buf), arena, &match);
    if (bytes.len == 0) {
        assert(rc == -ENOENT);
    } else if (memchr(bytes.data, '\0', bytes.len)) {
        assert(rc == -EINVAL);
    } else {
        assert(rc == 0 && match.param_count == 1);
        assert(strlen(match.params[0].value) == bytes.len);
        assert(memcmp(match.params[0].value, bytes.data, bytes.len) == 0);
    }
    /* The text as it is, too: it may be anything but a crash. */
    rc = router_find(&router, ROUTER_GET, bytes, arena, &match);
    assert(rc <= 0);
    router_release(&router);

    buf.data[0] = 'p';
    buf.data[1] = '=';
    memmove(buf.data + 2, buf.data + 3, buf.len - 3);
    buf.len--;
    rc = form_parse(arena, strbuf_slice(&buf), &form);
    assert(rc == 0 && form.count == 1 && form.fields[0].value_len == bytes.len);
    assert(bytes.len == 0 || memcmp(form.fields[0].value, bytes.data, bytes.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {(const char *)data, size};
    struct arena arena;

    arena_init(&arena, ARENA_MAX);
    check_form(&arena, text);
    arena_release(&arena);
    arena_init(&arena, ARENA_MAX);
    check_bytes(&arena, text);
    arena_release(&arena);
    return 0;
}
