/*
 * reference_routes.c - what each route does and answers, and what its parameters mean, for the API
 * reference.
 */
#include "api/reference.h"

#include "api/api_internal.h"

#define XML "application/xml"

/* clang-format off */
#define NO_SUCH_CALL     {404, "There is no such call, or it is on another pod than `pod_name`."}
#define NO_SUCH_POD      {404, "There is no such pod."}
#define NO_SUCH_MERCHANT {404, "The merchant has no configuration."}
#define CHANGED_MEANWHILE "Somebody else changed the configuration at the same moment: nothing was changed"
#define TOO_OFTEN        {429, "This address asks for pods more often than `RATE_LIMIT` allows."}
#define TOO_MANY         {503, "The router has too many connections."}

#define NOT_MODIFIED     {304, "`If-None-Match` has the `ETag` of this version. There is no body."}

#define WEBHOOK_ABOUT \
    " The provider signs the request, or sends a token: see docs/PROVIDERS.md. A fresh call gets a pod. A " \
    "call that has one gets the same again."
#define CALLBACK_ABOUT \
    " A status that ends the call releases it. Every other status, and a callback about a call of another " \
    "owner, changes nothing. The answer is 200 either way, because providers repeat what was refused."
#define AFTER_ABOUT \
    " The URL is in the answer to the webhook before, if `PUBLIC_BASE_URL`, `GATEWAY_SECRET` and `RESCUE` are " \
    "set. A call whose end is recorded gets a hangup, one that lives its pod again, one that waits its place " \
    "in line, and every other one a pod. See docs/WAITING.md."
#define EXOTEL_AFTER_ABOUT \
    " You enter this URL in the flow: no answer to Exotel can name it. 302 leads the flow back to the stream: " \
    "the call lives, waits, or gets a pod. 200 leads it on: the call is over, has waited for too long, or finds " \
    "no pod. See docs/WAITING.md."
#define ROLLBACK_ABOUT \
    "It is a change like any other, and gets a version of its own: a second rollback without `version` takes " \
    "back the first. The body may be absent."
#define FORBIDDEN_CALLBACK {403, "The signature or the token of the provider is missing or wrong."}
#define FORBIDDEN_WEBHOOK \
    {403, "The signature or the token of the provider is missing or wrong, the call belongs to another " \
          "owner, or the provider has said that the call is over."}

const struct reference_entry reference_entries[] = {
    {api_allocate, "allocate", GROUP_CALLS,
     .about =
     "Tries the pools of the merchant's chain in their order, and gives the call the first free pod. A call "
     "that has a pod keeps it, however often and on however many routers it asks. The call is live until it "
     "is released, its lease ends or its pod is gone. With `wait` a call that finds no pod waits for one, if "
     "`HOLD_MAX_WAIT` or its merchant allows it: ask again after `retry_after_ms`, within 15 seconds, until "
     "the answer is 200. A call that is not asked for any more leaves the line. See docs/WAITING.md.",
     .answers = {{200, "The call has a pod.", "Allocation"},
                 {202, "With `wait`: no pod is free, and the call waits. Ask again.", "Waiting"},
                 {409, "With `wait_ms`: the call was released while it waited."}, TOO_OFTEN,
                 {503, "No pod is free (`code` is `no_pods`), and the call may not wait, has waited for too "
                       "long, or the line is full: the log says which, and `GET /api/v1/call/{sid}` has the "
                       "pools that were tried. Or the store is not reachable, or the router has too many connections (`unavailable`)."}}},
    {api_release, "release", GROUP_CALLS,
     .about =
     "The pod goes back to its pool, unless it is draining or not ready. With `pod_name` a call that has "
     "moved to another pod is not ended: agents should send it. A repeated release frees nothing that "
     "another call has by now. A call that waits leaves the line. Without `pod_name`, a call whose stream was "
     "moved, cut or resumed within the last minute is kept, also while it waits for its next pod: the end of "
     "its stream decides.",
     .answers = {{200, "The call has ended, or is kept.", "Release"}, NO_SUCH_CALL}},
    {api_renew, "renew", GROUP_CALLS,
     .about =
     "The new leases last `LEASE_TTL`. Send either `call_sid` or `call_sids`. A call whose lease ran "
     "out is renewed as long as no other call has its pod.",
     .answers = {{200, "The only call is renewed, or there are several calls.", "Renewal"},
                 {404, "The request has one call, and it is unknown or has ended."},
                 {409, "The request has one call, and another call has its pod by now, or the key is not for "
                       "this pod."}}},
    {api_calls, "list_calls", GROUP_CALLS,
     .about =
     "All, or those that pass all filters, in pages: `next_cursor` leads to the next one. With filters a page "
     "may be empty and not be the last one. See docs/INSPECT.md.",
     .answers = {{200, "A page of calls.", "CallPage"}}},
    {api_call, "get_call", GROUP_CALLS,
     .about =
     "Of a call that got no pod it shows the reason, with the status 404: for ten minutes, on every router. "
     "See docs/INSPECT.md.",
     .answers = {{200, "The call. Of a call that waits: its place in line.", "Call or WaitingCall"}, {404, "There is no such call.", "CallNotFound"}}},
    {api_waiting, "list_waiting", GROUP_CALLS,
     .about =
     "In the order of their places, in pages: `next_cursor` leads to the next one. A call stands in the line of "
     "every pool of its chain. See docs/WAITING.md.",
     .answers = {{200, "A page of calls that wait.", "WaitingPage"}}},
    {api_story, "get_call_story", GROUP_CALLS,
     .about =
     "In sentences, in the order of time: when the call asked for a pod, why it got none, which pods it had, "
     "who renewed it, and how it ended. The last 10,000 calls that have ended are remembered for one hour. "
     "With Redis every router knows them; without Redis a restart forgets them. See docs/INSPECT.md.",
     .answers = {{200, "The story.", "CallStory"}, {404, "Nothing is known of this call."}}},

    {api_pods, "list_pods", GROUP_PODS,
     .about = "All, or those of one tier or state, in pages: `next_cursor` leads to the next one.",
     .answers = {{200, "A page of pods.", "PodPage"}}},
    {api_pod_register, "register_pod", GROUP_PODS,
     .about =
     "For pods that are not on Kubernetes. A pod may register again. It must send heartbeats: "
     "without one for `HEARTBEAT_TTL` it is removed. See docs/AGENTS.md. Another `incarnation` than before means that the pod "
     "was restarted, and its calls end.",
     .answers = {{200, "The pod is registered.", "Registration"},
                 {409, "Kubernetes or `STATIC_PODS` manages a pod of this name, or there are 50,000 pods."}}},
    {api_pod, "get_pod", GROUP_PODS,
     .about = "With its state and all its calls.",
     .answers = {{200, "The pod.", "Pod"}, NO_SUCH_POD}},
    {api_pod_delete, "delete_pod", GROUP_PODS,
     .about = "Its calls end.",
     .answers = {{200, "The pod is removed.", "PodDone"}, NO_SUCH_POD,
                 {409, "Kubernetes or `STATIC_PODS` manages the pod."}}},
    {api_pod_heartbeat, "heartbeat", GROUP_PODS,
     .about =
     "The calls get a new lease of `LEASE_TTL`. A call that the "
     "router has lost is adopted if the pod has room for it. A call that two heartbeats in a row leave out "
     "ends, if it is older than 30 seconds.",
     .answers = {{200, "The heartbeat was taken.", "Heartbeat"},
                 {404, "There is no such pod: register it again."}}},
    {api_pod_drained, "wait_for_drained_pod", GROUP_PODS,
     .about =
     "For an agent that stops: drain the pod, wait here, then end. The answer comes when the pod is draining "
     "and has no call, or when the time is over.",
     .answers = {{200, "The pod is draining and has no call.", "Drained"},
                 {202, "The time is over: the pod still has calls, or is not draining. Ask again.", "Drained"},
                 NO_SUCH_POD}},
    {api_drain, "drain", GROUP_PODS,
     .about =
     "The pod keeps its calls and gets no new ones. Repeating it takes the place of the first drain. When the "
     "time is over, the pod gets calls again.",
     .answers = {{200, "The pod is draining.", "Drain"}, NO_SUCH_POD}},
    {api_undrain, "undrain", GROUP_PODS,
     .about = "At once, if it is ready and has room.",
     .answers = {{200, "The pod is not draining.", "PodDone"}, NO_SUCH_POD}},

    {api_merchants, "list_merchants", GROUP_CONFIGURATION,
     .about = "In pages: `next_cursor` leads to the next one.",
     .answers = {{200, "A page of configurations.", "MerchantPage"}}},
    {api_merchant, "get_merchant", GROUP_CONFIGURATION,
     .about = "As it is stored.",
     .answers = {{200, "The configuration.", "MerchantConfig"}, NO_SUCH_MERCHANT}},
    {api_merchant_set, "set_merchant", GROUP_CONFIGURATION,
     .about =
     "It replaces the stored one, and counts from the merchant's next call on, on every router. Live calls "
     "keep their pods. An unknown member is refused, and the error names the nearest known one. The last 20 "
     "versions are kept.",
     .document = "MerchantConfig",
     .answers = {{200, "The configuration is stored.", "MerchantChange"},
                 {409, "There are 100,000 merchants."}}},
    {api_merchant_remove, "delete_merchant", GROUP_CONFIGURATION,
     .about = "The merchant's next call gets the default chain. A rollback brings the configuration back.",
     .answers = {{200, "The configuration is removed.", "MerchantChange"}, NO_SUCH_MERCHANT}},
    {api_merchant_history, "get_merchant_history", GROUP_CONFIGURATION,
     .about = "The last 20, the newest first. A merchant that was removed keeps them.",
     .answers = {{200, "The versions.", "MerchantHistory"},
                 {404, "The merchant has no configuration, and no version of one is kept."}}},
    {api_merchant_rollback, "rollback_merchant", GROUP_CONFIGURATION,
     .about = ROLLBACK_ABOUT,
     .is_body_optional = true,
     .answers = {{200, "The configuration is that of the version.", "MerchantChange"},
                 {404, "The version is not kept, there is none before the present one, or the merchant never "
                       "had a configuration."},
                 {409, CHANGED_MEANWHILE ". Or there are 100,000 merchants."}}},
    {api_tiers, "get_tiers", GROUP_CONFIGURATION,
     .about = "As they are stored: see docs/TIERS.md.",
     .answers = {{200, "The tiers.", "TierConfig"}}},
    {api_tiers_set, "set_tiers", GROUP_CONFIGURATION,
     .about =
     "They replace all stored tiers, and count at once, on every router. Live calls keep their pods. "
     "Idle pods move to the tiers that want them with the next sync. An unknown member is refused, and the "
     "error names the nearest known one. The last 20 versions are kept.",
     .document = "TierConfig", .answers = {{200, "The tiers are stored.", "TiersChange"}}},
    {api_tiers_history, "get_tiers_history", GROUP_CONFIGURATION,
     .about = "The last 20, the newest first.",
     .answers = {{200, "The versions.", "TiersHistory"}}},
    {api_tiers_rollback, "rollback_tiers", GROUP_CONFIGURATION,
     .about = ROLLBACK_ABOUT,
     .is_body_optional = true,
     .answers = {{200, "The tiers are those of the version.", "TiersChange"},
                 {404, "The version is not kept, or there is none before the present one."},
                 {409, CHANGED_MEANWHILE "."}}},

    {api_status, "get_status", GROUP_MONITORING,
     .about = "The members about a process are those of the one that answers. While the store is not "
     "reachable, `status` is `down`, and only these members are there. Load balancers should ask `/ready`.",
     .answers = {{200, "The state.", "Status"},
                 TOO_MANY}},
    {api_diagnosis, "get_diagnosis", GROUP_MONITORING,
     .about =
     "What no other route tells, without a secret: the store, the routers, the settings that matter. It judges "
     "nothing; `smart-router doctor` does. While the store is not reachable, its part is missing. See "
     "docs/CLI.md.",
     .answers = {{200, "The facts.", "Diagnosis"}, TOO_MANY}},
    {api_autoscale, "get_autoscale", GROUP_MONITORING,
     .about =
     "For autoscalers: a workload whose pods serve several tiers has the sum of what they want. Each tier is "
     "rounded for itself. While the store is not reachable, the answer is 503 and no number. See "
     "docs/SCALING.md.",
     .answers = {{200, "The number of pods, and what it follows from.", "Autoscale"}}},
    {api_autoscale_tier, "get_autoscale_tier", GROUP_MONITORING,
     .about =
     "The same for one tier or merchant pool.",
     .answers = {{200, "The number of pods, and what it follows from.", "Autoscale"},
                 {404, "There is no such tier."}}},
    {api_events, "watch_events", GROUP_MONITORING,
     .about =
     "Server-sent events: allocations, releases, drains, changes of pods and of the leader. With the header "
     "`Last-Event-ID` the stream goes on after that event. See docs/EVENTS.md.",
     .answers = {{200, "The stream. It ends when the router stops.", "string", "text/event-stream"},
                 {503, "The router has 64 streams, or too many connections."}}},
    {api_pool_history, "get_pool_history", GROUP_MONITORING,
     .about =
     "Samples of the hour before, or since the start of the router, which takes one every 15 seconds. Each "
     "router has its own, and forgets them when it stops. null: the store did not answer, or the pool was not "
     "there. The last sample of each list is of this moment's 15 seconds, and may be missing still.",
     .answers = {{200, "The samples.", "PoolHistory"}, TOO_MANY}},
    {api_whoami, "whoami", GROUP_MONITORING,
     .about = "Without keys (`API_KEY`, `API_KEYS`) everybody has the role `admin`.",
     .answers = {{200, "The key of this request.", "Whoami"}, TOO_MANY}},
    {api_metrics, "get_metrics", GROUP_MONITORING,
     .about =
     "`METRICS_PORT` shows the same without a key. While the store is not reachable, its part is missing.",
     .answers = {{200, "The metrics.", "string", "text/plain"},
                 TOO_MANY}},
    {api_health, "get_health", GROUP_MONITORING,
     .about =
     "For liveness probes. It never asks the store, so the status is 200 while the process is alive.",
     .answers = {{200, "The process is alive.", "Health"}}},
    {api_ready, "get_ready", GROUP_MONITORING,
     .about = "For readiness probes and load balancers.",
     .answers = {{200, "The process can serve calls.", "Ready"},
                 {503, "The store is not reachable, or the process is shutting down.", "Ready"}}},
    {api_openapi, "get_openapi", GROUP_MONITORING,
     .about =
     "OpenAPI 3.1. It is the same for every router of a version, and says nothing about a single one.",
     .answers = {{200, "The document.", "{any}"}, TOO_MANY}},
    {api_dashboard, "get_dashboard", GROUP_MONITORING,
     .about =
     "A page for browsers: see docs/DASHBOARD.md. The page itself holds no data. It asks this API, with the "
     "key that its user enters.",
     .answers = {{200, "The page.", "string", "text/html"}, NOT_MODIFIED, TOO_MANY}},
    {api_dashboard_file, "get_dashboard_file", GROUP_MONITORING,
     .about = "Scripts, styles and pictures of the dashboard.",
     .answers = {{200, "The file.", "string", "*/*"}, NOT_MODIFIED, {404, "There is no such file."}, TOO_MANY}},

    {api_twilio, "twilio_allocate", GROUP_PROVIDERS,
     .about = "Twilio asks where a call shall go." WEBHOOK_ABOUT,
     .provider = "twilio",
     .answers = {{200, "TwiML: the stream of the call, or `BUSY_MESSAGE` and a hangup.", "string", XML},
                 FORBIDDEN_WEBHOOK, TOO_OFTEN, TOO_MANY}},
    {api_plivo, "plivo_allocate", GROUP_PROVIDERS,
     .about = "Plivo asks where a call shall go." WEBHOOK_ABOUT,
     .provider = "plivo",
     .answers = {{200, "Plivo's XML: the stream of the call, or `BUSY_MESSAGE` and a hangup.", "string", XML},
                 FORBIDDEN_WEBHOOK, TOO_OFTEN, TOO_MANY}},
    {api_exotel, "exotel_allocate", GROUP_PROVIDERS,
     .about = "Exotel asks where a call shall go." WEBHOOK_ABOUT,
     .provider = "exotel",
     .takes_json = true,
     .answers = {{200, "The stream of the call.", "ExotelStream"}, FORBIDDEN_WEBHOOK, TOO_OFTEN,
                 {503, "No pod is free (`code` is `no_pods`). Or the store is not reachable, or the router "
                       "has too many connections (`unavailable`)."}}},
    {api_twilio_after, "twilio_after", GROUP_PROVIDERS,
     .about = "The stream of a call has ended, and Twilio asks how the call goes on." AFTER_ABOUT,
     .provider = "twilio",
     .answers = {{200, "TwiML: a stream, a hangup, `BUSY_MESSAGE` and a hangup, or a pause and a redirect.",
                  "string", XML},
                 FORBIDDEN_WEBHOOK, TOO_OFTEN, TOO_MANY}},
    {api_plivo_after, "plivo_after", GROUP_PROVIDERS,
     .about = "The stream of a call has ended, and Plivo asks how the call goes on." AFTER_ABOUT,
     .provider = "plivo",
     .answers = {{200, "Plivo's XML: a stream, a hangup, `BUSY_MESSAGE` and a hangup, or a wait and a redirect.",
                  "string", XML},
                 FORBIDDEN_WEBHOOK, TOO_OFTEN, TOO_MANY}},
    {api_exotel_after, "exotel_after", GROUP_PROVIDERS,
     .about = "For the applet Passthru behind the stream of a call in Exotel's flow." EXOTEL_AFTER_ABOUT,
     .provider = "exotel",
     .takes_json = true,
     .answers = {{200, "The call is over, or there is no pod for it.", "Done"},
                 {302, "The call goes on: the flow leads back to the stream.", "Done"}, FORBIDDEN_WEBHOOK,
                 TOO_OFTEN, TOO_MANY}},
    {api_twilio_status, "twilio_status", GROUP_PROVIDERS,
     .about = "Twilio reports the status of a call." CALLBACK_ABOUT,
     .provider = "twilio",
     .answers = {{200, "An empty response in TwiML.", "string", XML}, FORBIDDEN_CALLBACK,
                 TOO_MANY}},
    {api_plivo_status, "plivo_status", GROUP_PROVIDERS,
     .about = "Plivo reports the status of a call." CALLBACK_ABOUT,
     .provider = "plivo",
     .answers = {{200, "An empty response in Plivo's XML.", "string", XML}, FORBIDDEN_CALLBACK,
                 TOO_MANY}},
    {api_exotel_status, "exotel_status", GROUP_PROVIDERS,
     .about = "Exotel reports the status of a call." CALLBACK_ABOUT,
     .provider = "exotel",
     .takes_json = true,
     .answers = {{200, "The callback was taken.", "Done"}, FORBIDDEN_CALLBACK,
                 TOO_MANY}},
};

/* An entry of one handler wins over one for all: it comes first. */
const struct reference_param reference_params[] = {
    {"provider", api_allocate,
     "The provider that carries the call. It becomes the owner of the call: only its webhooks may ask about "
     "it. Default: `twilio` for the URL, and no owner."},
    {"wait", api_allocate, "true: a call that finds no pod waits. Default: false."},
    {"wait_ms", api_allocate,
     "How long the request is kept open while the call waits, in milliseconds. It means that `wait` is true. "
     "When the router has too many open requests, it answers at once. Default: an answer at once."},
    {"reason", api_release, "Why the call ends. It is written to the log."},
    {"call_sid", api_renew, "One call."},
    {"call_sids", api_renew, "Several calls, at most 1,000."},
    {"call_sids", api_pod_heartbeat, "All calls of the pod, at most 1,000. An empty list: it has none."},
    {"pod_name", api_release, "The pod of the agent that releases. A call on another pod is not ended."},
    {"tier", api_pods, "Only pods of this tier or merchant pool."},
    {"pod", api_calls, "Only calls of this pod."},
    {"merchant", api_calls, "Only calls of this merchant."},
    {"state", api_calls, "Only calls in this state."},
    {"older_than", api_calls,
     "Only calls that got their first pod at least that long ago: a duration (`90s`, `1h30m`), or a number of "
     "seconds."},
    {"state", api_pods, "Only pods in this state."},
    {"address", api_pod_register,
     "Where the gateway connects to: `host:port`, `[v6]:port`, or a host, whose port is "
     "`VOICE_AGENT_PORT`. `POD_ADDRESS_ALLOW` restricts it."},
    {"incarnation", api_pod_register,
     "What changes when the pod restarts, for instance the time of its start: 1 to 127 printable characters "
     "without spaces. Default: the time of this request, so that every registration ends the pod's calls."},
    {"tier", api_autoscale_tier, "The tier or merchant pool."},
    {"tier", api_pod_register, "The tier or merchant pool to join. Default: the first one below its target."},
    {"timeout_seconds", api_pod_drained, "How long to wait, in seconds. Default: 0, an answer at once."},
    {"ttl_seconds", api_drain, "How long, in seconds. 0: until it is undrained. Default: `DRAINING_TTL`."},
    {"pod", api_twilio_after, "The pod that the call had.", .is_in_query = true},
    {"pod", api_plivo_after, "The pod that the call had.", .is_in_query = true},
    {"pod", api_exotel_after, "The pod that the call had.", .is_in_query = true},
    {"try", NULL, "How often the store could not answer.", .is_in_query = true},
    {"template", api_exotel_after, "A part of the URL's path. Default: `template`.", .is_in_query = true},
    {"StreamEvent", api_twilio_after, "A callback about a stream has it. It says nothing about the call."},
    {"CallStatus", api_twilio_after,
     "`completed`, `busy`, `failed`, `no-answer` and `canceled` end the call."},
    {"Event", api_plivo_after, "`Hangup` ends the call. Events of streams change nothing."},
    {"HangupCause", api_plivo_after, "Any cause ends the call."},
    {"CallStatus", api_plivo_after,
     "`completed`, `busy`, `failed`, `no-answer` and `canceled` end the call."},
    {"EventType", api_exotel_after, "`terminal` ends the call. Every other event changes nothing."},
    {"Status", api_exotel_after, "Without `EventType`: a final status ends the call."},
    {"StreamEvent", api_twilio_status, "A callback about a stream has it. It says nothing about the call."},
    {"CallStatus", api_twilio_status,
     "`completed`, `busy`, `failed`, `no-answer` and `canceled` end the call."},
    {"Event", api_plivo_status, "`Hangup` ends the call. Events of streams change nothing."},
    {"HangupCause", api_plivo_status, "Any cause ends the call."},
    {"CallStatus", api_plivo_status,
     "`completed`, `busy`, `failed`, `no-answer` and `canceled` end the call."},
    {"EventType", api_exotel_status, "`terminal` ends the call. Every other event changes nothing."},
    {"Status", api_exotel_status, "Without `EventType`: a final status ends the call."},

    {"limit", api_merchants,
     "How many at most. A page may have fewer, and not be the last one. Default: 1,000."},
    {"template", api_allocate,
     "A part of the URL's path. Default: `order-confirmation`; for the provider `exotel` it is `template`."},
    {"template", api_exotel, "A part of the URL's path. Default: `template`.", .is_in_query = true},
    {"sid", NULL, "The call."},
    {"name", NULL, "The pod."},
    {"id", NULL, "The merchant."},
    {"file", NULL, "The name of the file."},
    {"call_sid", NULL, "The call."},
    {"pod_name", NULL, "The pod."},
    {"merchant_id", NULL, "The merchant, whose configuration chooses the chain. Default: the default chain.",
     .is_in_query = true},
    {"reseller_id", NULL, "Another name for `merchant_id`.", .is_in_query = true},
    {"flow", NULL, "`v2` adds `/v2` to the path of the URL, as `{flow_suffix}`. Default: `v2`.",
     .is_in_query = true},
    {"template", NULL, "A part of the URL's path. Default: `order-confirmation`.",
     .is_in_query = true},
    {"token", NULL, "`EXOTEL_TOKEN`, unless it comes as the password of Basic authentication.",
     .is_in_query = true},
    {"CallSid", NULL, "The call. With POST it is in the body or in the query."},
    {"CallUUID", NULL, "The call. With POST it is in the body or in the query."},
    {"limit", NULL, "How many at most. A page may have fewer, and not be the last one. Default: 100."},
    {"cursor", NULL, "`next_cursor` of the page before. Default: the first page."},
    {"body", NULL, "The whole configuration."},
    {"dry_run", NULL, "`true` checks the change and shows its answer, but changes nothing. Default: `false`."},
    {"version", NULL, "The version to go back to, from the history. Default: the one before the present one."},
};
/* clang-format on */

const size_t reference_entries_count = ARRAY_LEN(reference_entries);
const size_t reference_params_count = ARRAY_LEN(reference_params);

const struct reference_entry *reference_entry_of(http_handler_fn handler)
{
    for (size_t i = 0; i < reference_entries_count; i++) {
        if (reference_entries[i].handler == handler)
            return &reference_entries[i];
    }
    return NULL;
}

const struct reference_param *reference_param_of(http_handler_fn handler, const char *name)
{
    for (size_t i = 0; i < reference_params_count; i++) {
        const struct reference_param *param = &reference_params[i];

        if ((!param->handler || param->handler == handler) && strcmp(param->name, name) == 0)
            return param;
    }
    return NULL;
}

const char *reference_group_name(enum reference_group group)
{
    static const char *const names[REFERENCE_GROUPS] = {
        [GROUP_CALLS] = "Calls",
        [GROUP_PODS] = "Pods",
        [GROUP_CONFIGURATION] = "Configuration",
        [GROUP_MONITORING] = "Monitoring",
        [GROUP_PROVIDERS] = "Providers",
    };

    return names[group];
}
