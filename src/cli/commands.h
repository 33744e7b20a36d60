/*
 * commands.h - the functions of the commands that talk to a running router. commands.c has their rows.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/cli.h"

int command_health(const struct cli_options *options);
int command_top(const struct cli_options *options);
int command_status(const struct cli_options *options);
int command_doctor(const struct cli_options *options);
int command_pods(const struct cli_options *options);
int command_pod(const struct cli_options *options);
int command_drain(const struct cli_options *options);
int command_undrain(const struct cli_options *options);
int command_wait_drained(const struct cli_options *options);
int command_calls(const struct cli_options *options);
int command_call(const struct cli_options *options);
int command_waiting(const struct cli_options *options);
int command_why(const struct cli_options *options);
int command_release(const struct cli_options *options);
int command_events(const struct cli_options *options);
int command_autoscale(const struct cli_options *options);
int command_merchant_list(const struct cli_options *options);
int command_merchant_get(const struct cli_options *options);
int command_merchant_set(const struct cli_options *options);
int command_merchant_rm(const struct cli_options *options);
int command_merchant_history(const struct cli_options *options);
int command_merchant_rollback(const struct cli_options *options);
int command_tiers_get(const struct cli_options *options);
int command_tiers_set(const struct cli_options *options);
int command_tiers_history(const struct cli_options *options);
int command_tiers_rollback(const struct cli_options *options);

#endif
