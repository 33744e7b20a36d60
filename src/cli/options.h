/*
 * options.h - the options of all commands, in one table.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/strbuf.h"
#include "cli/cli.h"

/*
 * Reads the arguments behind a command's name. 0, or -EINVAL: *ret_what says what is wrong and *ret_argument
 * with which argument.
 */
int options_read(const struct cli_command *command, int count, char **arguments,
                 struct cli_options *ret_options, const char **ret_what,
                 const char **ret_argument) MUST_CHECK;

/*
 * The command as the help shows it: "drain POD [--ttl SECONDS]". Options that most commands take are left out
 * unless `is_whole`.
 */
void options_append_usage(struct strbuf *buf, const struct cli_command *command, bool is_whole);

/* Appends a line for each option of the command: its usage and its meaning. */
void options_append_help(struct strbuf *buf, const struct cli_command *command);

/* For scripts/manual: "\toption\tNAME\tVALUE\tMEANING" and a line end for each option. */
void options_append_table(struct strbuf *buf, const struct cli_command *command);

#endif
