/*
 * agent.c - a voice agent that uses libsmartrouter: registers, sends heartbeats, takes calls, drains and
 * leaves.
 *
 * Only the library is shown. The WebSocket server of a real agent is the struct phone here: it tells when a
 * stream opens and closes, and it can hang up. This one reads lines from standard input instead: "open CA1",
 * "open CA1 2" for a stream with the header X-Call-Resumed: 2, "close CA1 1000". It has one stream at a time.
 *
 * SMART_ROUTER_BASE_URL, SMART_ROUTER_API_KEY, POD_NAME and POD_IP are the settings. Build it with
 * cc agent.c $(pkg-config --cflags --libs smartrouter)
 */
#include <pthread.h>
#include <signal.h>
#include <smartrouter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the agent knows of a call. It outlives a stream that breaks. */
struct session {
    int streams;
};

/* What the agent wants from its media server. */
struct phone {
    struct smartrouter_agent *agent;
    struct session *session; /* of the open stream; NULL: there is none */
};

static void phone_opened(struct phone *phone, const char *call_sid, int resumed)
{
    void *kept;

    /* From now on heartbeats list the call. If its last stream broke here, its session is still there. */
    smartrouter_agent_stream_opened(phone->agent, call_sid, &kept);
    phone->session = kept ? kept : calloc(1, sizeof(*phone->session));
    if (!phone->session)
        return;
    phone->session->streams++;
    /* Here your agent begins to listen and to speak. */
    if (phone->session->streams > 1)
        printf("%s goes on\n", call_sid);
    else
        printf("%s talks%s\n", call_sid, resumed ? ": rescued from another agent" : "");
}

static void phone_closed(struct phone *phone, const char *call_sid, int close_code)
{
    /* Somebody hung up: the pod is released. The connection broke: the call may come back within a minute. */
    const enum smartrouter_result result =
        smartrouter_agent_stream_ended(phone->agent, call_sid, close_code, phone->session);

    phone->session = NULL;
    printf("%s closed: %s\n", call_sid, smartrouter_result_name(result));
}

/* The router has ended the call, or another pod has it: close the stream, do not release. */
static void phone_hang_up(void *arg, const char *call_sid, bool is_conflict)
{
    (void)arg;
    printf("%s is hung up%s\n", call_sid, is_conflict ? ": another pod has it" : "");
}

static void *phone_listen(void *arg)
{
    char line[256], call_sid[129];
    int close_code, resumed;

    while (fgets(line, sizeof(line), stdin)) {
        resumed = 0;
        if (sscanf(line, "open %128s %d", call_sid, &resumed) >= 1)
            phone_opened(arg, call_sid, resumed);
        else if (sscanf(line, "close %128s %d", call_sid, &close_code) == 2)
            phone_closed(arg, call_sid, close_code);
    }
    return NULL;
}

static void log_line(void *arg, enum smartrouter_log_level level, const char *message)
{
    (void)arg;
    if (level >= SMARTROUTER_LOG_INFO)
        fprintf(stderr, "%s\n", message);
}

static void fail(const char *what)
{
    fprintf(stderr, "agent: %s\n", what);
    exit(1);
}

int main(void)
{
    struct smartrouter_settings *settings = smartrouter_settings_new();
    struct smartrouter_agent_options options = {
        .size = sizeof(options), .call_over = phone_hang_up, .session_free = free};
    struct smartrouter_client *client;
    struct phone phone = {0};
    enum smartrouter_result result;
    pthread_t listener;
    char error[256];
    sigset_t stop;
    int number;

    /* The library has no signal handlers: this program waits for SIGTERM itself. Threads inherit the mask. */
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);

    if (!settings)
        fail("no memory");
    if (smartrouter_settings_read_environment(settings, error, sizeof(error)) != SMARTROUTER_OK)
        fail(error);
    smartrouter_settings_set_log(settings, log_line, NULL);
    if (smartrouter_client_new(settings, &client) != SMARTROUTER_OK)
        fail("no memory");
    smartrouter_settings_free(settings);

    /* A real agent listens before this line: a registered pod can get a call at once. */
    if (smartrouter_agent_new(client, &options, &phone.agent) != SMARTROUTER_OK)
        fail("POD_NAME and POD_IP must be set");
    if (pthread_create(&listener, NULL, phone_listen, &phone) != 0)
        fail("no thread");
    if (smartrouter_agent_is_ready(phone.agent, 10000))
        printf("ready\n");

    sigwait(&stop, &number);
    printf("draining\n");
    result = smartrouter_agent_stop(phone.agent);
    printf("stopped: %s\n", smartrouter_result_name(result));

    pthread_cancel(listener);
    pthread_join(listener, NULL);
    free(phone.session);
    smartrouter_agent_free(phone.agent);
    smartrouter_client_free(client);
    return result == SMARTROUTER_OK ? 0 : 1;
}
