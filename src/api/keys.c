/*
 * keys.c - parses API_KEY and API_KEYS, and finds the key that a request was sent with.
 */
#include "api/keys.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/secrets.h"
#include "base/map.h"
#include "base/slice.h"
#include "core/names.h"

#define AGENT_OF "agent="

#define LINE_RULE "must be `name role secret`"
#define NAME_RULE "1 to " LIMIT_TEXT(KEY_NAME_MAX) " characters of A-Z a-z 0-9 . _ -"

/* Of the values of API_KEY. No line can have it, nor anything with a blank. */
static const char reserved_name[] = "API_KEY";

struct entry {
    struct map_node by_secret;
    struct map_node by_name;
    struct key key;
    size_t line; /* 0: a value of API_KEY */
    char name[KEY_NAME_MAX + 1];
    char pattern[POD_NAME_MAX + 1];
};

struct keys {
    struct map by_secret; /* its keys point into the two texts */
    struct map by_name;
    struct entry *entries; /* does not move */
    size_t count;
    char *api_key;
    char *api_keys;
};

/* One line, and where to complain about it. */
struct reading {
    struct keys *keys;
    size_t line;
    char *error;
    size_t error_size;
};

static const char *const role_names[ROLES] = {
    [ROLE_ADMIN] = "admin",     [ROLE_CALL] = "call", [ROLE_AGENT] = "agent",
    [ROLE_METRICS] = "metrics", [ROLE_READ] = "read",
};

const char *role_name(enum role role)
{
    assert(role < ROLES);
    return role_names[role];
}

/* Says which line it is, and nothing of what it says: whoever mixed up the words wrote the secret anywhere.
 */
static int reading_fail(const struct reading *reading, const char *rule)
{
    snprintf(reading->error, reading->error_size, "line %zu %s", reading->line, rule);
    return -EINVAL;
}

static int reading_fail_twice(const struct reading *reading, const char *what, const struct entry *other)
{
    if (other->line == 0)
        snprintf(reading->error, reading->error_size, "line %zu has a %s of API_KEY", reading->line, what);
    else
        snprintf(reading->error, reading->error_size, "line %zu has the same %s as line %zu", reading->line,
                 what, other->line);
    return -EINVAL;
}

static bool is_name(struct slice text)
{
    /* The characters of a tier's name. */
    for (size_t i = 0; i < text.len; i++) {
        if (!name_is_tier(text.data + i, 1))
            return false;
    }
    return text.len >= 1 && text.len <= KEY_NAME_MAX;
}

/* Cuts the first word off the line. */
static struct slice take_word(struct slice *line)
{
    struct slice word = {line->data, 0};

    while (word.len < line->len && word.data[word.len] != ' ' && word.data[word.len] != '\t')
        word.len++;
    *line = slice_trim((struct slice){line->data + word.len, line->len - word.len});
    return word;
}

static int read_name(const struct reading *reading, struct slice name, struct entry *entry)
{
    const struct map_node *other;

    if (!is_name(name))
        return reading_fail(reading, "has a name that is not allowed: " NAME_RULE);
    if (slice_equals(name, reserved_name))
        return reading_fail(reading, "has the name API_KEY, which is reserved");
    other = map_get(&reading->keys->by_name, name.data, name.len);
    if (other)
        return reading_fail_twice(reading, "name", CONTAINER_OF(other, struct entry, by_name));
    memcpy(entry->name, name.data, name.len);
    return 0;
}

static int read_role(const struct reading *reading, struct slice role, struct entry *entry)
{
    size_t prefix = strlen(AGENT_OF);

    if (role.len > prefix && memcmp(role.data, AGENT_OF, prefix) == 0) {
        struct slice pattern = {role.data + prefix, role.len - prefix};

        if (!name_is_pod_pattern(pattern.data, pattern.len))
            return reading_fail(reading, "has a bad pattern: what follows agent= " POD_PATTERN_RULE);
        entry->key.role = ROLE_AGENT;
        memcpy(entry->pattern, pattern.data, pattern.len);
        entry->key.pattern = entry->pattern;
        return 0;
    }
    for (int i = 0; i < ROLES; i++) {
        if (slice_equals(role, role_names[i])) {
            entry->key.role = (enum role)i;
            return 0;
        }
    }
    return reading_fail(reading,
                        "has an unknown role; allowed: admin, call, agent, agent=PATTERN, metrics, read");
}

static int read_secret(const struct reading *reading, struct slice secret)
{
    const struct map_node *other;

    if (secret.len > SECRET_VALUE_MAX)
        return reading_fail(reading, "has a secret of more than 1024 characters");
    if (!slice_is_printable(secret))
        return reading_fail(reading, "has a secret with a character that is not printable ASCII");
    /* As in API_KEY, where commas separate keys: whoever writes new,old here means two, and would lose both.
     */
    if (memchr(secret.data, ',', secret.len))
        return reading_fail(reading, "has a comma in its secret: give each key a line and a name of its own");
    other = map_get(&reading->keys->by_secret, secret.data, secret.len);
    if (other)
        return reading_fail_twice(reading, "secret", CONTAINER_OF(other, struct entry, by_secret));
    return 0;
}

_Static_assert(SECRET_VALUE_MAX == 1024, "the sentence says so");

/* The entry is filled in, but for what the secret says. 0 or -ENOMEM. */
static int keys_put(struct keys *keys, struct entry *entry, struct slice secret)
{
    if (map_reserve(&keys->by_secret) < 0 || map_reserve(&keys->by_name) < 0)
        return -ENOMEM;
    entry->key.name = entry->name;
    entry->key.is_short = secret.len < SECRET_SHORT;
    map_put(&keys->by_secret, &entry->by_secret, secret.data, secret.len);
    map_put(&keys->by_name, &entry->by_name, entry->name, strlen(entry->name));
    keys->count++;
    return 0;
}

/* `line` is not empty and has no blanks at its ends. */
static int read_line(const struct reading *reading, struct slice line)
{
    struct keys *keys = reading->keys;
    struct entry *entry = &keys->entries[keys->count];
    struct slice name = take_word(&line);
    struct slice role = take_word(&line);
    struct slice secret = take_word(&line);
    int err;

    if (secret.len == 0 || line.len > 0)
        return reading_fail(reading, LINE_RULE);
    entry->line = reading->line;
    err = read_name(reading, name, entry);
    if (err == 0)
        err = read_role(reading, role, entry);
    if (err == 0)
        err = read_secret(reading, secret);
    return err < 0 ? err : keys_put(keys, entry, secret);
}

static struct slice trim_line(const char *text, size_t len)
{
    /* Some editors end lines with CR LF. */
    if (len > 0 && text[len - 1] == '\r')
        len--;
    return slice_trim((struct slice){text, len});
}

/* `before` is how many keys there are from API_KEY. */
static int read_lines(struct reading *reading, const char *text)
{
    const size_t before = reading->keys->count;

    while (*text) {
        size_t len = strcspn(text, "\n");
        struct slice line = trim_line(text, len);
        int err = 0;

        reading->line++;
        if (line.len > 0 && line.data[0] != '#') {
            if (reading->keys->count - before == KEYS_MAX)
                err = reading_fail(reading, "is one key too many: there may be " LIMIT_TEXT(KEYS_MAX));
            else
                err = read_line(reading, line);
        }
        if (err < 0)
            return err;
        text += len + (text[len] == '\n');
    }
    if (reading->keys->count > before)
        return 0;
    /* Whoever set it did not mean that nobody needs a key. */
    snprintf(reading->error, reading->error_size, "the text has no key: a line " LINE_RULE);
    return -EINVAL;
}

/* A value that stands there twice is one key. */
static int read_api_key(struct keys *keys, const char *text)
{
    struct slice list = slice_of(text);
    struct slice value;
    unsigned number = 0;

    while (slice_take_first(&list, &value)) {
        struct entry *entry = &keys->entries[keys->count];
        int err;

        number++;
        if (value.len == 0 || keys->count == SECRETS_MAX || map_get(&keys->by_secret, value.data, value.len))
            continue;
        if (number == 1)
            snprintf(entry->name, sizeof(entry->name), "%s", reserved_name);
        else
            snprintf(entry->name, sizeof(entry->name), "%s %u", reserved_name, number);
        err = keys_put(keys, entry, value);
        if (err < 0)
            return err;
    }
    return 0;
}

static size_t count_lines(const char *text)
{
    size_t lines = 1;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static int keys_fill(struct keys *keys, const char *api_key, const char *api_keys, char *error,
                     size_t error_size)
{
    struct reading reading = {keys, 0, error, error_size};
    int err;

    keys->api_key = strdup(api_key);
    keys->api_keys = strdup(api_keys);
    keys->entries = calloc(SECRETS_MAX + min_u64(count_lines(api_keys), KEYS_MAX), sizeof(*keys->entries));
    if (!keys->api_key || !keys->api_keys || !keys->entries)
        return -ENOMEM;
    err = read_api_key(keys, keys->api_key);
    if (err == 0 && api_keys[0])
        err = read_lines(&reading, keys->api_keys);
    return err;
}

int keys_new(const char *api_key, const char *api_keys, struct keys **ret_keys, char *error,
             size_t error_size)
{
    CLEANUP(keys_freep) struct keys *keys = calloc(1, sizeof(*keys));
    int err;

    if (!keys)
        return -ENOMEM;
    map_init(&keys->by_secret);
    map_init(&keys->by_name);
    err = keys_fill(keys, api_key, api_keys, error, error_size);
    if (err < 0)
        return err;
    *ret_keys = TAKE(keys);
    return 0;
}

static void free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

struct keys *keys_free(struct keys *keys)
{
    if (!keys)
        return NULL;
    map_release(&keys->by_secret);
    map_release(&keys->by_name);
    free(keys->entries);
    free_secret(keys->api_key);
    free_secret(keys->api_keys);
    free(keys);
    return NULL;
}

size_t keys_count(const struct keys *keys)
{
    return keys->count;
}

const struct key *keys_at(const struct keys *keys, size_t index)
{
    assert(index < keys->count);
    return &keys->entries[index].key;
}

static bool equals_in_constant_time(const char *a, const char *b, size_t len)
{
    return secret_equals((struct slice){a, len}, (struct slice){b, len});
}

/*
 * Costs the same with one key and with a thousand. The map hashes what is given with a random key of its own
 * (SipHash) and compares bytes only where all 64 bits of the hash agree. Nobody outside can tell which
 * guesses come near that, so that the time a guess takes depends on its length alone, and not on how many of
 * its bytes are right; a guess that agrees by chance comes once in 2^64. And for that one the time that the
 * comparison takes does not depend on the bytes either.
 */
const struct key *keys_match(const struct keys *keys, struct slice given)
{
    const struct map_node *node =
        map_get_by(&keys->by_secret, given.data, given.len, equals_in_constant_time);

    return node ? &CONTAINER_OF(node, struct entry, by_secret)->key : NULL;
}
