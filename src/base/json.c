/*
 * json.c - the JSON writer, and cJSON's parser with its memory taken from an arena.
 */
#include "base/json.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/utf8.h"

void json_begin(struct json_writer *json, struct strbuf *buf)
{
    *json = (struct json_writer){.buf = buf};
}

static void json_value(struct json_writer *json)
{
    if (json->needs_comma)
        strbuf_append_char(json->buf, ',');
    json->needs_comma = true;
}

void json_object_begin(struct json_writer *json)
{
    json_value(json);
    strbuf_append_char(json->buf, '{');
    json->needs_comma = false;
}

void json_object_end(struct json_writer *json)
{
    strbuf_append_char(json->buf, '}');
    json->needs_comma = true;
}

void json_array_begin(struct json_writer *json)
{
    json_value(json);
    strbuf_append_char(json->buf, '[');
    json->needs_comma = false;
}

void json_array_end(struct json_writer *json)
{
    strbuf_append_char(json->buf, ']');
    json->needs_comma = true;
}

void json_key(struct json_writer *json, const char *key)
{
    json_string(json, key);
    strbuf_append_char(json->buf, ':');
    json->needs_comma = false;
}

static void json_escape_char(struct strbuf *buf, unsigned char c)
{
    switch (c) {
    case '"':
        strbuf_append(buf, "\\\"", 2);
        break;
    case '\\':
        strbuf_append(buf, "\\\\", 2);
        break;
    case '\n':
        strbuf_append(buf, "\\n", 2);
        break;
    case '\r':
        strbuf_append(buf, "\\r", 2);
        break;
    case '\t':
        strbuf_append(buf, "\\t", 2);
        break;
    default:
        strbuf_append(buf, "\\u00", 4);
        strbuf_append_char(buf, hex_digit(c >> 4));
        strbuf_append_char(buf, hex_digit(c));
    }
}

/* Characters that stand for themselves in a JSON string; what is beyond ASCII is looked at more closely. */
static const bool is_plain[256] = {
    [' ' ... '!'] = true,
    ['#' ... '['] = true,
    [']' ... '~'] = true,
};

void json_escape(struct strbuf *buf, struct slice text)
{
    size_t plain = 0; /* start of the run that needs no escape */

    for (size_t i = 0; i < text.len;) {
        unsigned char c = (unsigned char)text.data[i];
        size_t len;

        if (is_plain[c]) {
            i++;
            continue;
        }
        len = c < 0x80 ? 0 : utf8_length(text.data + i, text.len - i);
        if (len) {
            i += len;
            continue;
        }
        strbuf_append(buf, text.data + plain, i - plain);
        if (c < 0x80)
            json_escape_char(buf, c);
        else
            strbuf_append(buf, "\xef\xbf\xbd", 3);
        i++;
        plain = i;
    }
    strbuf_append(buf, text.data + plain, text.len - plain);
}

void json_slice(struct json_writer *json, struct slice text)
{
    json_value(json);
    strbuf_append_char(json->buf, '"');
    json_escape(json->buf, text);
    strbuf_append_char(json->buf, '"');
}

void json_string(struct json_writer *json, const char *text)
{
    if (text)
        json_slice(json, slice_of(text));
    else
        json_null(json);
}

void json_u64(struct json_writer *json, uint64_t value)
{
    json_value(json);
    strbuf_append_u64(json->buf, value);
}

void json_i64(struct json_writer *json, int64_t value)
{
    json_value(json);
    strbuf_append_i64(json->buf, value);
}

void json_bool(struct json_writer *json, bool value)
{
    json_value(json);
    strbuf_append_str(json->buf, value ? "true" : "false");
}

void json_null(struct json_writer *json)
{
    json_value(json);
    strbuf_append(json->buf, "null", 4);
}

void json_raw(struct json_writer *json, struct slice text)
{
    json_value(json);
    strbuf_append(json->buf, text.data, text.len);
}

void json_compact(struct strbuf *buf, struct slice text)
{
    bool is_string = false;
    size_t start = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];

        if (c == '"')
            is_string = !is_string;
        else if (is_string && c == '\\')
            i++; /* what is escaped ends no string */
        if (is_string || !memchr(" \t\r\n", c, 4))
            continue;
        strbuf_append(buf, text.data + start, i - start);
        start = i + 1;
    }
    strbuf_append(buf, text.data + start, text.len - start);
}

void json_put_string(struct json_writer *json, const char *key, const char *text)
{
    json_key(json, key);
    json_string(json, text);
}

void json_put_u64(struct json_writer *json, const char *key, uint64_t value)
{
    json_key(json, key);
    json_u64(json, value);
}

void json_put_bool(struct json_writer *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}

void json_put_time(struct json_writer *json, const char *key, uint64_t wall_ms)
{
    char text[CLOCK_TEXT_MAX];

    clock_format_seconds(wall_ms, text);
    json_put_string(json, key, text);
}

/*
 * cJSON takes its memory from hooks without an argument. A parse runs to its end on one thread, so a
 * thread-local says which arena it is for; outside a parse the hooks are plain malloc and free.
 */
static _Thread_local struct arena *parse_arena;

static void *json_hook_alloc(size_t size)
{
    return parse_arena ? arena_alloc(parse_arena, size) : malloc(size);
}

static void json_hook_free(void *pointer)
{
    if (!parse_arena)
        free(pointer);
}

__attribute__((constructor)) static void json_install_hooks(void)
{
    cJSON_Hooks hooks = {json_hook_alloc, json_hook_free};

    cJSON_InitHooks(&hooks);
}

cJSON *json_parse(struct arena *arena, struct slice text)
{
    cJSON *root;

    if (!json_is_valid(text))
        return NULL;
    parse_arena = arena;
    root = cJSON_ParseWithLength(text.data, text.len);
    parse_arena = NULL;
    return root;
}

const char *json_get_string(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}
