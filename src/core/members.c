/*
 * members.c - finds members of a configuration that are unknown or there twice, and says what was
 * probably meant.
 */
#include "core/members.h"

#include <stdio.h>

#include "base/nearest.h"

enum { MEMBER_SHOWN_MAX = 60 };

static void list_names(const struct members_known *known, char *text, size_t size)
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < known->count && len < size; i++) {
        const char *before = i == 0 ? "" : i + 1 == known->count ? " and " : ", ";

        len += (size_t)snprintf(text + len, size - len, "%s%s", before, known->names[i]);
    }
}

bool members_is_known(const struct members_known *known, const char *name, char *error, size_t error_size)
{
    const char *nearest;
    char names[128];

    for (size_t i = 0; i < known->count; i++) {
        if (strcmp(name, known->names[i]) == 0)
            return true;
    }
    nearest = nearest_name(name, known->names, known->count, nearest_max(name));
    if (nearest) {
        snprintf(error, error_size, "unknown member \"%.*s\" %s; did you mean \"%s\"?", MEMBER_SHOWN_MAX,
                 name, known->where, nearest);
        return false;
    }
    list_names(known, names, sizeof(names));
    snprintf(error, error_size, "unknown member \"%.*s\" %s; known are %s", MEMBER_SHOWN_MAX, name,
             known->where, names);
    return false;
}

bool members_check(const cJSON *object, const struct members_known *known, char *error, size_t error_size)
{
    const cJSON *member;

    cJSON_ArrayForEach(member, object)
    {
        if (!members_is_known(known, member->string, error, error_size))
            return false;
        for (const cJSON *other = object->child; other != member; other = other->next) {
            if (strcmp(other->string, member->string) != 0)
                continue;
            /* The stores would not agree on which of the two counts. */
            snprintf(error, error_size, "member \"%s\" is there twice %s", member->string, known->where);
            return false;
        }
    }
    return true;
}

void members_bad_json(struct slice text, char *error, size_t error_size)
{
    size_t line, column;

    /* cJSON cannot take every number and every escape that the standard allows, nor any number of values. */
    if (json_is_valid(text)) {
        snprintf(
            error, error_size,
            "cannot be read: a number is too long, an escape stands for no character, or there are too many "
            "values");
        return;
    }
    json_find_fault(text, &line, &column);
    snprintf(error, error_size, "not valid JSON: line %zu, column %zu", line, column);
}
