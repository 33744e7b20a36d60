/*
 * cli.c - parses the command line, and prints the help, the version and errors in arguments.
 */
#include "cli/cli.h"

#include <stdio.h>

static const char help_text[] =
    "Smart Router gives each phone call a voice-agent pod, and takes it back when the call ends.\n"
    "\n"
    "usage: smart-router [COMMAND]\n"
    "\n"
    "  serve         serve the API (the default)\n"
    "  check-config  print the effective settings and where they come from, or what is wrong with them\n"
    "  routes        print every route of the API and the roles of the keys that may use it\n"
    "  version       print the version\n"
    "  help          print this\n"
    "\n"
    "Settings are environment variables, for instance:\n"
    "\n"
    "  HTTP_PORT=8080 DATA_DIR=./data STATIC_PODS=voice-agent-0=127.0.0.1:9000 smart-router\n"
    "\n"
    "Exit status: 0 fine, 1 it could not start or go on, 2 bad arguments or settings.\n";

static const struct {
    const char *name;
    enum cli_action action;
    const char *text; /* CLI_EXIT: what to print */
} commands[] = {
    {"serve", CLI_SERVE, NULL},
    {"check-config", CLI_CHECK_CONFIG, NULL},
    {"routes", CLI_ROUTES, NULL},
    {"version", CLI_EXIT, "smart-router " SMART_ROUTER_VERSION "\n"},
    {"--version", CLI_EXIT, "smart-router " SMART_ROUTER_VERSION "\n"},
    {"-V", CLI_EXIT, "smart-router " SMART_ROUTER_VERSION "\n"},
    {"help", CLI_EXIT, help_text},
    {"--help", CLI_EXIT, help_text},
    {"-h", CLI_EXIT, help_text},
};

static enum cli_action cli_complain(const char *what, const char *argument, int *ret_status)
{
    fprintf(stderr, "smart-router: %s: %s\n\n%s", what, argument, help_text);
    *ret_status = EXIT_USAGE;
    return CLI_EXIT;
}

enum cli_action cli_parse(int argc, char **argv, int *ret_status)
{
    size_t i = 0;

    assert(ret_status);
    if (argc < 2)
        return CLI_SERVE;
    while (i < ARRAY_LEN(commands) && strcmp(commands[i].name, argv[1]) != 0)
        i++;
    if (i == ARRAY_LEN(commands))
        return cli_complain(argv[1][0] == '-' ? "unknown option" : "unknown command", argv[1], ret_status);
    if (argc == 3 && commands[i].action == CLI_CHECK_CONFIG && strcmp(argv[2], "--markdown") == 0)
        return CLI_CONFIG_MARKDOWN;
    if (argc > 2)
        return cli_complain("unexpected argument", argv[2], ret_status);
    if (commands[i].action == CLI_EXIT) {
        *ret_status = fputs(commands[i].text, stdout) < 0 || fflush(stdout) != 0 ? EXIT_FAILED : EXIT_OK;
    }
    return commands[i].action;
}
