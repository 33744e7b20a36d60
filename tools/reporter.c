/*
 * reporter.c - what agents tell the router: here I am, these are my calls, this one is over.
 */
#include <stdio.h>
#include <stdlib.h>

#include "agent.h"
#include "base/json.h"
#include "fetch.h"

enum { REPORT_MAX = 256 * 1024, REGISTER_AGAIN_MS = 1000 };

/* One request, which counts for the agent when it is answered. */
struct report {
    struct agent *agent;
    fetch_fn fn;
};

static void report_answered(void *arg, int err, int status, struct slice body)
{
    struct report *report = arg;

    report->agent->fleet->requests--;
    report->fn(report->agent, err, status, body);
    free(report);
}

static int report_send(struct agent *agent, const char *method, const char *path, const struct strbuf *body,
                       fetch_fn fn)
{
    struct fleet *fleet = agent->fleet;
    struct fetch_request request = {
        .method = method,
        .address = (const struct sockaddr *)&fleet->router_address,
        .url = &fleet->settings.router,
        .path = path,
        .api_key = fleet->settings.api_key,
        .content_type = "application/json",
        .body = body ? strbuf_slice(body) : (struct slice){"", 0},
        .timeout_ms = AGENT_TIMEOUT_MS,
    };
    struct report *report = malloc(sizeof(*report));
    struct fetch *fetch;
    int r;

    if (!report)
        return -ENOMEM;
    *report = (struct report){.agent = agent, .fn = fn};
    r = fetch_start(fleet->net, &request, report_answered, report, &fetch);
    if (r == 0)
        fleet->requests++;
    else
        free(report);
    return r;
}

static void reporter_timer(uv_timer_t *timer);

/* While the fleet stops there is nothing more to say. */
static void reporter_again(struct agent *agent, uint64_t after_ms)
{
    if (!agent->fleet->is_stopping)
        uv_timer_start(&agent->heartbeat_timer, reporter_timer, after_ms, 0);
}

static void agent_registered(void *arg, int err, int status, struct slice body)
{
    struct agent *agent = arg;

    agent->is_asking = false;
    agent->is_registered = err == 0 && status == 200;
    if (err == 0 && status != 200)
        fprintf(stderr, "agent-sim: %s cannot register: %d %.*s\n", agent->name, status, (int)body.len,
                body.data);
    /* The first heartbeat comes at once: a pod that registered has to be heard. */
    reporter_again(agent, agent->is_registered ? 0 : REGISTER_AGAIN_MS);
}

static void agent_heard(void *arg, int err, int status, struct slice body UNUSED)
{
    struct agent *agent = arg;
    struct fleet_counters *counters = &agent->fleet->counters;

    agent->is_asking = false;
    if (err == 0 && status == 200)
        counters->heartbeats++;
    else
        counters->heartbeats_failed++;
    if (status == 404)
        agent->is_registered = false; /* the router has forgotten it */
    reporter_again(agent, agent->fleet->settings.heartbeat_ms);
}

static int reporter_register(struct agent *agent)
{
    const struct fleet_settings *settings = &agent->fleet->settings;
    const char *host = settings->advertised_host ? settings->advertised_host : settings->host;
    char address[URL_HOST_MAX + 16];
    struct json_writer json;
    struct strbuf buf;
    int r;

    snprintf(address, sizeof(address), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, agent->port);
    strbuf_init(&buf, NULL, REPORT_MAX);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_put_string(&json, "pod_name", agent->name);
    json_put_string(&json, "address", address);
    if (settings->tier[0] != '\0')
        json_put_string(&json, "tier", settings->tier);
    json_object_end(&json);
    r = strbuf_failed(&buf) ? -ENOMEM : report_send(agent, "POST", "/api/v1/pods", &buf, agent_registered);
    strbuf_release(&buf);
    return r;
}

static int reporter_heartbeat(struct agent *agent)
{
    char path[AGENT_NAME_MAX + 64];
    struct json_writer json;
    struct strbuf buf;
    int r;

    strbuf_init(&buf, NULL, REPORT_MAX);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_key(&json, "call_sids");
    json_array_begin(&json);
    LIST_FOR_EACH (link, &agent->sessions) {
        const struct session *session = LIST_ENTRY(link, struct session, link);

        if (session->start.call_sid[0] != '\0')
            json_string(&json, session->start.call_sid);
    }
    json_array_end(&json);
    json_object_end(&json);
    snprintf(path, sizeof(path), "/api/v1/pod/%s/heartbeat", agent->name);
    r = strbuf_failed(&buf) ? -ENOMEM : report_send(agent, "POST", path, &buf, agent_heard);
    strbuf_release(&buf);
    return r;
}

static void reporter_timer(uv_timer_t *timer)
{
    struct agent *agent = CONTAINER_OF(timer, struct agent, heartbeat_timer);
    const struct fleet_settings *settings = &agent->fleet->settings;
    int r = -EAGAIN;

    if (agent->mode != AGENT_HANG && agent->mode != AGENT_CRASH && !agent->is_asking) {
        if (settings->registers && !agent->is_registered)
            r = reporter_register(agent);
        else if (settings->heartbeat_ms > 0)
            r = reporter_heartbeat(agent);
        else
            return;
    }
    agent->is_asking = r == 0;
    if (r != 0)
        reporter_again(agent, REGISTER_AGAIN_MS);
}

void reporter_start(struct agent *agent)
{
    const struct fleet *fleet = agent->fleet;
    const struct fleet_settings *settings = &fleet->settings;
    uint64_t index = (uint64_t)(agent - fleet->agents);

    if (!settings->has_router)
        return;
    if (settings->registers && !agent->is_registered)
        uv_timer_start(&agent->heartbeat_timer, reporter_timer, 0, 0);
    else if (settings->heartbeat_ms > 0)
        /* Not all at the same time. */
        uv_timer_start(&agent->heartbeat_timer, reporter_timer,
                       settings->heartbeat_ms * (index + 1) / (uint64_t)settings->count, 0);
}

static void agent_left(void *arg UNUSED, int err UNUSED, int status UNUSED, struct slice body UNUSED)
{
}

void reporter_stop(struct agent *agent)
{
    char path[AGENT_NAME_MAX + 64];

    if (!agent->is_registered)
        return;
    snprintf(path, sizeof(path), "/api/v1/pod/%s", agent->name);
    (void)!report_send(agent, "DELETE", path, NULL, agent_left);
}

static void agent_call_released(void *arg, int err, int status, struct slice body UNUSED)
{
    struct agent *agent = arg;

    /* Unknown is fine: somebody else has released it. */
    if (err == 0 && (status == 200 || status == 404))
        agent->fleet->counters.released++;
    else
        agent->fleet->counters.release_failed++;
}

void reporter_release(struct agent *agent, const char *call_sid)
{
    struct json_writer json;
    struct strbuf buf;

    if (!agent->fleet->settings.has_router)
        return;
    strbuf_init(&buf, NULL, REPORT_MAX);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_put_string(&json, "call_sid", call_sid);
    json_put_string(&json, "reason", "the stream closed");
    if (!agent->fleet->settings.releases_plainly)
        json_put_string(&json, "pod_name", agent->name);
    json_object_end(&json);
    if (strbuf_failed(&buf) || report_send(agent, "POST", "/api/v1/release", &buf, agent_call_released) != 0)
        agent->fleet->counters.release_failed++;
    strbuf_release(&buf);
}
