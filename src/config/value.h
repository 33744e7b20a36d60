/*
 * value.h - turns a variable's text into its value. Inside the module only.
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

/* The field of `setting` in `settings`. */
void *value_field(const struct setting *setting, struct settings *settings);

#endif
