/*
 * secrets.h - the keys and tokens that requests are checked against.
 *
 * Each kind is a list of one to SECRETS_MAX values, so that a new one can be given out before the old one is
 * withdrawn. Compares in constant time. Does no I/O, and nothing here logs: no value gets out but through
 * secrets_at.
 */
#ifndef API_SECRETS_H
#define API_SECRETS_H

#include "base/base.h"

struct secrets; /* opaque: see secrets.c */

enum secret_kind {
    SECRET_API_KEY,
    SECRET_TWILIO,
    SECRET_PLIVO,
    SECRET_EXOTEL,
    SECRET_KINDS,
};

enum {
    SECRETS_MAX = 16,        /* values of one kind */
    SECRET_VALUE_MAX = 1024, /* bytes of one value */
    SECRET_SHORT = 16,       /* a value with fewer bytes could be guessed: worth a warning */
};

/*
 * Is `text` a list of values: 1 to SECRETS_MAX, separated by commas, each 1 to SECRET_VALUE_MAX printable
 * ASCII characters without blanks? "" is fine: not set. False, with a sentence in `error` that shows no
 * value.
 */
bool secrets_check(const char *text, char *error, size_t error_size);

/* How many bytes the shortest value of such a list has; 0: it is "". */
size_t secrets_shortest(const char *text);

/* `texts` has a list for each kind; they are copied. -EINVAL: secrets_check refuses one; -ENOMEM. */
int secrets_new(const char *const texts[SECRET_KINDS], struct secrets **ret_secrets) MUST_CHECK;

/* Overwrites the values before their memory goes. Accepts NULL; always returns NULL. */
struct secrets *secrets_free(struct secrets *secrets);

/* 0: not set, nothing is checked. */
size_t secrets_count(const struct secrets *secrets, enum secret_kind kind);

/* `index` is less than the count. The slice stays valid as long as the secrets. */
struct slice secrets_at(const struct secrets *secrets, enum secret_kind kind, size_t index);

/* Is `given` one of the values? Takes the same time whichever it is and wherever it differs. */
bool secrets_match(const struct secrets *secrets, enum secret_kind kind, struct slice given);

/* The time tells the lengths, and nothing of the contents. */
bool secret_equals(struct slice a, struct slice b);

#endif
