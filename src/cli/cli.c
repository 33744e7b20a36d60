/*
 * cli.c - finds the command that the arguments name and runs it; prints the help, the version and errors in
 * arguments.
 */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "base/version.h"
#include "cli/options.h"
#include "cli/text.h"

enum {
    HELP_MAX = 64 * 1024,
    SAY_MAX = 64 * 1024,
    HELP_COLUMN = 16, /* where the help of a command begins */
};

/* All commands: those of main, and those that talk to a running router. */
struct commands {
    const struct cli_command *own;
    size_t own_len;
};

static const char head[] =
    "Smart Router gives each phone call a voice-agent pod, and takes it back when the call ends.\n"
    "\n"
    "usage: smart-router [COMMAND]\n"
    "\n";

static const char tail[] =
    "\n"
    "Settings are environment variables, for instance:\n"
    "\n"
    "  HTTP_PORT=8080 DATA_DIR=./data STATIC_PODS=voice-agent-0=127.0.0.1:9000 smart-router\n"
    "\n"
    "A command that talks to a running router also takes --url URL, --api-key-file FILE and --timeout\n"
    "SECONDS; one that shows something takes --json and --watch [SECONDS]. smart-router help COMMAND has\n"
    "all options of a command. The router is found by --url, else by SMART_ROUTER_URL, else on this\n"
    "machine by HTTP_PORT and HTTP_BIND (health: METRICS_PORT, which answers until the exit); the key by\n"
    "--api-key-file, else by SMART_ROUTER_API_KEY_FILE. SECONDS can be a duration, too: 90, 5m, 1h30m.\n"
    "\n"
    "Tables fit the terminal (COLUMNS); what goes into a pipe is not cut. Colours are for terminals\n"
    "only, and NO_COLOR turns them off.\n"
    "\n"
    "Exit status: 0 fine, 1 it could not start or go on, check-config or doctor found something wrong,\n"
    "or the router refused or did not find it, 2 bad arguments or settings, 3 no router answered.\n";

/* Another way to write a command. */
static const struct {
    const char *text;
    const char *name;
} aliases[] = {{"--version", "version"}, {"-V", "version"}, {"--help", "help"}, {"-h", "help"}};

/* The commands that are about the table itself. They run here, because they need all of it. */
static const struct cli_command version_command = {.name = "version", .help = "print the version"};
static const struct cli_command help_command = {.name = "help",
                                                .operand = "[COMMAND]",
                                                .options = CLI_TABLE,
                                                .help = "print this, or the help of a command"};

/* A message may have several lines; whatever else could steer a terminal is escaped. */
void cli_say(const char *format, ...)
{
    char message[SAY_MAX];
    struct strbuf buf;
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    strbuf_init(&buf, NULL, 4 * SAY_MAX + SAY_MAX);
    strbuf_append_str(&buf, "smart-router: ");
    for (const char *line = message; line;) {
        size_t len = strcspn(line, "\n");

        text_append_safe(&buf, (struct slice){line, len});
        strbuf_append_char(&buf, '\n');
        line = line[len] ? line + len + 1 : NULL;
    }
    if (!strbuf_failed(&buf))
        fwrite(buf.data, 1, buf.len, stderr);
    strbuf_release(&buf);
}

static void append_lines(struct strbuf *buf, const char *text, size_t indent, size_t begin)
{
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        while (!strbuf_failed(buf) && buf->len - begin < indent)
            strbuf_append_char(buf, ' ');
        strbuf_append(buf, line, strcspn(line, "\n"));
        strbuf_append_char(buf, '\n');
        begin = buf->len;
    }
}

/* One command and its help, which may have several lines. */
static void append_command(struct strbuf *buf, const struct cli_command *command)
{
    size_t begin = buf->len;

    strbuf_append_str(buf, "  ");
    options_append_usage(buf, command, false);
    if (buf->len - begin >= HELP_COLUMN) {
        strbuf_append_char(buf, '\n');
        begin = buf->len;
    }
    append_lines(buf, command->help, HELP_COLUMN, begin);
}

static void append_table(struct strbuf *buf, const struct cli_command *command)
{
    strbuf_printf(buf, "command\t%s\t%s\n", command->name, command->operand ? command->operand : "");
    options_append_table(buf, command);
    for (const char *line = command->help; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        strbuf_append_str(buf, "\thelp\t");
        strbuf_append(buf, line, strcspn(line, "\n"));
        strbuf_append_char(buf, '\n');
    }
}

static int print(struct strbuf *buf, FILE *file)
{
    bool is_done =
        !strbuf_failed(buf) && fwrite(buf->data, 1, buf->len, file) == buf->len && fflush(file) == 0;

    strbuf_release(buf);
    return is_done ? EXIT_OK : EXIT_FAILED;
}

static void for_each(const struct commands *commands, struct strbuf *buf,
                     void (*append)(struct strbuf *buf, const struct cli_command *command))
{
    for (size_t i = 0; i < commands->own_len; i++)
        append(buf, &commands->own[i]);
    for (size_t i = 0; i < cli_client_commands_len; i++)
        append(buf, &cli_client_commands[i]);
    append(buf, &version_command);
    append(buf, &help_command);
}

static int print_help(const struct commands *commands, FILE *file)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, HELP_MAX);
    strbuf_append_str(&buf, head);
    for_each(commands, &buf, append_command);
    strbuf_append_str(&buf, tail);
    return print(&buf, file);
}

static int print_table(const struct commands *commands)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, HELP_MAX);
    for_each(commands, &buf, append_table);
    return print(&buf, stdout);
}

static int print_command_help(const struct cli_command *command, FILE *file)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, HELP_MAX);
    strbuf_append_str(&buf, "usage: smart-router ");
    options_append_usage(&buf, command, true);
    strbuf_append_str(&buf, "\n\n");
    append_lines(&buf, command->help, 0, buf.len);
    if (command->options) {
        strbuf_append_char(&buf, '\n');
        options_append_help(&buf, command);
    }
    return print(&buf, file);
}

static int print_version(void)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, HELP_MAX);
    strbuf_append_str(&buf, "smart-router " SMART_ROUTER_VERSION "\n");
    return print(&buf, stdout);
}

/* Does the command have the name that the arguments begin with? *ret_words: how many they are. */
static bool is_named(const struct cli_command *command, int count, char **words, int *ret_words)
{
    size_t first = strcspn(command->name, " ");
    const char *second = command->name[first] ? command->name + first + 1 : NULL;

    if (count < 1 || strlen(words[0]) != first || memcmp(words[0], command->name, first) != 0 ||
        (second && (count < 2 || strcmp(words[1], second) != 0)))
        return false;
    *ret_words = second ? 2 : 1;
    return true;
}

static const struct cli_command *find(const struct commands *commands, int count, char **words,
                                      int *ret_words)
{
    for (size_t i = 0; i < commands->own_len; i++) {
        if (is_named(&commands->own[i], count, words, ret_words))
            return &commands->own[i];
    }
    for (size_t i = 0; i < cli_client_commands_len; i++) {
        if (is_named(&cli_client_commands[i], count, words, ret_words))
            return &cli_client_commands[i];
    }
    if (is_named(&version_command, count, words, ret_words))
        return &version_command;
    return is_named(&help_command, count, words, ret_words) ? &help_command : NULL;
}

/* The commands of two words whose first one is this: "merchant", "tiers". */
static size_t append_group(struct strbuf *buf, const char *word)
{
    size_t len = strlen(word), found = 0;

    for (size_t i = 0; i < cli_client_commands_len; i++) {
        const char *name = cli_client_commands[i].name;

        if (strncmp(name, word, len) != 0 || name[len] != ' ')
            continue;
        append_command(buf, &cli_client_commands[i]);
        found++;
    }
    return found;
}

/* Prints the help of a group, if the word is one. */
static bool print_group(const char *word, FILE *file)
{
    struct strbuf buf;
    bool is_group;

    strbuf_init(&buf, NULL, HELP_MAX);
    is_group = append_group(&buf, word) > 0;
    if (is_group)
        (void)print(&buf, file);
    else
        strbuf_release(&buf);
    return is_group;
}

static int complain(const struct commands *commands, const char *what, const char *argument)
{
    cli_say("%s: %s\n", what, argument);
    (void)print_help(commands, stderr);
    return EXIT_USAGE;
}

static int complain_of_name(const struct commands *commands, int count, char **words)
{
    struct strbuf buf;
    bool is_group;

    strbuf_init(&buf, NULL, HELP_MAX);
    is_group = append_group(&buf, words[0]) > 0;
    strbuf_release(&buf);
    if (is_group) {
        cli_say(count < 2 ? "%s: a word is missing: %s\n" : "%s: unknown command: %s\n", words[0],
                count < 2 ? "list, get, set ..." : words[1]);
        (void)print_group(words[0], stderr);
        return EXIT_USAGE;
    }
    return complain(commands, words[0][0] == '-' ? "unknown option" : "unknown command", words[0]);
}

static int run_help(const struct commands *commands, int count, char **words)
{
    const struct cli_command *command;
    int used = 0;

    if (count == 0)
        return print_help(commands, stdout);
    command = find(commands, count, words, &used);
    if (command && used == count)
        return print_command_help(command, stdout);
    if (count == 1 && print_group(words[0], stdout))
        return EXIT_OK;
    return complain(commands, "unknown command", words[command ? used : 0]);
}

static int run_command(const struct commands *commands, const struct cli_command *command, int count,
                       char **arguments)
{
    const char *what = NULL, *argument = NULL;
    struct cli_options options;

    for (int i = 0; i < count; i++) {
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0)
            return print_command_help(command, stdout);
    }
    if (command == &help_command && !(count == 1 && strcmp(arguments[0], "--table") == 0))
        return run_help(commands, count, arguments);
    if (options_read(command, count, arguments, &options, &what, &argument) < 0) {
        cli_say("%s: %s\n", what, argument);
        (void)print_command_help(command, stderr);
        return EXIT_USAGE;
    }
    if (command == &help_command)
        return print_table(commands);
    return command == &version_command ? print_version() : command->run(&options);
}

int cli_run(int argc, char **argv, const struct cli_command *own, size_t own_len)
{
    const struct commands commands = {own, own_len};
    const struct cli_command *command;
    char alias[16];
    int used = 0;

    assert(own_len > 0);
    if (argc < 2)
        return run_command(&commands, &own[0], 0, argv + argc);
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
        if (strcmp(aliases[i].text, argv[1]) == 0) {
            snprintf(alias, sizeof(alias), "%s", aliases[i].name);
            argv[1] = alias;
        }
    }
    command = find(&commands, argc - 1, argv + 1, &used);
    if (!command)
        return complain_of_name(&commands, argc - 1, argv + 1);
    return run_command(&commands, command, argc - 1 - used, argv + 1 + used);
}
