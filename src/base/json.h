/*
 * json.h - writes JSON into a strbuf, and parses JSON into the tree of cJSON.
 *
 * The writer places the commas. Strings are escaped so that any bytes give valid JSON: what is not UTF-8
 * becomes U+FFFD.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <cjson/cJSON.h>

#include "base/strbuf.h"

struct json_writer {
    struct strbuf *buf;
    bool needs_comma;
};

void json_begin(struct json_writer *json, struct strbuf *buf);

void json_object_begin(struct json_writer *json);
void json_object_end(struct json_writer *json);
void json_array_begin(struct json_writer *json);
void json_array_end(struct json_writer *json);
void json_key(struct json_writer *json, const char *key);

/* Values: inside an array, or after json_key. */
void json_string(struct json_writer *json, const char *text); /* NULL gives null */
void json_slice(struct json_writer *json, struct slice text);
void json_u64(struct json_writer *json, uint64_t value);
void json_i64(struct json_writer *json, int64_t value);
void json_bool(struct json_writer *json, bool value);
void json_null(struct json_writer *json);
/* Text that is JSON already. */
void json_raw(struct json_writer *json, struct slice text);

/* The same with a key in front, for objects. */
void json_put_string(struct json_writer *json, const char *key, const char *text);
void json_put_u64(struct json_writer *json, const char *key, uint64_t value);
void json_put_bool(struct json_writer *json, const char *key, bool value);
/* Wall-clock milliseconds as "2026-02-08T10:00:00Z". */
void json_put_time(struct json_writer *json, const char *key, uint64_t wall_ms);

/* Appends `text` escaped for the inside of a JSON string, without the quotes. */
void json_escape(struct strbuf *buf, struct slice text);

/*
 * Is it one JSON text, to the letter of the standard, in UTF-8, nested at most 64 deep? An escaped NUL is
 * refused, too, because a C string would end there.
 */
bool json_is_valid(struct slice text);

/* For a text that is not valid: the line and the column, from 1 on, at which that is noticed. */
void json_find_fault(struct slice text, size_t *ret_line, size_t *ret_column);

/* Appends a valid JSON text without the white space between its parts, so that it is one line. */
void json_compact(struct strbuf *buf, struct slice text);

/*
 * Parses one JSON text; white space around it is allowed, anything else is not.
 *
 * The tree lives in `arena`: never cJSON_Delete it. NULL: not json_is_valid, or no memory.
 */
cJSON *json_parse(struct arena *arena, struct slice text) MUST_CHECK;

/* The string member `key` of `object`, or NULL if it is absent or not a string. Keys are case-sensitive. */
const char *json_get_string(const cJSON *object, const char *key);

#endif
