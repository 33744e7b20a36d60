/*
 * options.c - reads the options and the operands of a command, and shows them in its usage.
 */
#include "cli/options.h"

#include <stdlib.h>

#include "base/quantity.h"

enum {
    WATCH_DEFAULT_MS = 2 * 1000,
    WATCH_MIN_MS = 100,
    HELP_COLUMN = 26,                         /* where the meaning of an option begins */
    COMMON = CLI_ASKS | CLI_JSON | CLI_WATCH, /* told once, at the end of the help */
};

static const char needs_value[] = "this option needs a value";

static const struct option {
    const char *name;
    const char *value; /* what its value is called; NULL: it has none; "[SECONDS]": it may have one */
    enum cli_option bit;
    bool is_hidden;
    const char *meaning;
} table[] = {
    {"--ready", NULL, CLI_READY, false, "ask for /ready instead of /health"},
    {"--openapi", NULL, CLI_OPENAPI, false, "print the OpenAPI document"},
    {"--markdown", NULL, CLI_MARKDOWN, true, ""},
    {"--table", NULL, CLI_TABLE, true, ""},
    {"--tier", "TIER", CLI_TIER, false, "only pods of this tier or merchant pool"},
    {"--state", "STATE", CLI_STATE, false, "only those in this state"},
    {"--pod", "POD", CLI_POD, false, "only calls of this pod"},
    {"--merchant", "ID", CLI_MERCHANT, false, "only calls of this merchant"},
    {"--older-than", "TIME", CLI_OLDER_THAN, false, "only calls that are older: 90s, 10m, 1h30m"},
    {"--ttl", "SECONDS", CLI_TTL, false, "how long it drains; 0: until it is undrained"},
    {"--dry-run", NULL, CLI_DRY_RUN, false, "show what would change, and change nothing"},
    {"--watch", "[SECONDS]", CLI_WATCH, false, "show it again every 2 seconds, until Ctrl-C"},
    {"--json", NULL, CLI_JSON, false, "print the router's answer as it is"},
    {"--timeout", "SECONDS", CLI_TIMEOUT, false, "how long to wait: 90, 5m, 1h30m"},
    {"--url", "URL", CLI_URL, false, "the router; default: SMART_ROUTER_URL"},
    {"--api-key-file", "FILE", CLI_API_KEY_FILE, false,
     "the file with the key; default: SMART_ROUTER_API_KEY_FILE"},
};

/* Seconds, or a duration as in the settings: "90", "90s", "1h30m". */
static bool read_time(const char *text, uint64_t *ret_ms)
{
    const char *end = text;
    uint64_t seconds;

    if (quantity_digits(&end, &seconds) && !*end) {
        if (seconds > UINT64_MAX / 1000)
            return false;
        *ret_ms = seconds * 1000;
        return true;
    }
    return quantity_duration(text, ret_ms);
}

static const char *read_timing(uint64_t *time_ms, const char *value, uint64_t min_ms)
{
    uint64_t ms;

    if (!read_time(value, &ms) || ms < min_ms)
        return "not a time such as 90 or 5m";
    *time_ms = ms;
    return NULL;
}

static const char *read_value(struct cli_options *options, enum cli_option bit, const char *value)
{
    const struct {
        enum cli_option bit;
        const char **place;
    } texts[] = {
        {CLI_URL, &options->url},
        {CLI_API_KEY_FILE, &options->api_key_file},
        {CLI_TIER, &options->tier},
        {CLI_STATE, &options->state},
        {CLI_POD, &options->pod},
        {CLI_MERCHANT, &options->merchant},
        {CLI_OLDER_THAN, &options->older_than},
    };

    if (!value[0])
        return needs_value;
    if (bit == CLI_TIMEOUT)
        return read_timing(&options->timeout_ms, value, 1);
    if (bit == CLI_WATCH)
        return read_timing(&options->watch_ms, value, WATCH_MIN_MS);
    if (bit == CLI_TTL)
        return read_timing(&options->ttl_ms, value, 0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (texts[i].bit == bit)
            *texts[i].place = value;
    }
    return NULL;
}

/* "--option", or "--option=value" with *ret_value. NULL: none, or not one of this command. */
static const struct option *find(const struct cli_command *command, const char *argument,
                                 const char **ret_value)
{
    size_t len = strcspn(argument, "=");

    *ret_value = argument[len] ? argument + len + 1 : NULL;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if ((command->options & table[i].bit) && strlen(table[i].name) == len &&
            memcmp(table[i].name, argument, len) == 0)
            return &table[i];
    }
    return NULL;
}

/* The words of a command's operands, which the help shows. */
static size_t count_operands(const struct cli_command *command, size_t *ret_needed)
{
    size_t count = 0;

    *ret_needed = 0;
    for (const char *at = command->operand; at && *at; at += strspn(at, " ")) {
        *ret_needed += *at != '[';
        count++;
        at += strcspn(at, " ");
    }
    return count;
}

static const char *read_operand(const struct cli_command *command, struct cli_options *options,
                                const char *argument)
{
    size_t needed, count = count_operands(command, &needed);

    if (argument[0] == '-' && argument[1])
        return "unknown option";
    if (!argument[0] || options->second_operand || count < (options->operand ? 2U : 1U))
        return "unexpected argument";
    if (options->operand)
        options->second_operand = argument;
    else
        options->operand = argument;
    return NULL;
}

/* Reads the argument at *at, and the one behind it if that is its value. NULL, or what is wrong. */
static const char *read_argument(const struct cli_command *command, struct cli_options *options, int count,
                                 char **arguments, int *at, const char **ret_argument)
{
    const char *value, *next = *at + 1 < count ? arguments[*at + 1] : NULL, *what;
    const struct option *option = find(command, arguments[*at], &value);
    uint64_t ms;

    *ret_argument = arguments[*at];
    if (!option)
        return read_operand(command, options, arguments[*at]);
    options->flags |= option->bit;
    if (!option->value)
        return value ? "this option has no value" : NULL;
    if (value)
        return read_value(options, option->bit, value);
    if (option->value[0] == '[' && (!next || !read_time(next, &ms)))
        return NULL;
    if (!next)
        return needs_value;
    what = read_value(options, option->bit, next);
    if (what && next[0])
        *ret_argument = next;
    (*at)++;
    return what;
}

static const char *of_environment(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

int options_read(const struct cli_command *command, int count, char **arguments,
                 struct cli_options *ret_options, const char **ret_what, const char **ret_argument)
{
    struct cli_options options = {
        .timeout_ms = command->timeout_ms,
        .watch_ms = WATCH_DEFAULT_MS,
        .url = of_environment("SMART_ROUTER_URL"),
    };
    size_t needed;

    if (command->options & CLI_API_KEY_FILE)
        options.api_key_file = of_environment("SMART_ROUTER_API_KEY_FILE");
    for (int at = 0; at < count; at++) {
        *ret_what = read_argument(command, &options, count, arguments, &at, ret_argument);
        if (*ret_what)
            return -EINVAL;
    }
    (void)count_operands(command, &needed);
    if (needed > (options.second_operand ? 2U : options.operand ? 1U : 0U)) {
        *ret_what = "an argument is missing";
        *ret_argument = command->operand;
        return -EINVAL;
    }
    *ret_options = options;
    return 0;
}

static void append_option(struct strbuf *buf, const struct option *option)
{
    strbuf_append_str(buf, option->name);
    if (option->value)
        strbuf_printf(buf, " %s", option->value);
}

static bool is_shown(const struct cli_command *command, const struct option *option)
{
    return (command->options & option->bit) && !option->is_hidden;
}

void options_append_usage(struct strbuf *buf, const struct cli_command *command, bool is_whole)
{
    strbuf_append_str(buf, command->name);
    if (command->operand)
        strbuf_printf(buf, " %s", command->operand);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (!is_shown(command, &table[i]) || (!is_whole && (table[i].bit & COMMON)))
            continue;
        strbuf_append_str(buf, " [");
        append_option(buf, &table[i]);
        strbuf_append_char(buf, ']');
    }
}

void options_append_help(struct strbuf *buf, const struct cli_command *command)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        size_t begin = buf->len;

        if (!is_shown(command, &table[i]))
            continue;
        strbuf_append_str(buf, "  ");
        append_option(buf, &table[i]);
        do
            strbuf_append_char(buf, ' ');
        while (!strbuf_failed(buf) && buf->len - begin < HELP_COLUMN);
        strbuf_printf(buf, "%s\n", table[i].meaning);
    }
}

void options_append_table(struct strbuf *buf, const struct cli_command *command)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (is_shown(command, &table[i]))
            strbuf_printf(buf, "\toption\t%s\t%s\t%s\n", table[i].name, table[i].value ? table[i].value : "",
                          table[i].meaning);
    }
}
