/*
 * keys.h - the keys of the API: API_KEY and API_KEYS. Each has a name, and a role that says what it may do.
 *
 * API_KEYS has a key per line, `name role secret`; blank lines and lines that begin with # do not count. The
 * values of API_KEY are keys as well: they have all rights, and are called "API_KEY", "API_KEY 2" and so on.
 * Does no I/O, and nothing here logs: no secret gets out, and no error shows a word of what was read.
 */
#ifndef API_KEYS_H
#define API_KEYS_H

#include "base/base.h"
#include "base/limits.h" /* KEYS_MAX, KEY_NAME_MAX */

struct keys; /* opaque: see keys.c */

enum role {
    ROLE_ADMIN,   /* everything */
    ROLE_CALL,    /* the calls: allocate, release, renew, look at one */
    ROLE_AGENT,   /* the pods, all or those that fit a pattern, and the calls on them */
    ROLE_METRICS, /* the metrics */
    ROLE_READ,    /* everything that only looks */
    ROLES,
};

struct key {
    const char *name;
    const char *pattern; /* of an agent: the pods that it may speak for (see name_fits_pod); NULL: all */
    enum role role;
    bool is_short; /* its secret has fewer than SECRET_SHORT bytes: it could be guessed */
};

/* "admin", "call", "agent", "metrics", "read". */
const char *role_name(enum role role);

/*
 * Reads the values of API_KEY, which secrets_check has seen, and the text of API_KEYS; "": not set. Copies
 * both.
 *
 * -EINVAL: API_KEYS cannot be; `error` has a sentence with the number of the line. -ENOMEM.
 */
int keys_new(const char *api_key, const char *api_keys, struct keys **ret_keys, char *error,
             size_t error_size) MUST_CHECK;

/* Overwrites the secrets before their memory goes. Accepts NULL; always returns NULL. */
struct keys *keys_free(struct keys *keys);

/* 0: none is set, and nobody is asked for one. */
size_t keys_count(const struct keys *keys);

/* Those of API_KEY first, then by line; `index` is less than the count. Valid as long as the keys. */
const struct key *keys_at(const struct keys *keys, size_t index);

/* The key with that secret, or NULL. The time tells nothing of the secrets. Valid as long as the keys. */
const struct key *keys_match(const struct keys *keys, struct slice given);

static inline void keys_freep(struct keys **keys)
{
    *keys = keys_free(*keys);
}

#endif
