/*
 * driver.c - a program with a client that the functional tests drive by lines: one command, one line of
 * answer.
 *
 *   allocate SID [MERCHANT]    outcome, reason or "-", pod or "-"
 *   queue SID MS               the same, and waits for a pod on a thread of its own: "SID outcome reason pod"
 *   leave SID                  "yes": stops this wait; "no": there is none
 *   joined                     when all these threads have ended
 *   release SID [POD]          result
 *   begin SID / end SID        a kept call
 *   renew SID, health, status, breaker, pending
 *   clock MS                   the client's clock jumps ahead
 *   wait                       until no release is pending
 *   agent NAME ADDRESS         result, when the router knows it
 *   began NAME SID, ended NAME SID, closed NAME SID CODE, failed NAME SID, calls NAME, stop NAME
 *   load PODS THREADS CALLS    see load()
 *
 * The settings come from the environment.
 */
#include <pthread.h>
#include <smartrouter.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    AGENTS_MAX = 256,
    CALLS_MAX = 64,
    WORD = 160,
    THREADS_MAX = 256,
};

static struct smartrouter_client *client;
static _Atomic int64_t offset_ms;

static struct {
    char name[WORD];
    struct smartrouter_agent *agent;
} agents[AGENTS_MAX];
static size_t agent_count;

static struct {
    char call_sid[WORD];
    struct smartrouter_call *call;
} calls[CALLS_MAX];

static pthread_t waiters[THREADS_MAX];
static size_t waiter_count;

static int64_t clock_ms(void *arg)
{
    struct timespec now;

    (void)arg;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + atomic_load(&offset_ms);
}

static void sleep_ms(void *arg, int64_t ms)
{
    (void)arg;
    usleep((useconds_t)ms * 1000);
}

static void log_line(void *arg, enum smartrouter_log_level level, const char *message)
{
    (void)arg;
    if (level > SMARTROUTER_LOG_DEBUG)
        fprintf(stderr, "%s\n", message);
}

static void over(void *arg, const char *call_sid, bool is_conflict)
{
    (void)arg;
    fprintf(stderr, "over %s%s\n", call_sid, is_conflict ? " conflict" : "");
}

static void answer(const char *text)
{
    printf("%s\n", text);
    fflush(stdout);
}

static void answer_result(enum smartrouter_result result)
{
    answer(smartrouter_result_name(result));
}

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

static struct smartrouter_agent *find_agent(const char *name)
{
    for (size_t i = 0; i < agent_count; i++)
        if (strcmp(agents[i].name, name) == 0)
            return agents[i].agent;
    return NULL;
}

static struct smartrouter_agent *add_agent(const char *name, const char *address)
{
    const struct smartrouter_agent_options options = {
        .size = sizeof(options), .pod_name = name, .address = address, .call_over = over};
    struct smartrouter_agent *agent = NULL;

    if (agent_count == AGENTS_MAX || smartrouter_agent_new(client, &options, &agent) != SMARTROUTER_OK)
        return NULL;
    snprintf(agents[agent_count].name, WORD, "%s", name);
    agents[agent_count++].agent = agent;
    return agent;
}

static struct smartrouter_call_request request_for(const char *call_sid, const char *merchant_id)
{
    return (struct smartrouter_call_request){
        .size = sizeof(struct smartrouter_call_request), .call_sid = call_sid, .merchant_id = merchant_id};
}

static void allocate(const char *call_sid, const char *merchant_id)
{
    const struct smartrouter_call_request request = request_for(call_sid, merchant_id);
    struct smartrouter_answer *got;
    const enum smartrouter_result result = smartrouter_allocate(client, &request, &got);

    printf("%s %s %s\n", result == SMARTROUTER_OK ? "pod" : smartrouter_result_name(result),
           or_dash(smartrouter_answer_text(got, "reason")),
           or_dash(smartrouter_answer_text(got, "pod_name")));
    fflush(stdout);
    smartrouter_answer_free(got);
}

/* ---- Calls that wait ---- */

struct queued {
    char call_sid[WORD];
    int wait_ms;
};

static void hear(void *arg, const struct smartrouter_answer *waiting)
{
    fprintf(stderr, "waiting %s position %.0f\n", (const char *)arg,
            smartrouter_answer_number(waiting, "position"));
}

static void *queue_run(void *arg)
{
    struct queued *queued = arg;
    struct smartrouter_call_request request = request_for(queued->call_sid, NULL);
    struct smartrouter_answer *got;
    enum smartrouter_result result;

    request.wait_ms = queued->wait_ms;
    request.waiting = hear;
    request.waiting_arg = queued->call_sid;
    result = smartrouter_allocate(client, &request, &got);
    printf(
        "%s %s %s %s\n", queued->call_sid, result == SMARTROUTER_OK ? "pod" : smartrouter_result_name(result),
        or_dash(smartrouter_answer_text(got, "reason")), or_dash(smartrouter_answer_text(got, "pod_name")));
    fflush(stdout);
    smartrouter_answer_free(got);
    free(queued);
    return NULL;
}

static void queue(const char *call_sid, int wait_ms)
{
    struct queued *queued = calloc(1, sizeof(*queued));

    if (!queued || waiter_count == THREADS_MAX)
        abort();
    snprintf(queued->call_sid, sizeof(queued->call_sid), "%s", call_sid);
    queued->wait_ms = wait_ms;
    if (pthread_create(&waiters[waiter_count++], NULL, queue_run, queued) != 0)
        abort();
}

static void join_waiters(void)
{
    while (waiter_count > 0)
        pthread_join(waiters[--waiter_count], NULL);
}

static void begin(const char *call_sid)
{
    const struct smartrouter_call_request request = request_for(call_sid, NULL);
    size_t i = 0;

    while (i < CALLS_MAX && calls[i].call)
        i++;
    if (i == CALLS_MAX) {
        answer("too many");
        return;
    }
    snprintf(calls[i].call_sid, WORD, "%s", call_sid);
    answer_result(smartrouter_call_begin(client, &request, &calls[i].call));
}

static void end(const char *call_sid)
{
    for (size_t i = 0; i < CALLS_MAX; i++) {
        if (calls[i].call && strcmp(calls[i].call_sid, call_sid) == 0) {
            struct smartrouter_call *call = calls[i].call;

            calls[i].call = NULL;
            answer_result(smartrouter_call_end(call, NULL));
            return;
        }
    }
    answer("unknown");
}

/* ---- Load: agents and callers in one process, which the test kills ---- */

static struct {
    int per_thread;
    atomic_int done, pods, others;
} load_state;

/* One call: allocated, on its agent for a moment, released by the agent. */
static void load_call(const char *call_sid)
{
    const struct smartrouter_call_request request = request_for(call_sid, NULL);
    struct smartrouter_answer *got;
    struct smartrouter_agent *agent;

    if (smartrouter_allocate(client, &request, &got) == SMARTROUTER_OK) {
        agent = find_agent(smartrouter_answer_text(got, "pod_name"));
        if (!agent)
            abort();
        atomic_fetch_add(&load_state.pods, 1);
        smartrouter_agent_call_began(agent, call_sid);
        usleep(1000);
        smartrouter_agent_call_ended(agent, call_sid, NULL);
    } else {
        atomic_fetch_add(&load_state.others, 1);
    }
    smartrouter_answer_free(got);
}

static void *load_run(void *arg)
{
    char call_sid[WORD];

    for (int i = 0; i < load_state.per_thread; i++) {
        snprintf(call_sid, sizeof(call_sid), "L%d-%d-%d", (int)getpid(), *(int *)arg, i);
        load_call(call_sid);
        if (atomic_fetch_add(&load_state.done, 1) % 100 == 99)
            answer("progress");
    }
    return NULL;
}

/* PODS agents register; THREADS threads make CALLS calls together. "progress" every 100 calls; at the end the
 * counts. */
static void load(int pods, int threads, int count)
{
    pthread_t ids[THREADS_MAX];
    int numbers[THREADS_MAX];
    char name[WORD], address[WORD];

    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    for (int i = 0; i < pods; i++) {
        snprintf(name, sizeof(name), "load-%d", i);
        snprintf(address, sizeof(address), "127.0.0.1:%d", 20000 + i);
        if (!add_agent(name, address))
            abort();
    }
    for (size_t i = 0; i < agent_count; i++)
        if (!smartrouter_agent_is_ready(agents[i].agent, -1))
            abort();
    answer("ready");
    load_state.per_thread = count / threads;
    for (int i = 0; i < threads; i++) {
        numbers[i] = i;
        if (pthread_create(&ids[i], NULL, load_run, &numbers[i]) != 0)
            abort();
    }
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    printf("done %d pods %d others %d pending %zu\n", atomic_load(&load_state.done),
           atomic_load(&load_state.pods), atomic_load(&load_state.others),
           smartrouter_pending_releases(client));
    fflush(stdout);
}

/* ---- Commands ---- */

static void breaker(void)
{
    static const char *const NAMES[] = {"closed", "open", "half_open"};

    answer(NAMES[smartrouter_breaker(client)]);
}

static bool run_agent(const char *command, const char *name, const char *argument, int number)
{
    struct smartrouter_agent *agent;

    if (strcmp(command, "agent") == 0) {
        agent = add_agent(name, argument);
        answer(agent && smartrouter_agent_is_ready(agent, -1) ? "ok" : "failed");
        return true;
    }
    agent = find_agent(name);
    if (!agent)
        return false;
    if (strcmp(command, "began") == 0)
        answer_result(smartrouter_agent_call_began(agent, argument));
    else if (strcmp(command, "ended") == 0)
        answer_result(smartrouter_agent_call_ended(agent, argument, NULL));
    else if (strcmp(command, "closed") == 0)
        answer_result(smartrouter_agent_stream_closed(agent, argument, number));
    else if (strcmp(command, "failed") == 0)
        answer_result(smartrouter_agent_stream_failed(agent, argument));
    else if (strcmp(command, "calls") == 0)
        printf("%zu\n", smartrouter_agent_calls(agent));
    else if (strcmp(command, "stop") == 0)
        answer_result(smartrouter_agent_stop(agent));
    else
        return false;
    fflush(stdout);
    return true;
}

static bool run_call(const char *command, const char *one, const char *two)
{
    const char *const call_sids[] = {one};

    if (strcmp(command, "allocate") == 0)
        allocate(one, *two ? two : NULL);
    else if (strcmp(command, "queue") == 0)
        queue(one, (int)strtol(two, NULL, 10));
    else if (strcmp(command, "leave") == 0)
        answer(smartrouter_stop_waiting(client, one) ? "yes" : "no");
    else if (strcmp(command, "release") == 0)
        answer_result(smartrouter_release(client, one, *two ? two : NULL, NULL, NULL));
    else if (strcmp(command, "begin") == 0)
        begin(one);
    else if (strcmp(command, "end") == 0)
        end(one);
    else if (strcmp(command, "renew") == 0)
        answer_result(smartrouter_renew(client, call_sids, 1, NULL));
    else
        return false;
    return true;
}

static bool run_plain(const char *command, const char *one)
{
    if (strcmp(command, "health") == 0)
        answer_result(smartrouter_health(client, NULL));
    else if (strcmp(command, "status") == 0)
        answer_result(smartrouter_status(client, NULL));
    else if (strcmp(command, "breaker") == 0)
        breaker();
    else if (strcmp(command, "pending") == 0) {
        printf("%zu\n", smartrouter_pending_releases(client));
        fflush(stdout);
    } else if (strcmp(command, "clock") == 0) {
        atomic_fetch_add(&offset_ms, strtoll(one, NULL, 10));
        answer("ok");
    } else if (strcmp(command, "joined") == 0) {
        join_waiters();
        answer("ok");
    } else if (strcmp(command, "wait") == 0) {
        while (smartrouter_pending_releases(client) > 0)
            usleep(10000);
        answer("ok");
    } else
        return false;
    return true;
}

static void run(const char *line)
{
    char command[WORD] = "", one[WORD] = "", two[WORD] = "";
    int number = 0;

    if (sscanf(line, "%159s %159s %159s %d", command, one, two, &number) < 1)
        return;
    if (strcmp(command, "load") == 0)
        load((int)strtol(one, NULL, 10), (int)strtol(two, NULL, 10), number);
    else if (!run_plain(command, one) && !run_call(command, one, two) &&
             !run_agent(command, one, two, number))
        answer("unknown command");
}

int main(void)
{
    struct smartrouter_settings *settings = smartrouter_settings_new();
    char line[1024], error[256] = "no memory";

    if (!settings ||
        smartrouter_settings_read_environment(settings, error, sizeof(error)) != SMARTROUTER_OK) {
        fprintf(stderr, "%s\n", error);
        smartrouter_settings_free(settings);
        return 2;
    }
    smartrouter_settings_set_log(settings, log_line, NULL);
    smartrouter_settings_set_clock(settings, clock_ms, sleep_ms, NULL);
    if (smartrouter_client_new(settings, &client) != SMARTROUTER_OK)
        return 2;
    smartrouter_settings_free(settings);
    while (fgets(line, sizeof(line), stdin))
        run(line);
    join_waiters();
    for (size_t i = 0; i < CALLS_MAX; i++)
        smartrouter_call_end(calls[i].call, NULL);
    for (size_t i = 0; i < agent_count; i++)
        smartrouter_agent_free(agents[i].agent);
    smartrouter_client_free(client);
    return 0;
}
