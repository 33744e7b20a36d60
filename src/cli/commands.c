/*
 * commands.c - the table of the commands that talk to a running router.
 */
#include "cli/commands.h"

enum {
    HEALTH_TIMEOUT_MS = 3 * 1000,
    DRAIN_TIMEOUT_MS = 4 * 3600 * 1000, /* CALL_MAX_DURATION: the longest call by default */
};

const struct cli_command cli_client_commands[] = {
    {
        .name = "health",
        .options = CLI_READY | CLI_TIMEOUT | CLI_URL,
        .timeout_ms = HEALTH_TIMEOUT_MS,
        .help = "ask the running router for /health, or with --ready for /ready; exit status 0\n"
                "if it is well, 1 if it is not, 3 if there is no answer within 3 s",
        .run = command_health,
    },
    {
        .name = "wait-drained",
        .operand = "POD",
        .options = CLI_TIMEOUT | CLI_URL | CLI_API_KEY_FILE,
        .timeout_ms = DRAIN_TIMEOUT_MS,
        .help = "for the shutdown of a voice agent: drain its pod, and wait until its last call has\n"
                "ended, at most 4 hours; try again while the router is away; exit status 0 if it is\n"
                "drained, 1 if calls are left or the router refused, 3 if it never answered",
        .run = command_wait_drained,
    },
    {
        .name = "top",
        .options = CLI_URL | CLI_API_KEY_FILE,
        .help = "watch pools, pods, calls and events live on a full screen; drain, undrain and\n"
                "release there; exit status 1 if the router refuses the key, 2 if this is no\n"
                "terminal, 3 if the router never answered",
        .run = command_top,
    },
};

const size_t cli_client_commands_len = ARRAY_LEN(cli_client_commands);
