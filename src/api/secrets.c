/*
 * secrets.c - parses the comma-separated lists of secrets, and compares a given text with them in
 * constant time.
 */
#include "api/secrets.h"

#include <stdio.h>
#include <stdlib.h>

#include <openssl/crypto.h>

#include "base/slice.h"

struct secret_list {
    char *text; /* the values' own memory */
    size_t text_len;
    size_t count;
    struct slice values[SECRETS_MAX];
};

struct secrets {
    struct secret_list lists[SECRET_KINDS];
};

/* Cuts `text` at its commas. NULL and the number of values, or what is wrong. */
static const char *split(const char *text, struct slice values[SECRETS_MAX], size_t *ret_count)
{
    size_t count = 0;

    *ret_count = 0;
    if (!text[0])
        return NULL;
    for (;;) {
        struct slice value = {text, strcspn(text, ",")};

        if (count == SECRETS_MAX)
            return "has more than 16 values";
        if (value.len == 0)
            return "has an empty value: it must be one, or several that are separated by commas";
        if (value.len > SECRET_VALUE_MAX)
            return "has a value of more than 1024 characters";
        if (!slice_is_printable(value))
            return "has a value with a blank or a character that is not printable ASCII";
        values[count++] = value;
        if (!text[value.len])
            break;
        text += value.len + 1;
    }
    *ret_count = count;
    return NULL;
}

_Static_assert(SECRETS_MAX == 16 && SECRET_VALUE_MAX == 1024, "the sentences above say so");

bool secrets_check(const char *text, char *error, size_t error_size)
{
    struct slice values[SECRETS_MAX];
    size_t count;
    const char *wrong = split(text, values, &count);

    if (wrong)
        snprintf(error, error_size, "%s", wrong);
    return !wrong;
}

size_t secrets_shortest(const char *text)
{
    size_t shortest = strcspn(text, ",");

    for (text += shortest; *text; text += strcspn(text, ",")) {
        text++;
        shortest = min_u64(shortest, strcspn(text, ","));
    }
    return shortest;
}

/* 0; -EINVAL; -ENOMEM. */
static int secret_list_init(struct secret_list *list, const char *text)
{
    list->text = strdup(text);
    if (!list->text)
        return -ENOMEM;
    list->text_len = strlen(text);
    return split(list->text, list->values, &list->count) ? -EINVAL : 0;
}

int secrets_new(const char *const texts[SECRET_KINDS], struct secrets **ret_secrets)
{
    struct secrets *secrets = calloc(1, sizeof(*secrets));
    int err = secrets ? 0 : -ENOMEM;

    for (unsigned kind = 0; kind < SECRET_KINDS && err == 0; kind++)
        err = secret_list_init(&secrets->lists[kind], texts[kind]);
    if (err < 0) {
        secrets_free(secrets);
        return err;
    }
    *ret_secrets = secrets;
    return 0;
}

struct secrets *secrets_free(struct secrets *secrets)
{
    if (!secrets)
        return NULL;
    for (unsigned kind = 0; kind < SECRET_KINDS; kind++) {
        struct secret_list *list = &secrets->lists[kind];

        if (list->text)
            explicit_bzero(list->text, list->text_len);
        free(list->text);
    }
    free(secrets);
    return NULL;
}

size_t secrets_count(const struct secrets *secrets, enum secret_kind kind)
{
    assert(kind < SECRET_KINDS);
    return secrets->lists[kind].count;
}

struct slice secrets_at(const struct secrets *secrets, enum secret_kind kind, size_t index)
{
    assert(index < secrets_count(secrets, kind));
    return secrets->lists[kind].values[index];
}

bool secret_equals(struct slice a, struct slice b)
{
    return a.len == b.len && CRYPTO_memcmp(a.data, b.data, a.len) == 0;
}

bool secrets_match(const struct secrets *secrets, enum secret_kind kind, struct slice given)
{
    unsigned matches = 0;

    /* All of them, also after one that fits. */
    for (size_t i = 0; i < secrets_count(secrets, kind); i++)
        matches |= secret_equals(secrets_at(secrets, kind, i), given);
    return matches != 0;
}
