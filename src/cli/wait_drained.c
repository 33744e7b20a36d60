/*
 * wait_drained.c - smart-router wait-drained POD: drains a pod and waits until it has no call. It is the
 * preStop hook of a voice agent.
 *
 * Each round drains the pod anew, because a drain ends by itself, and then waits with one long request. The
 * router may restart, move or lose its store meanwhile, and calls are on the line: only an answer that cannot
 * change (a wrong key, a pod that was never known) ends the wait early.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/client.h"
#include "cli/commands.h"

enum {
    PATH_MAX_LEN = 4096,
    JSON_MAX = 16 * 1024 * 1024,
    DRAIN_TTL_S = 300,          /* outlasts a round, and a router that is away for some minutes */
    POLL_MAX_S = 60,            /* the longest wait that the router allows */
    ANSWER_MAX_MS = 10 * 1000,  /* of the router, without the wait that was asked for */
    ROUND_MIN_MS = 1000,        /* an answer that comes at once is not asked for in a loop */
    UNKNOWN_MAX_MS = 45 * 1000, /* a pod that registers itself is back after a heartbeat: 30 s */
};

enum wait_state {
    WAIT_GOES_ON,
    WAIT_DRAINED,
    WAIT_REFUSED,
};

struct drain_wait {
    struct client *client;
    const char *pod;
    uint64_t until_ms;   /* clock_elapsed_ms, as the other times */
    uint64_t unknown_ms; /* since then the router does not know the pod; 0: it does */
    bool was_reached;    /* a router answered at least once */
    bool was_known;      /* the pod was drained at least once */
    bool is_away;        /* said already */
    uint64_t calls;      /* how many are left, as said already; UINT64_MAX: nothing was said */
    struct strbuf drain; /* the body of the drain */
    struct strbuf path;
};

static uint64_t wait_left_ms(const struct drain_wait *wait)
{
    uint64_t now_ms = clock_elapsed_ms();

    return now_ms < wait->until_ms ? wait->until_ms - now_ms : 0;
}

static enum wait_state wait_unknown(struct drain_wait *wait)
{
    uint64_t now_ms = clock_elapsed_ms();

    if (wait->unknown_ms == 0)
        wait->unknown_ms = now_ms;
    if (wait->was_known && now_ms - wait->unknown_ms < UNKNOWN_MAX_MS)
        return WAIT_GOES_ON;
    cli_say("%s: the router does not know this pod", wait->pod);
    return WAIT_REFUSED;
}

static void wait_say_away(struct drain_wait *wait, const char *why)
{
    if (!wait->is_away)
        cli_say("%s cannot answer, trying again: %s", client_url(wait->client), why);
    wait->is_away = true;
}

/*
 * Sends one request. WAIT_GOES_ON with *ret_status 200 or 202: an answer; with 0: none now, perhaps later.
 */
static enum wait_state wait_ask(struct drain_wait *wait, const char *path, const char *json, uint64_t seconds,
                                int *ret_status)
{
    const struct client_request request = {
        .path = path,
        .json = json,
        .timeout_ms = seconds * 1000 + min_u64(ANSWER_MAX_MS, wait_left_ms(wait)),
    };
    int status = 0;

    *ret_status = 0;
    if (client_ask(wait->client, &request, &status) < 0) {
        wait_say_away(wait, client_error(wait->client));
        return WAIT_GOES_ON;
    }
    wait->was_reached = true;
    if (status == 404)
        return wait_unknown(wait);
    if (status >= 500 || status == 429 || status == 408) {
        wait_say_away(wait, client_refusal(wait->client, status));
        return WAIT_GOES_ON;
    }
    if (status != 200 && status != 202) {
        cli_say("%s is not drained: %s", wait->pod, client_refusal(wait->client, status));
        return WAIT_REFUSED;
    }
    wait->is_away = false;
    wait->unknown_ms = 0;
    *ret_status = status;
    return WAIT_GOES_ON;
}

/* Tells the operator how many calls are left, whenever that changes. */
static void wait_say_calls(struct drain_wait *wait)
{
    struct arena arena;
    const cJSON *calls;
    uint64_t count;

    arena_init(&arena, JSON_MAX);
    calls = cJSON_GetObjectItemCaseSensitive(json_parse(&arena, client_body(wait->client)), "calls");
    count = (uint64_t)cJSON_GetArraySize(calls);
    arena_release(&arena);
    if (count == wait->calls || count == 0)
        return;
    wait->calls = count;
    fprintf(stderr, "%s: %" PRIu64 " %s left\n", wait->pod, count, count == 1 ? "call" : "calls");
}

static enum wait_state wait_round(struct drain_wait *wait)
{
    uint64_t seconds = min_u64(POLL_MAX_S, wait_left_ms(wait) / 1000);
    enum wait_state state;
    int status;

    state = wait_ask(wait, "/api/v1/drain", wait->drain.data, 0, &status);
    if (state != WAIT_GOES_ON || status != 200)
        return state;
    wait->was_known = true;
    strbuf_reset(&wait->path);
    strbuf_append_str(&wait->path, "/api/v1/pod/");
    client_append_escaped(wait->client, &wait->path, wait->pod);
    strbuf_printf(&wait->path, "/drained?timeout_seconds=%" PRIu64, seconds);
    if (strbuf_failed(&wait->path)) {
        cli_say("no memory");
        return WAIT_REFUSED;
    }
    state = wait_ask(wait, wait->path.data, NULL, seconds, &status);
    if (state == WAIT_GOES_ON && status == 202)
        wait_say_calls(wait);
    return state == WAIT_GOES_ON && status == 200 ? WAIT_DRAINED : state;
}

static void sleep_ms(uint64_t ms)
{
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&time, &time) < 0 && errno == EINTR) {
    }
}

static enum wait_state wait_run(struct drain_wait *wait)
{
    for (;;) {
        uint64_t began_ms = clock_elapsed_ms();
        enum wait_state state = wait_round(wait);
        uint64_t took_ms = clock_elapsed_ms() - began_ms;

        if (state != WAIT_GOES_ON || wait_left_ms(wait) == 0)
            return state;
        if (took_ms < ROUND_MIN_MS)
            sleep_ms(min_u64(ROUND_MIN_MS - took_ms, wait_left_ms(wait)));
    }
}

static bool wait_write_drain(struct drain_wait *wait)
{
    struct json_writer json;

    json_begin(&json, &wait->drain);
    json_object_begin(&json);
    json_put_string(&json, "pod_name", wait->pod);
    json_put_u64(&json, "ttl_seconds", DRAIN_TTL_S);
    json_object_end(&json);
    return !strbuf_failed(&wait->drain);
}

static int wait_exit_status(const struct drain_wait *wait, enum wait_state state)
{
    if (state == WAIT_REFUSED)
        return EXIT_FAILED;
    if (state == WAIT_DRAINED)
        return printf("%s: drained\n", wait->pod) < 0 || fflush(stdout) != 0 ? EXIT_FAILED : EXIT_OK;
    if (!wait->was_reached) {
        cli_say("%s: no answer from %s in all the time", wait->pod, client_url(wait->client));
        return EXIT_UNREACHABLE;
    }
    cli_say("%s: the time is over, and it is not known to be drained", wait->pod);
    return EXIT_FAILED;
}

int command_wait_drained(const struct cli_options *options)
{
    CLEANUP(client_freep) struct client *client = NULL;
    struct drain_wait wait = {.pod = options->operand, .calls = UINT64_MAX};
    int status = client_new(options, CLIENT_API, &client);

    if (status != EXIT_OK)
        return status;
    wait.client = client;
    wait.until_ms = clock_elapsed_ms() + options->timeout_ms;
    strbuf_init(&wait.drain, NULL, PATH_MAX_LEN);
    strbuf_init(&wait.path, NULL, PATH_MAX_LEN);
    status = wait_write_drain(&wait) ? wait_exit_status(&wait, wait_run(&wait)) : EXIT_USAGE;
    strbuf_release(&wait.drain);
    strbuf_release(&wait.path);
    return status;
}
