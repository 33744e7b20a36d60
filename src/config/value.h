/*
 * value.h - from a variable's text to its value. Inside the room only.
 */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "config/table.h"

/*
 * Parses `text` for `setting` into its field of `settings`; strings are borrowed.
 *
 * 0, or -EINVAL with what would be allowed appended to `allowed`.
 */
int value_parse(const struct setting *setting, const char *text, struct settings *settings,
                struct strbuf *allowed) MUST_CHECK;

/* "a port from 0 to 65535", "one of json, console": for messages and for the documentation. */
void value_describe(const struct setting *setting, struct strbuf *buf);

/* 5400000 gives "1h30m". */
void value_append_duration(struct strbuf *buf, uint64_t ms);

/* The field of `setting` in `settings`. */
void *value_field(const struct setting *setting, struct settings *settings);

#endif
