/*
 * text.c - makes texts safe for a terminal, and writes ages.
 */
#include "cli/text.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"

enum {
    MINUTE_S = 60,
    HOUR_S = 3600,
    DAY_S = 24 * 3600,
};

/* The length of the UTF-8 character at the start of a text that is not empty; 0: it is none. */
static size_t read_character(struct slice text, uint32_t *ret_code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text.data[0];
    size_t len = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    uint32_t code;

    if (len == 0 || len > text.len)
        return 0;
    code = len == 1 ? first : first & (0x7fU >> len);
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)text.data[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((unsigned char)text.data[i] & 0x3f);
    }
    if (code < smallest[len] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    *ret_code = code;
    return len;
}

/* Can the character move the cursor, hide, or turn the line around? */
static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
           code == 0xfeff;
}

static void append_escaped(struct strbuf *buf, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        strbuf_printf(buf, "\\x%02x", (unsigned char)bytes[i]);
}

void text_append_safe(struct strbuf *buf, struct slice text)
{
    while (text.len > 0) {
        uint32_t code = 0;
        size_t len = read_character(text, &code);
        size_t taken = len > 0 ? len : 1;

        if (len == 0 || is_control(code))
            append_escaped(buf, text.data, taken);
        else
            strbuf_append(buf, text.data, taken);
        text = (struct slice){text.data + taken, text.len - taken};
    }
}

void text_append_safe_json(struct strbuf *buf, struct slice json)
{
    while (json.len > 0) {
        uint32_t code = 0;
        size_t len = read_character(json, &code);
        size_t taken = len > 0 ? len : 1;

        assert(len > 0); /* json_is_valid has seen it */
        if (code >= 0x20 && is_control(code))
            strbuf_printf(buf, "\\u%04x", code); /* it can only stand in a string */
        else if (json.data[0] != '\r')
            strbuf_append(buf, json.data, taken);
        json = (struct slice){json.data + taken, json.len - taken};
    }
}

size_t text_columns(struct slice text)
{
    size_t columns = 0;

    for (size_t i = 0; i < text.len; i++)
        columns += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return columns;
}

static void write_value(struct json_writer *json, const cJSON *value)
{
    const cJSON *item;
    char number[32];

    if (cJSON_IsObject(value)) {
        json_object_begin(json);
        cJSON_ArrayForEach(item, value)
        {
            json_key(json, item->string);
            write_value(json, item);
        }
        json_object_end(json);
    } else if (cJSON_IsArray(value)) {
        json_array_begin(json);
        cJSON_ArrayForEach(item, value)
        {
            write_value(json, item);
        }
        json_array_end(json);
    } else if (cJSON_IsNumber(value)) {
        snprintf(number, sizeof(number), "%.15g", value->valuedouble);
        json_raw(json, slice_of(number));
    } else if (cJSON_IsString(value)) {
        json_string(json, value->valuestring);
    } else if (cJSON_IsBool(value)) {
        json_bool(json, cJSON_IsTrue(value));
    } else {
        json_null(json);
    }
}

/* json_parse allows 64 levels, so the recursion has an end. */
void text_append_value(struct strbuf *buf, const cJSON *value)
{
    struct json_writer json;

    json_begin(&json, buf);
    write_value(&json, value);
}

void text_append_age(struct strbuf *buf, uint64_t seconds)
{
    unsigned long long s = seconds;

    if (s < MINUTE_S)
        strbuf_printf(buf, "%llus", s);
    else if (s < HOUR_S)
        strbuf_printf(buf, "%llum%02llus", s / MINUTE_S, s % MINUTE_S);
    else if (s < DAY_S)
        strbuf_printf(buf, "%lluh%02llum", s / HOUR_S, s % HOUR_S / MINUTE_S);
    else
        strbuf_printf(buf, "%llud%02lluh", s / DAY_S, s % DAY_S / HOUR_S);
}

bool text_read_time(const char *text, uint64_t *ret_ms)
{
    struct tm tm = {0};
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    uint64_t ms = 0, unit = 100;
    time_t seconds;

    if (!rest)
        return false;
    if (*rest == '.') {
        for (rest++; *rest >= '0' && *rest <= '9'; rest++) {
            ms += (uint64_t)(*rest - '0') * unit;
            unit /= 10;
        }
    }
    seconds = timegm(&tm);
    if (strcmp(rest, "Z") != 0 || seconds < 0)
        return false;
    *ret_ms = (uint64_t)seconds * 1000 + ms;
    return true;
}

void text_append_age_of(struct strbuf *buf, const char *time)
{
    uint64_t now_ms = clock_wall_ms(), ms;

    if (!time)
        strbuf_append_char(buf, '-');
    else if (text_read_time(time, &ms))
        text_append_age(buf, now_ms > ms ? (now_ms - ms) / 1000 : 0);
    else
        strbuf_append_str(buf, time);
}
