/*
 * unknown.c - finds variables of the environment that look like a setting and are none.
 *
 * The environment has many variables that are no business of ours, so only three kinds are named: those
 * that are one letter away from a setting (two for long names), those with a prefix that belongs to our
 * settings, and NAME_FILE for a setting that is no secret. Kubernetes adds variables for each service
 * (REDIS_SERVICE_HOST, REDIS_PORT=tcp://...): these are left out.
 */
#include <stdio.h>

#include "base/nearest.h"
#include "config/table.h"

enum {
    NAME_MAX_LEN = 63,
    NEAR_LEN = 7, /* shorter names are near to too many others */
    FAR_LEN = 12, /* names of this length may have two mistakes */
    HINT_MAX = 8, /* distance of the name that is suggested for one with our prefix */
    NAMES_ROOM = 256,
};

/* A well-known variable of other programs that is one letter away from a setting. */
static const char *const foreign[] = {"APP_KEY"};

static const char *const prefixes[] = {"LEADER_ELECTION_", "GATEWAY_", "HOLD_", "REDIS_"};

struct known_names {
    const char *names[NAMES_ROOM];
    char files[NAMES_ROOM][NAME_MAX_LEN + 1];
    size_t count;
};

static void known_names_init(struct known_names *known)
{
    known->count = 0;
    for (size_t i = 0; i < config_table_len; i++) {
        assert(known->count + 2 <= NAMES_ROOM);
        known->names[known->count++] = config_table[i].name;
        if (!config_table[i].is_secret)
            continue;
        snprintf(known->files[known->count], sizeof(known->files[0]), "%s_FILE", config_table[i].name);
        known->names[known->count] = known->files[known->count];
        known->count++;
    }
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* NAME_SERVICE_HOST, NAME_SERVICE_PORT[_X], NAME_PORT=tcp://..., NAME_PORT_6379_TCP[_X]. */
static bool is_service_link(const char *name, const char *value)
{
    const char *port = strstr(name, "_PORT_");

    return ends_with(name, "_SERVICE_HOST") || strstr(name, "_SERVICE_PORT") ||
           (ends_with(name, "_PORT") && strstr(value, "://")) || (port && port[6] >= '0' && port[6] <= '9');
}

/* NULL: it has none of them. */
static const char *our_prefix(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return prefixes[i];
    }
    return NULL;
}

/* Only secrets can be in a file: for NAME_FILE of another setting this is NAME, else NULL. */
static const char *name_without_file(const char *name)
{
    for (size_t i = 0; i < config_table_len; i++) {
        size_t len = strlen(config_table[i].name);

        if (strncmp(name, config_table[i].name, len) == 0 && strcmp(name + len, "_FILE") == 0)
            return config_table[i].name;
    }
    return NULL;
}

/* Nobody misspells the first letter, but NODE_NAME is not far from POD_NAME. */
static const char *near_name(const struct known_names *known, const char *name)
{
    size_t len = strlen(name);
    const char *near =
        len < NEAR_LEN ? NULL : nearest_name(name, known->names, known->count, len < FAR_LEN ? 1 : 2);

    return near && (near[0] == name[0] || near[0] == name[0] - 'a' + 'A') ? near : NULL;
}

/* The nearest of the settings with this prefix: HOLD_TIMEOUT is nothing of Redis. */
static const char *near_with_prefix(const struct known_names *known, const char *name, const char *prefix)
{
    const char *names[NAMES_ROOM];
    size_t count = 0;

    for (size_t i = 0; i < known->count; i++) {
        if (strncmp(known->names[i], prefix, strlen(prefix)) == 0)
            names[count++] = known->names[i];
    }
    return nearest_name(name, names, count, HINT_MAX);
}

void config_find_unknown(char *const *environment, config_unknown_fn fn, void *arg)
{
    struct known_names known;
    char name[NAME_MAX_LEN + 1];

    known_names_init(&known);
    for (; *environment; environment++) {
        const char *equals = strchr(*environment, '=');
        size_t len = equals ? (size_t)(equals - *environment) : 0;
        const char *near, *prefix;

        if (len == 0 || len > NAME_MAX_LEN)
            continue;
        memcpy(name, *environment, len);
        name[len] = '\0';
        if (is_one_of(name, known.names, known.count) || is_one_of(name, foreign, ARRAY_LEN(foreign)) ||
            is_service_link(name, equals + 1))
            continue;
        near = name_without_file(name);
        if (!near)
            near = near_name(&known, name);
        prefix = our_prefix(name);
        if (!near && prefix)
            near = near_with_prefix(&known, name, prefix);
        if (near || prefix)
            fn(arg, name, near);
    }
}
