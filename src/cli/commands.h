/*
 * commands.h - the functions of the commands that talk to a running router. commands.c has their rows.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/cli.h"

int command_health(const struct cli_options *options);
int command_top(const struct cli_options *options);
int command_wait_drained(const struct cli_options *options);

#endif
