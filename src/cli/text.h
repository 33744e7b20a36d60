/*
 * text.h - texts of the router for a terminal: nothing in them can steer it; and times as ages.
 *
 * Pure functions.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include "base/json.h"
#include "base/strbuf.h"

/*
 * Appends a text that may come from anybody. Control characters, marks that turn the direction of the line,
 * and bytes that are no UTF-8 are written as \xNN.
 */
void text_append_safe(struct strbuf *buf, struct slice text);

/* The same for JSON: it stays the same JSON, because these characters are escaped inside strings. */
void text_append_safe_json(struct strbuf *buf, struct slice json);

/* How many characters of a terminal a safe text takes. */
size_t text_columns(struct slice text);

/* Appends a value as JSON in one line; the result is not safe yet. */
void text_append_value(struct strbuf *buf, const cJSON *value);

/* Seconds as an age: "45s", "3m12s", "2h05m", "3d04h". */
void text_append_age(struct strbuf *buf, uint64_t seconds);

/* "2026-02-08T10:00:00Z", also with a fraction. False: it is no such time. */
bool text_read_time(const char *text, uint64_t *ret_ms);

/* Appends the age of such a time, "-" for NULL, and the text itself if it is no time. */
void text_append_age_of(struct strbuf *buf, const char *time);

#endif
