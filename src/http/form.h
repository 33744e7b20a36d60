/*
 * form.h - application/x-www-form-urlencoded bodies, queries and percent-encoding.
 */
#ifndef HTTP_FORM_H
#define HTTP_FORM_H

#include "base/arena.h"
#include "base/strbuf.h"

enum { FORM_FIELDS_MAX = 256 };

struct form_field {
    const char *name; /* decoded, NUL-terminated; the text ends at the first NUL a client hid in it */
    const char *value;
    size_t name_len; /* both lengths so that a hidden NUL can be noticed */
    size_t value_len;
};

struct form {
    struct form_field *fields;
    size_t count;
};

/*
 * Decodes "a=1&b=%20+x" into `arena`. An invalid escape is taken literally, as browsers and Go do not agree
 * on more. 0; -E2BIG: more than FORM_FIELDS_MAX fields; -ENOMEM.
 */
int form_parse(struct arena *arena, struct slice text, struct form *ret_form) MUST_CHECK;

/* The first value of that name, or NULL. */
const char *form_get(const struct form *form, const char *name);

/* Appends `text` with everything but A-Z a-z 0-9 - . _ ~ percent-encoded. */
void percent_encode(struct strbuf *buf, struct slice text);

#endif
