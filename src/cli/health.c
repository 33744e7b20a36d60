/*
 * health.c - smart-router health: is the running router well? For health checks of containers and for probes.
 */
#include <stdio.h>

#include "cli/client.h"
#include "cli/commands.h"

int command_health(const struct cli_options *options)
{
    const struct client_request request = {
        .path = options->flags & CLI_READY ? "/ready" : "/health",
        .timeout_ms = options->timeout_ms,
    };
    CLEANUP(client_freep) struct client *client = NULL;
    int status = client_new(options, CLIENT_METRICS, &client);
    int answer = 0;

    if (status != EXIT_OK)
        return status;
    if (client_ask(client, &request, &answer) < 0) {
        cli_say("no answer from %s: %s", client_url(client), client_error(client));
        return EXIT_UNREACHABLE;
    }
    if (answer != 200) {
        cli_say("%s%s answers %d", client_url(client), request.path, answer);
        return EXIT_FAILED;
    }
    return puts(options->flags & CLI_READY ? "ready" : "ok") < 0 || fflush(stdout) != 0 ? EXIT_FAILED
                                                                                        : EXIT_OK;
}
