/*
 * agent_sim.c - agent-sim, the program: simulated voice agents.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent.h"
#include "options.h"

enum { SECONDS_MAX = 86400, STOP_MS = 2 * AGENT_TIMEOUT_MS };

static const char usage[] =
    "usage: agent-sim [options]\n"
    "Voice agents that echo the audio of their calls. Says where each one listens, then `ready`.\n"
    "\n"
    "  --agents N           how many (1)\n"
    "  --base-port P        the first one's port, the others follow; 0: free ports (9000)\n"
    "  --host ADDRESS       where to listen (127.0.0.1)\n"
    "  --advertise HOST     the host to register, an address or a name; needed with --host 0.0.0.0 (--host)\n"
    "  --name-prefix TEXT   pods are called TEXT0, TEXT1, ... (voice-agent-)\n"
    "  --router URL         for what follows: http://127.0.0.1:8080\n"
    "  --api-key-file FILE  its API_KEY is in that file\n"
    "  --register           register the pods, and remove them at the end\n"
    "  --tier TIER          the tier to register for\n"
    "  --heartbeat SECONDS  heartbeat with the calls of each pod; 0: do not (0; 10 with --register)\n"
    "  --release            release a call when its stream closes, with the pod's name\n"
    "  --release-without-pod  the same without it, as older agents do\n"
    "  --fail-after N       each stream fails after so many echoes (never)\n"
    "  --fail-how HOW       reset, drop (no close frame), cut (in the middle of a frame), close,\n"
    "                       exit (the program ends in the middle of a frame) (reset)\n"
    "  --close-code N       of the close frame (1011)\n"
    "  --journal FILE       add a line of JSON for each start, first audio and end of a stream\n"
    "  --mode MODE          normal, slow, hang, refuse, reject (503) or crash (normal)\n"
    "  --slow-ms N          how much later handshakes and echoes come when slow (200)\n"
    "  --mode-after SECONDS be normal until then (0)\n"
    "  --control-port P     where agents are told what to do; 0: a free port (none):\n"
    "                       GET / shows them; POST /agent/NAME/MODE; NAME may be `all`;\n"
    "                       also /slow?ms=N, /crash?ms=N (there again after that time);\n"
    "                       its streams end: /hangup, /close?code=N, /reset, /drop, /cut, /exit\n"
    "  --help\n";

static const struct option options[] = {
    {"agents", required_argument, NULL, 'n'},
    {"base-port", required_argument, NULL, 'p'},
    {"host", required_argument, NULL, 'H'},
    {"advertise", required_argument, NULL, 'A'},
    {"name-prefix", required_argument, NULL, 'N'},
    {"router", required_argument, NULL, 'r'},
    {"api-key-file", required_argument, NULL, 'k'},
    {"register", no_argument, NULL, 'R'},
    {"tier", required_argument, NULL, 't'},
    {"heartbeat", required_argument, NULL, 'b'},
    {"release", no_argument, NULL, 'e'},
    {"release-without-pod", no_argument, NULL, 'E'},
    {"fail-after", required_argument, NULL, 'f'},
    {"fail-how", required_argument, NULL, 'F'},
    {"close-code", required_argument, NULL, 'C'},
    {"journal", required_argument, NULL, 'o'},
    {"mode", required_argument, NULL, 'm'},
    {"slow-ms", required_argument, NULL, 's'},
    {"mode-after", required_argument, NULL, 'a'},
    {"control-port", required_argument, NULL, 'c'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void take_option(int option, struct fleet_settings *settings, bool *has_heartbeat)
{
    switch (option) {
    case 'n':
        settings->count = (int)option_number("agents", optarg, 1, AGENTS_MAX);
        break;
    case 'p':
        settings->base_port = (uint16_t)option_number("base-port", optarg, 0, UINT16_MAX);
        break;
    case 'H':
        settings->host = optarg;
        break;
    case 'A':
        settings->advertised_host = optarg;
        break;
    case 'N':
        settings->name_prefix = optarg;
        break;
    case 'r':
        option_url("router", optarg, &settings->router);
        settings->has_router = true;
        break;
    case 'k':
        settings->api_key = option_key_file("api-key-file", optarg);
        break;
    case 'R':
        settings->registers = true;
        break;
    case 't':
        settings->tier = optarg;
        break;
    case 'b':
        settings->heartbeat_ms = option_seconds("heartbeat", optarg, SECONDS_MAX);
        *has_heartbeat = true;
        break;
    case 'e':
        settings->releases = true;
        break;
    case 'E':
        settings->releases = true;
        settings->releases_plainly = true;
        break;
    case 'f':
        settings->fail_after = option_number("fail-after", optarg, 1, UINT32_MAX);
        break;
    case 'F':
        if (!agent_failure_parse(slice_of(optarg), &settings->fail_how))
            option_bad("fail-how", "reset, drop, cut, close or exit is expected");
        break;
    case 'C':
        settings->close_code = (int)option_number("close-code", optarg, 1000, 4999);
        if (!ws_close_code_is_valid(settings->close_code))
            option_bad("close-code", "no close frame may have this code");
        break;
    case 'o':
        settings->journal_path = optarg;
        break;
    case 'm':
        if (!agent_mode_parse(slice_of(optarg), &settings->mode))
            option_bad("mode", "there is no such mode");
        break;
    case 's':
        settings->slow_ms = option_number("slow-ms", optarg, 0, SECONDS_MAX * 1000);
        break;
    case 'a':
        settings->mode_after_ms = option_seconds("mode-after", optarg, SECONDS_MAX);
        break;
    case 'c':
        settings->control_port = (int)option_number("control-port", optarg, 0, UINT16_MAX);
        break;
    case 'h':
        fputs(usage, stdout);
        exit(0);
    default:
        exit(2);
    }
}

static void read_options(int argc, char **argv, struct fleet_settings *settings)
{
    bool has_heartbeat = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        take_option(option, settings, &has_heartbeat);
    if (optind < argc)
        option_bad(argv[optind], "unexpected");
    if (settings->registers && !has_heartbeat)
        settings->heartbeat_ms = 10000;
    if (!settings->has_router && (settings->registers || settings->releases || settings->heartbeat_ms > 0))
        option_bad("router", "needed for --register, --heartbeat and --release");
    if (settings->base_port != 0 && settings->base_port + settings->count - 1 > UINT16_MAX)
        option_bad("agents", "there are not so many ports");
    if (strlen(settings->name_prefix) > AGENT_NAME_MAX - 5)
        option_bad("name-prefix", "too long");
}

/* A number of signals and a stopwatch; they close when the fleet stops. */
struct program {
    struct fleet fleet;
    uv_signal_t signals[2];
    uv_timer_t deadline;
};

static void program_too_late(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void program_stop(struct program *program)
{
    for (size_t i = 0; i < ARRAY_LEN(program->signals); i++)
        uv_close((uv_handle_t *)&program->signals[i], NULL);
    fleet_stop(&program->fleet);
    uv_timer_start(&program->deadline, program_too_late, STOP_MS, 0);
    uv_unref((uv_handle_t *)&program->deadline);
}

static void program_on_signal(uv_signal_t *handle, int signum UNUSED)
{
    program_stop(handle->data);
}

static void program_greet(const struct fleet *fleet)
{
    for (int i = 0; i < fleet->settings.count; i++)
        printf("agent %s %s:%u\n", fleet->agents[i].name, fleet->settings.host, fleet->agents[i].port);
    if (fleet->settings.control_port >= 0)
        printf("control %s:%u\n", fleet->settings.host, fleet->control_port);
    puts("ready");
    fflush(stdout);
}

static void program_sum_up(const struct fleet_counters *counters)
{
    printf("connections %llu, calls %llu, messages %llu, echoed %llu, dropped %llu, heartbeats %llu (%llu "
           "failed), "
           "released %llu (%llu failed)\n",
           (unsigned long long)counters->connections, (unsigned long long)counters->calls,
           (unsigned long long)counters->messages, (unsigned long long)counters->echoed,
           (unsigned long long)counters->dropped, (unsigned long long)counters->heartbeats,
           (unsigned long long)counters->heartbeats_failed, (unsigned long long)counters->released,
           (unsigned long long)counters->release_failed);
}

int main(int argc, char **argv)
{
    static const int signums[] = {SIGTERM, SIGINT};
    struct fleet_settings settings = {
        .host = "127.0.0.1",
        .base_port = 9000,
        .count = 1,
        .name_prefix = "voice-agent-",
        .tier = "",
        .slow_ms = 200,
        .close_code = WS_CLOSE_ERROR,
        .control_port = -1,
    };
    struct program *program;
    struct net *net;
    int r;

    read_options(argc, argv, &settings);
    net = malloc(sizeof(*net));
    program = calloc(1, sizeof(*program));
    if (!net || !program)
        abort();
    net_init(net);
    uv_timer_init(&net->loop, &program->deadline);
    for (size_t i = 0; i < ARRAY_LEN(signums); i++) {
        uv_signal_init(&net->loop, &program->signals[i]);
        program->signals[i].data = program;
        uv_signal_start(&program->signals[i], program_on_signal, signums[i]);
    }
    r = fleet_start(&program->fleet, net, &settings);
    if (r == 0)
        program_greet(&program->fleet);
    else
        program_stop(program);
    uv_run(&net->loop, UV_RUN_DEFAULT);
    if (r == 0)
        program_sum_up(&program->fleet.counters);
    /* What a client has left open at the control port is the system's to clean up. */
    uv_close((uv_handle_t *)&program->deadline, NULL);
    uv_run(&net->loop, UV_RUN_NOWAIT);
    (void)uv_loop_close(&net->loop);
    fleet_release(&program->fleet);
    free(program);
    free(net);
    return r == 0 ? 0 : 1;
}
