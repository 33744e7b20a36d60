/*
 * cli.h - the command line: one table of commands, and what they share.
 *
 * A command is one row: its name, its operands, its options, its help and its function. The help, the checks
 * of arguments, errors in them, the manual page and the completions of shells follow from the row. main has
 * the rows of the commands that need the whole program; commands.c has those that talk to a running router.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/base.h"

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,      /* the world: a port in use, a router that is not healthy or refuses */
    EXIT_USAGE = 2,       /* the operator: bad arguments or settings */
    EXIT_UNREACHABLE = 3, /* no router answered */
};

/* Bits for the options that a command accepts; options.c has their names. */
enum cli_option {
    CLI_URL = 1 << 0,
    CLI_API_KEY_FILE = 1 << 1,
    CLI_TIMEOUT = 1 << 2,
    CLI_READY = 1 << 3,
    CLI_MARKDOWN = 1 << 4, /* for the build, so the help does not mention it */
    CLI_OPENAPI = 1 << 5,
    CLI_JSON = 1 << 6,
    CLI_WATCH = 1 << 7,
    CLI_TIER = 1 << 8,
    CLI_STATE = 1 << 9,
    CLI_POD = 1 << 10,
    CLI_MERCHANT = 1 << 11,
    CLI_OLDER_THAN = 1 << 12,
    CLI_TTL = 1 << 13,
    CLI_DRY_RUN = 1 << 14,
    CLI_TABLE = 1 << 15, /* for scripts/manual */
    /* What every command takes that asks a running router. */
    CLI_ASKS = CLI_URL | CLI_API_KEY_FILE | CLI_TIMEOUT,
};

/* What stood on the command line. Texts are borrowed from there or from the environment. */
struct cli_options {
    const char *operand;        /* NULL: none */
    const char *second_operand; /* NULL: none */
    const char *url;            /* NULL: the router on this machine */
    const char *api_key_file;   /* NULL: no key */
    uint64_t timeout_ms;
    uint64_t watch_ms;
    const char *tier; /* these are NULL if they are not given; the router checks them */
    const char *state;
    const char *pod;
    const char *merchant;
    const char *older_than;
    uint64_t ttl_ms; /* with CLI_TTL in flags */
    unsigned flags;  /* of the options without a value: CLI_READY and so on; CLI_WATCH and CLI_TTL, too */
};

struct cli_command {
    const char *name;    /* one word, or two: "merchant set" */
    const char *operand; /* as the help shows them, two at most: "POD", "ID FILE", "ID [VERSION]"; NULL: none
                          */
    unsigned options;    /* enum cli_option */
    uint64_t timeout_ms; /* unless --timeout is given */
    const char *help;    /* lines; the first one alone is the summary of completions */
    int (*run)(const struct cli_options *options); /* returns the exit status */
};

/* The commands that talk to a running router, and how many they are. */
extern const struct cli_command cli_client_commands[];
extern const size_t cli_client_commands_len;

/*
 * Runs the command that the arguments name, of `own` or of cli_client_commands; without arguments the first
 * of `own`. Prints the help, the version and errors in arguments itself. Returns the exit status.
 */
int cli_run(int argc, char **argv, const struct cli_command *own, size_t own_len);

/* Prints "smart-router: " and the message to standard error. Control characters in it are escaped. */
void cli_say(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
