/*
 * members.h - the strict reading of configuration: members that are unknown or there twice, bad JSON.
 *
 * Functions here fill a sentence for the operator. Does no I/O and does not log.
 */
#ifndef CORE_MEMBERS_H
#define CORE_MEMBERS_H

#include "base/json.h"

/* The known members of an object, and how to say where they stand: "in tier \"gold\"". */
struct members_known {
    const char *const *names;
    size_t count;
    const char *where;
};

/* True: the member is known. False: `error` names it, and the nearest known one or all of them. */
bool members_is_known(const struct members_known *known, const char *name, char *error, size_t error_size);

/* True: each member is known and there once. False: `error` names the first that is not. */
bool members_check(const cJSON *object, const struct members_known *known, char *error, size_t error_size);

/* json_parse does not take `text`: says so, and where it is wrong. */
void members_bad_json(struct slice text, char *error, size_t error_size);

#endif
