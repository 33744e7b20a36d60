/*
 * commands.c - the table of the commands that talk to a running router.
 */
#include "cli/commands.h"

enum {
    HEALTH_TIMEOUT_MS = 3 * 1000,
    ASK_TIMEOUT_MS = 10 * 1000,
    DRAIN_TIMEOUT_MS = 4 * 3600 * 1000, /* CALL_MAX_DURATION: the longest call by default */
};

/* A command that shows something can show it again and again. */
#define SHOWS (CLI_ASKS | CLI_JSON | CLI_WATCH)
#define CHANGES (CLI_ASKS | CLI_JSON)

/* clang-format off */
#define ROW(text, operands, fn, bits, words) \
    {.name = (text), .operand = (operands), .options = (bits), .timeout_ms = ASK_TIMEOUT_MS, .help = (words), .run = (fn)}
/* clang-format on */

const struct cli_command cli_client_commands[] = {
    {
        .name = "health",
        .options = CLI_READY | CLI_TIMEOUT | CLI_URL,
        .timeout_ms = HEALTH_TIMEOUT_MS,
        .help = "ask the running router for /health, or with --ready for /ready; exit status 0\n"
                "if it is well, 1 if it is not, 3 if there is no answer within 3 s",
        .run = command_health,
    },
    ROW("status", NULL, command_status, SHOWS, "show the pools, the leader and the store"),
    ROW("doctor", NULL, command_doctor, SHOWS,
        "say what is wrong, the worst first, each with the command that helps; exit status 0\n"
        "if nothing is wrong, 1 if something is"),
    ROW("pods", NULL, command_pods, SHOWS | CLI_TIER | CLI_STATE, "list the pods"),
    ROW("pod", "POD", command_pod, SHOWS, "show one pod and its calls"),
    ROW("drain", "POD", command_drain, CHANGES | CLI_TTL,
        "give a pod no more calls; it keeps those that it has"),
    ROW("undrain", "POD", command_undrain, CHANGES, "give a drained pod calls again"),
    {
        .name = "wait-drained",
        .operand = "POD",
        .options = CLI_ASKS,
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
    ROW("calls", NULL, command_calls, SHOWS | CLI_POD | CLI_MERCHANT | CLI_STATE | CLI_OLDER_THAN,
        "list the live calls"),
    ROW("call", "SID", command_call, SHOWS, "show one call, its place in line, or why it got no pod"),
    ROW("waiting", NULL, command_waiting, SHOWS, "list the calls that wait for a pod, in their order"),
    ROW("why", "SID", command_why, SHOWS,
        "tell the story of a call: when it came, what stood in its way, which pod it got,\n"
        "how long it waited, how it ended"),
    ROW("release", "SID", command_release, CHANGES | CLI_POD, "end a call and free its pod"),
    ROW("events", NULL, command_events, CLI_URL | CLI_API_KEY_FILE | CLI_JSON,
        "print what happens, as it happens, until Ctrl-C"),
    ROW("autoscale", "[TIER]", command_autoscale, SHOWS,
        "show how many pods are wanted, in all or in one tier"),
    ROW("merchant list", NULL, command_merchant_list, SHOWS, "list the configurations of merchants"),
    ROW("merchant get", "ID", command_merchant_get, SHOWS, "show the configuration of a merchant"),
    ROW("merchant set", "ID FILE", command_merchant_set, CHANGES | CLI_DRY_RUN,
        "set it from a JSON file, or from standard input (-); show old, new and warnings"),
    ROW("merchant rm", "ID", command_merchant_rm, CHANGES | CLI_DRY_RUN,
        "remove it: the default chain again"),
    ROW("merchant history", "ID", command_merchant_history, SHOWS, "list its last versions"),
    ROW("merchant rollback", "ID [VERSION]", command_merchant_rollback, CHANGES | CLI_DRY_RUN,
        "go back to an earlier version, or to the one before"),
    ROW("tiers get", NULL, command_tiers_get, SHOWS, "show the tiers"),
    ROW("tiers set", "FILE", command_tiers_set, CHANGES | CLI_DRY_RUN,
        "set all tiers from a JSON file, or from standard input (-); show old, new and\n"
        "warnings"),
    ROW("tiers history", NULL, command_tiers_history, SHOWS, "list the last versions of the tiers"),
    ROW("tiers rollback", "[VERSION]", command_tiers_rollback, CHANGES | CLI_DRY_RUN,
        "go back to earlier tiers, or to those before"),
};

const size_t cli_client_commands_len = ARRAY_LEN(cli_client_commands);
