/*
 * provider_sim.c - provider-sim, the program: places calls and sums up what became of them.
 */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "campaign.h"
#include "options.h"

enum { SECONDS_MAX = 86400, PROGRESS_MS = 1000, PROGRESS_LINES = 5, SUMMARY_MAX = 64 * 1024 };

static const char usage[] =
    "usage: provider-sim [options]\n"
    "Places calls as a telephony provider does, and checks that every frame comes back, once and in order.\n"
    "Exit status 1 if anything was lost or went wrong.\n"
    "\n"
    "  --router URL         whose webhooks are called (http://127.0.0.1:8080); several times: routers behind "
    "a\n"
    "                       load balancer, tried one after the other\n"
    "  --public-url URL     the URL that requests are signed for (the first router's)\n"
    "  --ws-url URL         no webhook: open the streams there\n"
    "  --connect-to HOST:PORT  open the streams there, whatever host their URL names\n"
    "  --provider NAME      twilio, plivo, exotel, or mix: the three in turn (mix)\n"
    "  --method METHOD      of the webhook: POST or GET (POST)\n"
    "  --merchant ID        as the webhook's merchant_id\n"
    "  --calls N            how many (1; no limit with --duration)\n"
    "  --duration SECONDS   how long new calls are placed\n"
    "  --rate R             new calls a second (no limit)\n"
    "  --concurrent N       calls at once (1)\n"
    "  --seconds SECONDS    how long a call talks, a frame each 20 ms (5)\n"
    "  --gap SECONDS        from the end of a call until another one takes its place (0.1)\n"
    "  --timeout SECONDS    for each answer, and for the last echoes (15)\n"
    "  --no-status          send no status callbacks\n"
    "  --twilio-token-file FILE, --plivo-token-file FILE, --exotel-token-file FILE\n"
    "                       the router's tokens, with which requests are signed; its PUBLIC_BASE_URL must "
    "be\n"
    "                       --router's URL, or unset\n"
    "  --patience SECONDS   a caller who is held hangs up then (never)\n"
    "  --exotel-fork        Exotel's flow asks /api/v1/exotel/after behind the stream, and goes back to it\n"
    "                       with status 302\n"
    "  --mute               callers who are held say nothing\n"
    "  --allow-gaps         frames that are missing between two that came back are not lost: agents fail\n"
    "  --ask-within SECONDS  a provider takes any part of this until it asks how a call goes on (0)\n"
    "  --retry SECONDS      for so long a request that nobody answers is sent again (0)\n"
    "  --journal FILE       add a line of JSON for each call, and for each time that a caller was held, with "
    "the\n"
    "                       SHA-256 of what was heard\n"
    "  --allow-busy         a caller who is told that nobody is free is nothing wrong\n"
    "  --json               the summary as JSON on stdout\n"
    "  --quiet              no progress on stderr\n"
    "  --help\n"
    "\n"
    "SIGINT and SIGTERM: all calls end. SIGUSR1: all connections are reset, as of a provider that dies.\n";

static const struct option options[] = {
    {"router", required_argument, NULL, 'r'},
    {"ws-url", required_argument, NULL, 'w'},
    {"connect-to", required_argument, NULL, 'C'},
    {"provider", required_argument, NULL, 'p'},
    {"method", required_argument, NULL, 'M'},
    {"merchant", required_argument, NULL, 'm'},
    {"calls", required_argument, NULL, 'n'},
    {"duration", required_argument, NULL, 'd'},
    {"rate", required_argument, NULL, 'R'},
    {"concurrent", required_argument, NULL, 'c'},
    {"seconds", required_argument, NULL, 's'},
    {"gap", required_argument, NULL, 'g'},
    {"timeout", required_argument, NULL, 't'},
    {"no-status", no_argument, NULL, 'S'},
    {"twilio-token-file", required_argument, NULL, 'T'},
    {"plivo-token-file", required_argument, NULL, 'P'},
    {"exotel-token-file", required_argument, NULL, 'E'},
    {"allow-busy", no_argument, NULL, 'b'},
    {"public-url", required_argument, NULL, 'u'},
    {"patience", required_argument, NULL, 'a'},
    {"mute", no_argument, NULL, 'U'},
    {"allow-gaps", no_argument, NULL, 'G'},
    {"exotel-fork", no_argument, NULL, 'F'},
    {"ask-within", required_argument, NULL, 'W'},
    {"retry", required_argument, NULL, 'y'},
    {"journal", required_argument, NULL, 'o'},
    {"json", no_argument, NULL, 'j'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct program {
    struct campaign campaign;
    struct campaign_settings settings;
    bool has_public_url;
    uv_signal_t signals[3];
    uv_timer_t progress;
    uint64_t progress_count;
    bool is_json;
    bool is_quiet;
    bool is_tty;
};

static enum media_dialect parse_provider(const char *text)
{
    for (int dialect = MEDIA_TWILIO; dialect < MEDIA_DIALECTS; dialect++) {
        if (strcmp(text, media_dialect_name((enum media_dialect)dialect)) == 0)
            return (enum media_dialect)dialect;
    }
    if (strcmp(text, "mix") != 0)
        option_bad("provider", "twilio, plivo, exotel or mix is expected");
    return MEDIA_UNKNOWN;
}

static bool parse_method(const char *text)
{
    if (strcmp(text, "GET") != 0 && strcmp(text, "POST") != 0)
        option_bad("method", "GET or POST is expected");
    return strcmp(text, "GET") == 0;
}

static double parse_rate(const char *text)
{
    char *end;
    double rate = strtod(text, &end);

    if (end == text || *end != '\0' || !isfinite(rate) || rate < 0 || rate > 100000)
        option_bad("rate", "a number from 0 to 100000 is expected");
    return rate;
}

static const char *parse_merchant(const char *text)
{
    if (strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@-") != strlen(text) ||
        strlen(text) > MEDIA_SID_MAX)
        option_bad("merchant", "letters, digits and . _ : @ - are expected, 128 at most");
    return text;
}

static void take_token(struct campaign_settings *settings, enum media_dialect dialect, const char *name)
{
    snprintf(settings->tokens[dialect], sizeof(settings->tokens[dialect]), "%s",
             option_key_file(name, optarg));
}

static bool take_target(int option, struct program *program)
{
    struct campaign_settings *settings = &program->settings;

    switch (option) {
    case 'r':
        if (settings->router_count == CAMPAIGN_ROUTERS_MAX)
            option_bad("router", "there are too many");
        option_url("router", optarg, &settings->routers[settings->router_count++]);
        return true;
    case 'u':
        option_url("public-url", optarg, &settings->public_url);
        program->has_public_url = true;
        return true;
    case 'w':
        option_url("ws-url", optarg, &settings->ws_url);
        settings->has_ws_url = true;
        return true;
    case 'C':
        if (url_parse_endpoint(optarg, &settings->connect_to) != 0)
            option_bad("connect-to", "HOST:PORT is expected");
        settings->has_connect_to = true;
        return true;
    case 'p':
        settings->dialect = parse_provider(optarg);
        return true;
    case 'M':
        settings->is_get = parse_method(optarg);
        return true;
    case 'm':
        settings->merchant = parse_merchant(optarg);
        return true;
    case 'T':
        take_token(settings, MEDIA_TWILIO, "twilio-token-file");
        return true;
    case 'P':
        take_token(settings, MEDIA_PLIVO, "plivo-token-file");
        return true;
    case 'E':
        take_token(settings, MEDIA_EXOTEL, "exotel-token-file");
        return true;
    default:
        return false;
    }
}

/* How callers bear what happens to them. */
static bool take_manners(int option, struct campaign_settings *settings)
{
    switch (option) {
    case 'a':
        settings->patience_ms = option_seconds("patience", optarg, SECONDS_MAX);
        return true;
    case 'U':
        settings->is_mute = true;
        return true;
    case 'G':
        settings->allows_gaps = true;
        return true;
    case 'F':
        settings->forks_exotel = true;
        return true;
    case 'W':
        settings->ask_within_ms = option_seconds("ask-within", optarg, SECONDS_MAX);
        return true;
    case 'y':
        settings->retry_ms = option_seconds("retry", optarg, SECONDS_MAX);
        return true;
    case 'o':
        settings->journal_path = optarg;
        return true;
    default:
        return false;
    }
}

static void take_option(int option, struct program *program)
{
    struct campaign_settings *settings = &program->settings;

    switch (option) {
    case 'n':
        settings->calls = option_number("calls", optarg, 1, UINT32_MAX);
        break;
    case 'd':
        settings->duration_ms = option_seconds("duration", optarg, SECONDS_MAX);
        break;
    case 'R':
        settings->rate = parse_rate(optarg);
        break;
    case 'c':
        settings->concurrent = option_number("concurrent", optarg, 1, CAMPAIGN_CONCURRENT_MAX);
        break;
    case 's':
        settings->call_ms = option_seconds("seconds", optarg, SECONDS_MAX);
        break;
    case 'g':
        settings->gap_ms = option_seconds("gap", optarg, SECONDS_MAX);
        break;
    case 't':
        settings->timeout_ms = option_seconds("timeout", optarg, SECONDS_MAX);
        break;
    case 'S':
        settings->sends_status = false;
        break;
    case 'b':
        settings->allows_busy = true;
        break;
    case 'j':
        program->is_json = true;
        break;
    case 'q':
        program->is_quiet = true;
        break;
    case 'h':
        fputs(usage, stdout);
        exit(0);
    default:
        exit(2);
    }
}

static void read_options(int argc, char **argv, struct program *program)
{
    struct campaign_settings *settings = &program->settings;
    int option;

    *settings = (struct campaign_settings){
        .merchant = "",
        .concurrent = 1,
        .call_ms = 5000,
        .gap_ms = 100,
        .timeout_ms = 15000,
        .sends_status = true,
    };
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!take_target(option, program) && !take_manners(option, settings))
            take_option(option, program);
    }
    if (settings->router_count == 0)
        option_url("router", "http://127.0.0.1:8080", &settings->routers[settings->router_count++]);
    if (!program->has_public_url)
        settings->public_url = settings->routers[0];
    if (optind < argc)
        option_bad(argv[optind], "unexpected");
    if (settings->calls == 0 && settings->duration_ms == 0)
        settings->calls = 1;
}

static void show_progress(struct program *program)
{
    const struct campaign *campaign = &program->campaign;
    const struct tally *tally = &campaign->tally;

    fprintf(stderr,
            "%s%4llu s: %llu calls, %llu at once, %llu done, %llu busy, %llu failed; frames %llu sent, %llu "
            "back; "
            "echo p99 %.1f ms%s",
            program->is_tty ? "\r\033[K" : "",
            (unsigned long long)((uv_now(&campaign->net->loop) - campaign->started_ms) / 1000),
            (unsigned long long)tally->started, (unsigned long long)campaign->active,
            (unsigned long long)tally->completed, (unsigned long long)tally->busy,
            (unsigned long long)tally->failed, (unsigned long long)tally->frames_sent,
            (unsigned long long)tally->frames_echoed,
            (double)histogram_quantile(&tally->latency_us, 0.99) / 1000, program->is_tty ? "" : "\n");
}

static void program_close(struct program *program)
{
    uv_close((uv_handle_t *)&program->progress, NULL);
    for (size_t i = 0; i < ARRAY_LEN(program->signals); i++)
        uv_close((uv_handle_t *)&program->signals[i], NULL);
}

/* A terminal has one line that changes; a file gets a line now and then. */
static void program_progress(uv_timer_t *timer)
{
    struct program *program = CONTAINER_OF(timer, struct program, progress);

    if (!program->is_quiet && (program->is_tty || ++program->progress_count % PROGRESS_LINES == 0))
        show_progress(program);
}

static void program_on_signal(uv_signal_t *handle, int signum)
{
    struct program *program = handle->data;

    if (signum == SIGUSR1)
        calls_die(&program->campaign);
    else
        campaign_stop(&program->campaign);
}

static void print_times(const char *name, const struct histogram *histogram)
{
    printf("%-10s p50 %.2f ms, p99 %.2f ms, most %.2f ms\n", name,
           (double)histogram_quantile(histogram, 0.5) / 1000,
           (double)histogram_quantile(histogram, 0.99) / 1000, (double)histogram->max / 1000);
}

/* Only where a caller was held: what that was like. */
static void print_held(const struct tally *tally)
{
    printf(
        "held       %llu times, %llu granted, %llu gave up; %.1f s of sound received, %llu ms of silence at "
        "most\n",
        (unsigned long long)tally->held, (unsigned long long)tally->granted,
        (unsigned long long)tally->abandoned, (double)tally->hold_ms / 1000,
        (unsigned long long)tally->hold_silent_ms);
    printf("gaps       %llu, %llu frames skipped, %llu streams resumed\n", (unsigned long long)tally->gaps,
           (unsigned long long)tally->frames_skipped, (unsigned long long)tally->resumes);
    print_times("wait", &tally->wait_us);
    print_times("silence", &tally->silence_us);
    print_times("handover", &tally->handover_us);
}

static void print_summary(const struct campaign *campaign)
{
    const struct tally *tally = &campaign->tally;

    printf("calls      %llu placed, %llu answered, %llu completed, %llu busy, %llu failed; at most %llu at "
           "once\n",
           (unsigned long long)tally->started, (unsigned long long)tally->answered,
           (unsigned long long)tally->completed, (unsigned long long)tally->busy,
           (unsigned long long)tally->failed, (unsigned long long)tally->active_max);
    for (int failure = CALL_FINE + 1; failure < CALL_FAILURES; failure++) {
        if (tally->failures[failure] > 0)
            printf("           %llu: %s\n", (unsigned long long)tally->failures[failure],
                   call_failure_name((enum call_failure)failure));
    }
    if (tally->failures[CALL_REFUSED] > 0)
        printf("           the last refusal had status %llu\n", (unsigned long long)tally->refused_status);
    printf("frames     %llu sent, %llu echoed, %llu lost, %llu out of order, %llu corrupt; sent up to %llu "
           "ms late\n",
           (unsigned long long)tally->frames_sent, (unsigned long long)tally->frames_echoed,
           (unsigned long long)tally->frames_lost, (unsigned long long)tally->frames_reordered,
           (unsigned long long)tally->frames_corrupt, (unsigned long long)tally->late_ms);
    print_times("echo", &tally->latency_us);
    print_times("setup", &tally->setup_us);
    if (tally->held > 0)
        print_held(tally);
    if (tally->status_callbacks > 0)
        printf("status     %llu callbacks\n", (unsigned long long)tally->status_callbacks);
    printf("verdict    %s\n", campaign_is_fine(campaign) ? "all fine" : "NOT FINE");
}

static void put_times(struct json_writer *json, const char *name, const struct histogram *histogram)
{
    json_key(json, name);
    json_object_begin(json);
    json_put_u64(json, "count", histogram->total);
    json_put_u64(json, "mean", histogram->total ? histogram->sum / histogram->total : 0);
    json_put_u64(json, "p50", histogram_quantile(histogram, 0.5));
    json_put_u64(json, "p90", histogram_quantile(histogram, 0.9));
    json_put_u64(json, "p99", histogram_quantile(histogram, 0.99));
    json_put_u64(json, "p999", histogram_quantile(histogram, 0.999));
    json_put_u64(json, "max", histogram->max);
    json_object_end(json);
}

static void put_held(struct json_writer *json, const struct tally *tally)
{
    json_put_u64(json, "held", tally->held);
    json_put_u64(json, "granted", tally->granted);
    json_put_u64(json, "abandoned", tally->abandoned);
    json_put_u64(json, "died", tally->died);
    json_put_u64(json, "resumes", tally->resumes);
    json_put_u64(json, "gaps", tally->gaps);
    json_put_u64(json, "frames_skipped", tally->frames_skipped);
    json_put_u64(json, "hold_bytes", tally->hold_bytes);
    json_put_u64(json, "hold_ms", tally->hold_ms);
    json_put_u64(json, "hold_silent_ms", tally->hold_silent_ms);
    json_put_u64(json, "echoes_behind_hold", tally->echoes_behind_hold);
    json_put_u64(json, "marks", tally->marks);
    json_put_u64(json, "clears", tally->clears);
    put_times(json, "wait_us", &tally->wait_us);
    put_times(json, "silence_us", &tally->silence_us);
    put_times(json, "handover_us", &tally->handover_us);
}

static void print_json(const struct campaign *campaign)
{
    const struct tally *tally = &campaign->tally;
    struct json_writer json;
    struct strbuf buf;

    strbuf_init(&buf, NULL, SUMMARY_MAX);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_put_bool(&json, "fine", campaign_is_fine(campaign));
    json_put_u64(&json, "calls", tally->started);
    json_put_u64(&json, "answered", tally->answered);
    json_put_u64(&json, "completed", tally->completed);
    json_put_u64(&json, "busy", tally->busy);
    json_put_u64(&json, "failed", tally->failed);
    json_put_u64(&json, "concurrent_max", tally->active_max);
    json_key(&json, "failures");
    json_object_begin(&json);
    for (int failure = CALL_FINE + 1; failure < CALL_FAILURES; failure++) {
        if (tally->failures[failure] > 0)
            json_put_u64(&json, call_failure_name((enum call_failure)failure), tally->failures[failure]);
    }
    json_object_end(&json);
    json_put_u64(&json, "refused_status", tally->refused_status);
    json_put_u64(&json, "frames_sent", tally->frames_sent);
    json_put_u64(&json, "frames_echoed", tally->frames_echoed);
    json_put_u64(&json, "frames_lost", tally->frames_lost);
    json_put_u64(&json, "frames_reordered", tally->frames_reordered);
    json_put_u64(&json, "frames_corrupt", tally->frames_corrupt);
    json_put_u64(&json, "late_ms", tally->late_ms);
    json_put_u64(&json, "status_callbacks", tally->status_callbacks);
    put_times(&json, "echo_us", &tally->latency_us);
    put_times(&json, "setup_us", &tally->setup_us);
    put_held(&json, tally);
    json_object_end(&json);
    puts(strbuf_failed(&buf) ? "{}" : buf.data);
    strbuf_release(&buf);
}

static int program_run(struct program *program, struct net *net)
{
    static const int signums[] = {SIGTERM, SIGINT, SIGUSR1};
    int r;

    net_init(net);
    r = campaign_start(&program->campaign, net, &program->settings);
    if (r != 0) {
        fprintf(stderr, "provider-sim: cannot start: %s\n", uv_strerror(r));
        return 1;
    }
    uv_timer_init(&net->loop, &program->progress);
    uv_timer_start(&program->progress, program_progress, PROGRESS_MS, PROGRESS_MS);
    for (size_t i = 0; i < ARRAY_LEN(signums); i++) {
        uv_signal_init(&net->loop, &program->signals[i]);
        program->signals[i].data = program;
        uv_signal_start(&program->signals[i], program_on_signal, signums[i]);
        uv_unref((uv_handle_t *)&program->signals[i]);
    }
    uv_unref((uv_handle_t *)&program->progress);
    uv_run(&net->loop, UV_RUN_DEFAULT);
    program_close(program);
    uv_run(&net->loop, UV_RUN_DEFAULT);
    if (!program->is_quiet) {
        show_progress(program);
        fputs(program->is_tty ? "\n" : "", stderr);
    }
    if (program->is_json)
        print_json(&program->campaign);
    else
        print_summary(&program->campaign);
    r = campaign_is_fine(&program->campaign) ? 0 : 1;
    campaign_release(&program->campaign);
    net_release(net);
    return r;
}

int main(int argc, char **argv)
{
    struct program *program = calloc(1, sizeof(*program));
    struct net *net = malloc(sizeof(*net));
    int r;

    if (!program || !net)
        abort();
    program->is_tty = isatty(STDERR_FILENO);
    read_options(argc, argv, program);
    r = program_run(program, net);
    free(program);
    free(net);
    return r;
}
