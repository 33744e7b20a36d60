/*
 * cli.h - the command line: what the arguments ask for.
 *
 * Help, the version and complaints are printed here; what needs the other rooms is left to main.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/base.h"

enum cli_action {
    CLI_SERVE,
    CLI_CHECK_CONFIG,
    CLI_CONFIG_MARKDOWN, /* the documentation of the settings; for the build, so help does not mention it */
    CLI_ROUTES,          /* the routes of the API and who may use them */
    CLI_EXIT,            /* everything is done: exit with *ret_status */
};

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1, /* the world: a port in use, a directory that cannot be written */
    EXIT_USAGE = 2,  /* the operator: bad arguments or settings */
};

enum cli_action cli_parse(int argc, char **argv, int *ret_status);

#endif
