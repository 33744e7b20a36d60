/*
 * value.c - parses and validates the text of one setting by its type, and describes the allowed
 * values.
 */
#include "config/value.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/quantity.h"

void *value_field(const struct setting *setting, struct settings *settings)
{
    return (char *)settings + setting->offset;
}

static bool parse_uint(const char *text, uint64_t *ret_value)
{
    return quantity_digits(&text, ret_value) && *text == '\0';
}

static bool parse_bool(const char *text, bool *ret_value)
{
    if (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0)
        *ret_value = true;
    else if (strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0)
        *ret_value = false;
    else
        return false;
    return true;
}

/* The place of the `len` bytes of `text` among the choices, or -1. */
static int find_choice(const char *choices, const char *text, size_t len)
{
    for (int i = 0; *choices; i++) {
        size_t choice_len = strcspn(choices, "|");

        if (choice_len == len && strncasecmp(choices, text, len) == 0)
            return i;
        choices += choice_len;
        choices += *choices == '|';
    }
    return -1;
}

static bool is_plain_text(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    }
    return true;
}

/* host, host:port or [v6]:port; `len` bytes. */
static bool is_authority(const char *text, size_t len)
{
    const char *end = text + len;
    const char *port = NULL;
    size_t host_len;
    uint64_t number;

    if (len > 0 && *text == '[') {
        const char *bracket = memchr(text, ']', len);

        if (!bracket || bracket == text + 1)
            return false;
        for (const char *at = text + 1; at < bracket; at++) {
            if (!isxdigit((unsigned char)*at) && *at != ':' && *at != '.')
                return false;
        }
        port = bracket + 1 < end ? bracket + 1 : NULL;
        if (port && *port != ':')
            return false;
    } else {
        port = memchr(text, ':', len);
        host_len = port ? (size_t)(port - text) : len;
        if (host_len == 0)
            return false;
        for (size_t i = 0; i < host_len; i++) {
            if (!isalnum((unsigned char)text[i]) && text[i] != '.' && text[i] != '-' && text[i] != '_')
                return false;
        }
    }
    if (!port)
        return true;
    port++;
    return quantity_digits(&port, &number) && port == end && number >= 1 && number <= UINT16_MAX;
}

/* What ends up in URLs given to others must be a URL: no blanks, quotes, brackets or bytes beyond ASCII. */
static bool is_url(const char *text, const char *schemes)
{
    const char *colon = strstr(text, "://");
    const char *authority;

    if (!colon || find_choice(schemes, text, (size_t)(colon - text)) < 0)
        return false;
    for (const char *at = text; *at; at++) {
        if ((unsigned char)*at <= 0x20 || (unsigned char)*at >= 0x7f || strchr("\"<>\\^`{|}", *at))
            return false;
    }
    authority = colon + 3;
    return is_authority(authority, strcspn(authority, "/?#"));
}

static bool is_json_object(const char *text)
{
    struct arena arena;
    const cJSON *tree;
    bool is_object;

    arena_init(&arena, 4 * 1024 * 1024);
    tree = json_parse(&arena, slice_of(text));
    is_object = tree && cJSON_IsObject(tree);
    arena_release(&arena);
    return is_object;
}

static void append_choices(struct strbuf *buf, const char *choices, const char *suffix)
{
    while (*choices) {
        size_t len = strcspn(choices, "|");

        strbuf_append(buf, choices, len);
        strbuf_append_str(buf, suffix);
        choices += len;
        if (*choices == '|') {
            choices++;
            strbuf_append_str(buf, strchr(choices, '|') ? ", " : " or ");
        }
    }
}

void value_describe(const struct setting *setting, struct strbuf *buf)
{
    switch (setting->type) {
    case SETTING_STRING:
        strbuf_printf(buf, "text of at most %llu characters", (unsigned long long)setting->max);
        break;
    case SETTING_LINES:
        strbuf_printf(buf, "lines of at most %llu characters together", (unsigned long long)setting->max);
        break;
    case SETTING_JSON:
        strbuf_printf(buf, "a JSON object of at most %llu bytes", (unsigned long long)setting->max);
        break;
    case SETTING_URL:
        strbuf_append_str(buf, "a URL that begins with ");
        append_choices(buf, setting->choices, "://");
        break;
    case SETTING_PORT:
        strbuf_printf(buf, "a port from %llu to %llu", (unsigned long long)setting->min,
                      (unsigned long long)setting->max);
        break;
    case SETTING_UINT:
        strbuf_printf(buf, "a whole number from %llu to %llu", (unsigned long long)setting->min,
                      (unsigned long long)setting->max);
        break;
    case SETTING_DURATION:
        strbuf_append_str(buf, "a duration from ");
        quantity_append_duration(buf, setting->min);
        strbuf_append_str(buf, " to ");
        quantity_append_duration(buf, setting->max);
        break;
    case SETTING_BOOL:
        strbuf_append_str(buf, "true or false");
        break;
    case SETTING_ENUM:
        append_choices(buf, setting->choices, "");
        break;
    }
}

static bool value_read(const struct setting *setting, const char *text, void *field)
{
    uint64_t number;
    int choice;

    switch (setting->type) {
    case SETTING_STRING:
    case SETTING_LINES:
    case SETTING_JSON:
    case SETTING_URL:
        if (strlen(text) < setting->min || strlen(text) > setting->max)
            return false;
        if (setting->type == SETTING_STRING && !is_plain_text(text))
            return false;
        if (setting->type == SETTING_URL && !is_url(text, setting->choices))
            return false;
        if (setting->type == SETTING_JSON && !is_json_object(text))
            return false;
        *(const char **)field = text;
        return true;
    case SETTING_PORT:
        if (!parse_uint(text, &number) || number < setting->min || number > setting->max)
            return false;
        *(uint16_t *)field = (uint16_t)number;
        return true;
    case SETTING_UINT:
        if (!parse_uint(text, &number) || number < setting->min || number > setting->max)
            return false;
        *(uint64_t *)field = number;
        return true;
    case SETTING_DURATION:
        if (!quantity_duration(text, &number) || number < setting->min || number > setting->max)
            return false;
        *(uint64_t *)field = number;
        return true;
    case SETTING_BOOL:
        return parse_bool(text, field);
    case SETTING_ENUM:
        choice = find_choice(setting->choices, text, strlen(text));
        if (choice < 0)
            return false;
        *(int *)field = choice;
        return true;
    }
    assert(false);
    return false;
}

int value_parse(const struct setting *setting, const char *text, struct settings *settings,
                struct strbuf *allowed)
{
    if (value_read(setting, text, value_field(setting, settings)))
        return 0;
    value_describe(setting, allowed);
    if (setting->type == SETTING_STRING && !is_plain_text(text))
        strbuf_append_str(allowed, ", without line ends or other control characters");
    if (setting->type == SETTING_DURATION)
        strbuf_append_str(allowed, ", such as 500ms, 30s, 6m, 24h or 1h30m");
    return -EINVAL;
}
