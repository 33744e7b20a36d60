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

enum {
    HELP_MAX = 64 * 1024,
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
    "  version       print the version\n"
    "  help          print this\n"
    "\n"
    "Settings are environment variables, for instance:\n"
    "\n"
    "  HTTP_PORT=8080 DATA_DIR=./data STATIC_PODS=voice-agent-0=127.0.0.1:9000 smart-router\n"
    "\n"
    "A command that talks to a running router finds it by --url, else by SMART_ROUTER_URL, else on this\n"
    "machine by HTTP_PORT and HTTP_BIND (health: METRICS_PORT, which answers until the exit). SECONDS can\n"
    "be a duration, too: 90, 5m, 1h30m.\n"
    "\n"
    "Exit status: 0 fine, 1 it could not start or go on, check-config found something wrong in a file,\n"
    "or the router refused, 2 bad arguments or settings, 3 no router answered.\n";

/* Another way to write a command. */
static const struct {
    const char *text;
    const char *name;
} aliases[] = {{"--version", "version"}, {"-V", "version"}, {"--help", "help"}, {"-h", "help"}};

void cli_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("smart-router: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* One command and its help, which may have several lines. */
static void append_command(struct strbuf *buf, const struct cli_command *command)
{
    size_t begin = buf->len;

    strbuf_append_str(buf, "  ");
    options_append_usage(buf, command);
    if (buf->len - begin >= HELP_COLUMN) {
        strbuf_append_char(buf, '\n');
        begin = buf->len;
    }
    for (const char *line = command->help; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        while (!strbuf_failed(buf) && buf->len - begin < HELP_COLUMN)
            strbuf_append_char(buf, ' ');
        strbuf_append(buf, line, strcspn(line, "\n"));
        strbuf_append_char(buf, '\n');
        begin = buf->len;
    }
}

static int print(struct strbuf *buf, FILE *file)
{
    bool is_done =
        !strbuf_failed(buf) && fwrite(buf->data, 1, buf->len, file) == buf->len && fflush(file) == 0;

    strbuf_release(buf);
    return is_done ? EXIT_OK : EXIT_FAILED;
}

static int print_help(const struct commands *commands, FILE *file)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, HELP_MAX);
    strbuf_append_str(&buf, head);
    for (size_t i = 0; i < commands->own_len; i++)
        append_command(&buf, &commands->own[i]);
    for (size_t i = 0; i < cli_client_commands_len; i++)
        append_command(&buf, &cli_client_commands[i]);
    strbuf_append_str(&buf, tail);
    return print(&buf, file);
}

static int print_command_help(const struct cli_command *command, FILE *file)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, HELP_MAX);
    strbuf_append_str(&buf, "usage: smart-router COMMAND\n\n");
    append_command(&buf, command);
    return print(&buf, file);
}

static int print_version(void)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, HELP_MAX);
    strbuf_append_str(&buf, "smart-router " SMART_ROUTER_VERSION "\n");
    return print(&buf, stdout);
}

static const struct cli_command *find(const struct cli_command *table, size_t len, const char *name)
{
    for (size_t i = 0; i < len; i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    }
    return NULL;
}

static int complain(const struct commands *commands, const char *what, const char *argument)
{
    cli_say("%s: %s\n", what, argument);
    (void)print_help(commands, stderr);
    return EXIT_USAGE;
}

static int run_command(const struct cli_command *command, int count, char **arguments)
{
    const char *what = NULL, *argument = NULL;
    struct cli_options options;

    for (int i = 0; i < count; i++) {
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0)
            return print_command_help(command, stdout);
    }
    if (options_read(command, count, arguments, &options, &what, &argument) < 0) {
        cli_say("%s: %s\n", what, argument);
        (void)print_command_help(command, stderr);
        return EXIT_USAGE;
    }
    return command->run(&options);
}

/* The two commands that are about the table itself. */
static int run_help_or_version(const struct commands *commands, const char *name, int argc, char **argv)
{
    bool is_help = strcmp(name, "help") == 0;

    if (!is_help && strcmp(name, "version") != 0)
        return complain(commands, name[0] == '-' ? "unknown option" : "unknown command", name);
    if (argc > 2)
        return complain(commands, "unexpected argument", argv[2]);
    return is_help ? print_help(commands, stdout) : print_version();
}

int cli_run(int argc, char **argv, const struct cli_command *own, size_t own_len)
{
    const struct commands commands = {own, own_len};
    const struct cli_command *command;
    const char *name;

    assert(own_len > 0);
    name = argc < 2 ? own[0].name : argv[1];
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
        if (strcmp(aliases[i].text, name) == 0)
            name = aliases[i].name;
    }
    command = find(own, own_len, name);
    if (!command)
        command = find(cli_client_commands, cli_client_commands_len, name);
    if (!command)
        return run_help_or_version(&commands, name, argc, argv);
    return run_command(command, argc < 2 ? 0 : argc - 2, argv + 2);
}
