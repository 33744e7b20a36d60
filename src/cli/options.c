/*
 * options.c - reads the options and the operand of a command, and shows them in its usage.
 */
#include "cli/options.h"

#include <stdlib.h>

#include "base/quantity.h"

static const struct {
    const char *name;
    const char *value; /* what its value is called; NULL: it has none */
    enum cli_option bit;
    bool is_hidden;
} table[] = {
    {"--ready", NULL, CLI_READY, false},     {"--timeout", "SECONDS", CLI_TIMEOUT, false},
    {"--url", "URL", CLI_URL, false},        {"--api-key-file", "FILE", CLI_API_KEY_FILE, false},
    {"--openapi", NULL, CLI_OPENAPI, false}, {"--markdown", NULL, CLI_MARKDOWN, true},
};

/* Seconds, or a duration as in the settings: "90", "90s", "1h30m". */
static bool read_timeout(const char *text, uint64_t *ret_ms)
{
    const char *end = text;
    uint64_t seconds;

    if (quantity_digits(&end, &seconds) && !*end) {
        if (seconds == 0 || seconds > UINT64_MAX / 1000)
            return false;
        *ret_ms = seconds * 1000;
        return true;
    }
    return quantity_duration(text, ret_ms) && *ret_ms > 0;
}

static const char *read_value(struct cli_options *options, enum cli_option bit, const char *value)
{
    if (!value[0])
        return "this option needs a value";
    if (bit == CLI_TIMEOUT)
        return read_timeout(value, &options->timeout_ms) ? NULL : "not a time such as 90 or 5m";
    if (bit == CLI_URL)
        options->url = value;
    else
        options->api_key_file = value;
    return NULL;
}

/* The option's place in the table; the table's length if it is none, or not one of this command. */
static size_t find(const struct cli_command *command, const char *argument)
{
    size_t i = 0;

    while (i < ARRAY_LEN(table) &&
           !((command->options & table[i].bit) && strcmp(table[i].name, argument) == 0))
        i++;
    return i;
}

int options_read(const struct cli_command *command, int count, char **arguments,
                 struct cli_options *ret_options, const char **ret_what, const char **ret_argument)
{
    const char *url = getenv("SMART_ROUTER_URL");
    struct cli_options options = {.timeout_ms = command->timeout_ms, .url = url && url[0] ? url : NULL};

    for (int at = 0; at < count; at++) {
        size_t i = find(command, arguments[at]);

        *ret_argument = arguments[at];
        if (i < ARRAY_LEN(table) && !table[i].value) {
            options.flags |= table[i].bit;
            continue;
        }
        if (i < ARRAY_LEN(table)) {
            bool has_value = at + 1 < count;

            *ret_what = has_value ? read_value(&options, table[i].bit, arguments[at + 1])
                                  : "this option needs a value";
            if (*ret_what) {
                *ret_argument = arguments[has_value && arguments[at + 1][0] ? at + 1 : at];
                return -EINVAL;
            }
            at++;
            continue;
        }
        *ret_what = arguments[at][0] == '-' ? "unknown option" : "unexpected argument";
        if (!command->operand || options.operand || arguments[at][0] == '-' || !arguments[at][0])
            return -EINVAL;
        options.operand = arguments[at];
    }
    if (command->operand && !options.operand) {
        *ret_what = "an argument is missing";
        *ret_argument = command->operand;
        return -EINVAL;
    }
    *ret_options = options;
    return 0;
}

void options_append_usage(struct strbuf *buf, const struct cli_command *command)
{
    strbuf_append_str(buf, command->name);
    if (command->operand)
        strbuf_printf(buf, " %s", command->operand);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (!(command->options & table[i].bit) || table[i].is_hidden)
            continue;
        strbuf_printf(buf, table[i].value ? " [%s %s]" : " [%s]", table[i].name, table[i].value);
    }
}
