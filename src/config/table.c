/*
 * table.c - the table of all settings: name, type, default, limits and help.
 */
#include "config/table.h"

#include "base/limits.h"

#define MS UINT64_C(1)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

#define FIELD(member) .offset = offsetof(struct settings, member)
#define LIMITS(least, most) .min = (least), .max = (most)

#define DEFAULT_TEMPLATE                                                                                     \
    "{base}/ws/pod/{pod}/agent/voice/breeze-buddy/{provider}/callback/{template}{flow_suffix}"

static const char group_http[] = "HTTP";
static const char group_store[] = "Store";
static const char group_pods[] = "Pods";
static const char group_agents[] = "Voice agents";
static const char group_gateway[] = "Gateway";
static const char group_tiers[] = "Tiers";
static const char group_calls[] = "Calls and background work";
static const char group_leader[] = "Leader election";
static const char group_security[] = "Security";
static const char group_log[] = "Logging";

const struct setting config_table[] = {
    /* HTTP */
    {"HTTP_PORT", group_http, SETTING_PORT, FIELD(http_port), .fallback = "8080", LIMITS(0, 65535),
     .help = "Where the API listens. 0 picks a free port and logs it."},
    {"METRICS_PORT", group_http, SETTING_PORT, FIELD(metrics_port), .fallback = "9090", LIMITS(0, 65535),
     .help = "Where only /metrics and the health routes listen. 0 picks a free port and logs it."},
    {"HTTP_BIND", group_http, SETTING_STRING, FIELD(http_bind), .fallback = "", LIMITS(0, 45),
     .help = "The one address at which the API listens: `127.0.0.1`, `10.0.0.5`, `::1`. Unset: all of them."},
    {"METRICS_BIND", group_http, SETTING_STRING, FIELD(metrics_bind), .fallback = "", LIMITS(0, 45),
     .help = "The same for METRICS_PORT. Unset: HTTP_BIND."},
    {"HTTP_READ_TIMEOUT", group_http, SETTING_DURATION, FIELD(http_read_timeout_ms), .fallback = "5s",
     LIMITS(10 * MS, HOUR),
     .help = "How long a client may take for its header, and again for its body; then 408."},
    {"HTTP_WRITE_TIMEOUT", group_http, SETTING_DURATION, FIELD(http_write_timeout_ms), .fallback = "10s",
     LIMITS(10 * MS, HOUR), .help = "How long a client may take to read its answer before it is cut off."},
    {"HTTP_IDLE_TIMEOUT", group_http, SETTING_DURATION, FIELD(http_idle_timeout_ms), .fallback = "60s",
     LIMITS(10 * MS, DAY), .help = "How long a connection may stay open between two requests."},
    {"HTTP_SHUTDOWN_TIMEOUT", group_http, SETTING_DURATION, FIELD(http_shutdown_timeout_ms),
     .fallback = "30s", LIMITS(0, HOUR),
     .help = "How long requests in flight may take to finish once nobody is accepted any more, and the least "
             "time that connections of the gateway get. After SIGINT or a second signal it is all they get."},
    {"SHUTDOWN_DELAY", group_http, SETTING_DURATION, FIELD(shutdown_delay_ms), .fallback = "5s",
     LIMITS(0, HOUR),
     .help = "How long everybody is still accepted and answered after SIGTERM, while /ready says 503: longer "
             "than load balancers take to notice."},
    {"MAX_CONNECTIONS", group_http, SETTING_UINT, FIELD(max_connections), .fallback = "10000",
     LIMITS(1, 1000000),
     .help =
         "Connections open at once. At the limit the connection that has been idle longest is closed for a "
         "new one, then one that is slow to send its requests or does not read its answer. If there is "
         "none, a new one gets 503, but /health and /ready are still answered."},
    {"MAX_CONNECTIONS_PER_CLIENT", group_http, SETTING_UINT, FIELD(max_connections_per_client),
     .fallback = "0", LIMITS(0, 1000000),
     .help = "Connections open at once from one address (IPv6: one /64); more get 503. Addresses in "
             "TRUSTED_PROXIES are not counted: name your load balancer there, because all clients behind it "
             "have its address. Streams of the gateway and TLS handshakes are not counted: GATEWAY_MAX, "
             "GATEWAY_STREAMS_PER_CALL and docs/TLS.md have their limits. 0: no limit."},

    /* Store */
    {"DATA_DIR", group_store, SETTING_STRING, FIELD(data_dir), .fallback = "./data", LIMITS(1, 4000),
     .help = "Where the embedded store keeps its log and snapshots; made if it is not there. Only the "
             "router's user should be able to write there."},
    {"LOG_FSYNC", group_store, SETTING_ENUM, FIELD(log_fsync), .fallback = "everysec",
     .choices = "always|everysec|no",
     .help = "When the embedded store's log is forced to the disk: before each answer, once a second, or "
             "when the kernel likes. A crash of the router alone loses nothing in any mode."},
    {"REDIS_URL", group_store, SETTING_STRING, .is_secret = true, FIELD(redis_url), .fallback = "",
     LIMITS(0, 4096),
     .help =
         "The Redis that several routers share: redis://[user:password@]host[:port][,host[:port]…][/db], "
         "several of these with commas, or unix:///path. Several hosts are nodes of a Redis Cluster, or a "
         "master and its replicas. Unset: the embedded store."},
    {"REDIS_SENTINELS", group_store, SETTING_STRING, FIELD(redis_sentinels), .fallback = "", LIMITS(0, 4096),
     .help = "Sentinels that know the Redis master, as host:port,host:port. User, password and database come "
             "from REDIS_URL."},
    {"REDIS_MASTER_NAME", group_store, SETTING_STRING, FIELD(redis_master_name), .fallback = "mymaster",
     LIMITS(1, 256), .help = "The master's name at the sentinels."},
    {"REDIS_SENTINEL_USERNAME", group_store, SETTING_STRING, FIELD(redis_sentinel_username), .fallback = "",
     LIMITS(0, 256), .help = "The user at the sentinels themselves, if they have users."},
    {"REDIS_SENTINEL_PASSWORD", group_store, SETTING_STRING, .is_secret = true,
     FIELD(redis_sentinel_password), .fallback = "", LIMITS(0, 4096),
     .help = "The password that the sentinels themselves ask for; that of the master is in REDIS_URL."},
    {"REDIS_POOL_SIZE", group_store, SETTING_UINT, SETTING_INERT, FIELD(redis_pool_size), .fallback = "10",
     LIMITS(1, 1000),
     .help = "Connections to Redis. One is used, whatever this says: it is pipelined, and as fast as eight."},
    {"REDIS_MIN_IDLE_CONN", group_store, SETTING_UINT, SETTING_INERT, FIELD(redis_min_idle_conn),
     .fallback = "5", LIMITS(0, 1000),
     .help = "Connections to Redis that stay open when idle. The one that is used always does."},
    {"REDIS_MAX_RETRIES", group_store, SETTING_UINT, SETTING_INERT, FIELD(redis_max_retries), .fallback = "3",
     LIMITS(0, 100),
     .help = "Tries of a command that failed on its way to Redis. A request fails at once instead, and its "
             "client may ask again."},
    {"REDIS_TIMEOUT", group_store, SETTING_DURATION, FIELD(redis_timeout_ms), .fallback = "2s",
     LIMITS(10 * MS, MINUTE), .help = "How long to wait for Redis."},
    {"REDIS_WAIT_REPLICAS", group_store, SETTING_UINT, FIELD(redis_wait_replicas), .fallback = "0",
     LIMITS(0, 100),
     .help =
         "Replicas of Redis that must have an allocation or a release before it is answered. Set it to the "
         "number of replicas to lose nothing in a planned failover; a replica that is away then means 503."},
    {"KEY_PREFIX", group_store, SETTING_STRING, FIELD(key_prefix), .fallback = "voice:", LIMITS(1, 64),
     .help = "What every key in Redis begins with; {voice}: puts them into one slot of a Redis Cluster."},

    /* Pods */
    {"POD_SOURCE", group_pods, SETTING_ENUM, FIELD(pod_source), .fallback = "",
     .choices = "api|static|kubernetes",
     .help = "Who says which pods there are: they register themselves (api), STATIC_PODS does (static), or "
             "Kubernetes does. Unset: static if STATIC_PODS is set; else kubernetes if KUBECONFIG, "
             "KUBE_API_URL or a service account is there; else api."},
    {"STATIC_PODS", group_pods, SETTING_STRING, FIELD(static_pods_text), .fallback = "",
     LIMITS(0, 128 * 1024),
     .help = "Pods by name and address: `voice-agent-0=127.0.0.1:9000,voice-agent-1`. The address may be "
             "left out."},
    {"HEARTBEAT_TTL", group_pods, SETTING_DURATION, FIELD(heartbeat_ttl_ms), .fallback = "90s",
     LIMITS(100 * MS, DAY),
     .help = "A pod that registered itself and does not heartbeat for this long is gone."},
    {"POD_ADDRESS_ALLOW", group_pods, SETTING_STRING, FIELD(pod_address_allow), .fallback = "",
     LIMITS(0, 8 * 1024),
     .help = "Where pods that register themselves may be: addresses and blocks, as `10.0.0.0/8,fd00::/8`. "
             "Checked after a name was resolved. Unset: everywhere but link-local, unspecified and multicast "
             "addresses, and loopback unless the registration itself came from there."},
    {"POD_NAME", group_pods, SETTING_STRING, FIELD(pod_name), .fallback = "smart-router-local",
     LIMITS(1, 253), .help = "This router's own name, as the status shows it."},
    {"NAMESPACE", group_pods, SETTING_STRING, FIELD(namespace_name), .fallback = "default", LIMITS(1, 63),
     .help = "The Kubernetes namespace of the pods."},
    {"POD_LABEL_SELECTOR", group_pods, SETTING_STRING, FIELD(pod_label_selector),
     .fallback = "app=voice-agent", LIMITS(1, 1024), .help = "Which pods of the namespace are voice agents."},
    {"VOICE_AGENT_CONTAINER", group_pods, SETTING_STRING, FIELD(voice_agent_container), .fallback = "",
     LIMITS(0, 63),
     .help = "The container of those pods in which the agent runs: when it restarts, its calls end. Restarts "
             "of other containers do not matter. Unset: the first one of each pod's spec."},
    {"KUBECONFIG", group_pods, SETTING_STRING, FIELD(kubeconfig), .fallback = "", LIMITS(0, 4096),
     .help = "A kubeconfig file, whose current context says where the API server is and who we are. Unset: "
             "the service account of the pod that the router runs in."},
    {"KUBE_API_URL", group_pods, SETTING_URL, FIELD(kube_api_url), .fallback = "", LIMITS(0, 1024),
     .choices = "http|https",
     .help = "The API server without credentials, as `kubectl proxy` gives it: http://127.0.0.1:8001. Wins "
             "over KUBECONFIG."},
    {"KUBERNETES_SERVICE_HOST", group_pods, SETTING_STRING, FIELD(kubernetes_service_host), .fallback = "",
     LIMITS(0, 255), .help = "The API server, as Kubernetes itself tells its pods."},
    {"KUBERNETES_SERVICE_PORT", group_pods, SETTING_PORT, FIELD(kubernetes_service_port), .fallback = "443",
     LIMITS(1, 65535), .help = "Its port, likewise."},
    {"SERVICE_ACCOUNT_DIR", group_pods, SETTING_STRING, FIELD(service_account_dir),
     .fallback = "/var/run/secrets/kubernetes.io/serviceaccount", LIMITS(1, 1024),
     .help = "Where Kubernetes puts the token and the certificate of the service account."},
    {"MARK_BUSY_PODS", group_pods, SETTING_BOOL, FIELD(mark_busy_pods), .fallback = "true",
     .help = "Annotate Kubernetes pods while they carry calls, so that scaling down takes idle ones first. "
             "Needs the right to patch pods; without it a warning says so. false: annotations of earlier "
             "routers are taken off."},

    /* Voice agents */
    {"VOICE_AGENT_BASE_URL", group_agents, SETTING_URL, FIELD(voice_agent_base_url),
     .fallback = "ws://localhost:8080", LIMITS(1, 1024), .choices = "ws|wss",
     .help = "`{base}` of the URLs that callers are sent to."},
    {"WS_URL_TEMPLATE", group_agents, SETTING_STRING, FIELD(ws_url_template), .fallback = DEFAULT_TEMPLATE,
     LIMITS(1, 1024),
     .help = "The URL of a call's pod. Also `{call_sid}`, `{merchant}`, `{ticket}`; each value is "
             "percent-encoded. With GATEWAY_SECRET a template without `{ticket}` gets it after "
             "`/ws/pod/{pod}`, the only place there where the gateway finds it."},
    {"BUSY_MESSAGE", group_agents, SETTING_STRING, FIELD(busy_message),
     .fallback = "All agents are currently busy. Please try again later.", LIMITS(1, 1000),
     .help = "What Twilio and Plivo say to a caller who gets no pod."},
    {"FALLBACK_WS_URL", group_agents, SETTING_URL, FIELD(fallback_ws_url), .fallback = "", LIMITS(0, 2048),
     .choices = "ws|wss",
     .help = "Where a call goes that gets no pod, or whose store is down, instead of the busy message."},
    {"VOICE_AGENT_PORT", group_agents, SETTING_PORT, FIELD(voice_agent_port), .fallback = "8000",
     LIMITS(1, 65535), .help = "Where voice agents listen on Kubernetes."},

    /* Gateway */
    {"GATEWAY_SECRET", group_gateway, SETTING_STRING, .is_secret = true, FIELD(gateway_secret),
     .fallback = "", LIMITS(0, 4096),
     .help = "Signs the tickets in the URLs of calls; without a valid one the gateway refuses. Two secrets, "
             "separated by a comma: the first signs, both are valid. Unset: no tickets."},
    {"GATEWAY_RELEASE_GRACE", group_gateway, SETTING_DURATION, FIELD(gateway_release_grace_ms),
     .fallback = "5s", LIMITS(0, HOUR),
     .help = "How long a call whose last gateway connection closed may take to come back before it is "
             "released."},
    {"GATEWAY_IDLE_TIMEOUT", group_gateway, SETTING_DURATION, FIELD(gateway_idle_timeout_ms),
     .fallback = "60s", LIMITS(100 * MS, DAY),
     .help = "A gateway connection without a byte in either direction for this long is closed."},
    {"GATEWAY_CONNECT_TIMEOUT", group_gateway, SETTING_DURATION, FIELD(gateway_connect_timeout_ms),
     .fallback = "2s", LIMITS(10 * MS, MINUTE),
     .help = "How long a pod may take to accept a connection before its call moves to another one; it has "
             "five times as long to answer the handshake."},
    {"GATEWAY_DRAIN_TIMEOUT", group_gateway, SETTING_DURATION, FIELD(gateway_drain_timeout_ms),
     .fallback = "", LIMITS(0, 30 * DAY),
     .help =
         "How long open gateway connections may go on after SIGTERM and SHUTDOWN_DELAY before they are "
         "cut; never less than HTTP_SHUTDOWN_TIMEOUT. Unset: CALL_MAX_DURATION if another router is alive "
         "on the same Redis, else 0."},
    {"GATEWAY_MAX", group_gateway, SETTING_UINT, FIELD(gateway_max), .fallback = "10000", LIMITS(1, 1000000),
     .help = "Gateway connections open at once; more get 503. Each takes two file descriptors."},
    {"GATEWAY_STREAMS_PER_CALL", group_gateway, SETTING_UINT, FIELD(gateway_streams_per_call),
     .fallback = "2", LIMITS(1, 1000),
     .help =
         "Gateway connections of one call open at once at this router. One more takes the place of one whose "
         "client has been silent for 5 s, or gets 429."},

    /* Tiers */
    {"TIER_CONFIG", group_tiers, SETTING_JSON, FIELD(tier_config), .fallback = "", LIMITS(0, 60 * 1024),
     .help = "The tiers of a store that is still empty; afterwards the stored ones count (PUT "
             "/api/v1/tiers). Unset: gold exclusive 1, standard exclusive 1, basic shared 1 with 3 calls. "
             "docs/TIERS.md has the forms."},
    {"TIER_REFRESH_INTERVAL", group_tiers, SETTING_DURATION, FIELD(tier_refresh_interval_ms),
     .fallback = "30s", LIMITS(100 * MS, DAY),
     .help = "How often tiers that another router may have changed are read again."},

    /* Calls and background work */
    {"LEASE_TTL", group_calls, SETTING_DURATION, FIELD(lease_ttl_ms), .fallback = "15m",
     LIMITS(100 * MS, 30 * DAY),
     .help = "How long a call that somebody keeps alive holds its pod after each renewal."},
    {"CALL_MAX_DURATION", group_calls, SETTING_DURATION, FIELD(call_max_duration_ms), .fallback = "4h",
     LIMITS(100 * MS, 30 * DAY),
     .help = "How long a call that nobody renews holds its pod. Unset, it is never less than LEASE_TTL."},
    {"CALL_INFO_TTL", group_calls, SETTING_DURATION, FIELD(call_info_ttl_ms), .fallback = "1h",
     LIMITS(100 * MS, 30 * DAY), .help = "How long a call's record is kept; never less than LEASE_TTL."},
    {"CONNECT_TIMEOUT", group_calls, SETTING_DURATION, FIELD(connect_timeout_ms), .fallback = "0",
     LIMITS(0, DAY), .help = "A call that nobody renewed within this time is ended. 0: off."},
    {"DRAINING_TTL", group_calls, SETTING_DURATION, FIELD(draining_ttl_ms), .fallback = "6m",
     LIMITS(100 * MS, 30 * DAY), .help = "How long a drain lasts that does not say so itself."},
    {"CLEANUP_INTERVAL", group_calls, SETTING_DURATION, FIELD(cleanup_interval_ms), .fallback = "30s",
     LIMITS(10 * MS, DAY),
     .help = "How often calls whose lease expired are ended and lost pods brought back."},
    {"RECONCILE_INTERVAL", group_calls, SETTING_DURATION, FIELD(reconcile_interval_ms), .fallback = "60s",
     LIMITS(10 * MS, DAY), .help = "How often all pods are compared with their source, and rebalanced."},

    /* Leader election */
    {"LEADER_ELECTION_ENABLED", group_leader, SETTING_BOOL, FIELD(leader_election_enabled),
     .fallback = "true", .help = "false: this process leads. With the embedded store it always does."},
    {"LEADER_ELECTION_NAMESPACE", group_leader, SETTING_STRING, FIELD(leader_election_namespace),
     .fallback = "", LIMITS(0, 63), .help = "Where the Lease is. Unset: NAMESPACE."},
    {"LEADER_ELECTION_LOCK_NAME", group_leader, SETTING_STRING, FIELD(leader_election_lock_name),
     .fallback = "smart-router-leader", LIMITS(1, 253), .help = "The Lease's name."},
    {"LEADER_ELECTION_DURATION", group_leader, SETTING_DURATION, FIELD(leader_election_duration_ms),
     .fallback = "15s", LIMITS(SECOND, HOUR),
     .help = "How long others wait for a leader that is silent; more than the renew deadline."},
    {"LEADER_ELECTION_RENEW_DEADLINE", group_leader, SETTING_DURATION,
     FIELD(leader_election_renew_deadline_ms), .fallback = "10s", LIMITS(100 * MS, HOUR),
     .help = "A leader that cannot renew for this long stops leading; more than 1.2 retry periods."},
    {"LEADER_ELECTION_RETRY_PERIOD", group_leader, SETTING_DURATION, FIELD(leader_election_retry_period_ms),
     .fallback = "2s", LIMITS(10 * MS, HOUR), .help = "Time between two tries to become leader or to renew."},

    /* Security */
    {"TLS_CERT_FILE", group_security, SETTING_STRING, FIELD(tls_cert_file), .fallback = "", LIMITS(0, 4096),
     .help = "The certificate of the TLS listener and its chain, in PEM form; read again on SIGHUP. Unset: "
             "there is no TLS listener."},
    {"TLS_KEY_FILE", group_security, SETTING_STRING, FIELD(tls_key_file), .fallback = "", LIMITS(0, 4096),
     .help = "Its private key, in PEM form and not encrypted; read again on SIGHUP."},
    {"TLS_PORT", group_security, SETTING_PORT, FIELD(tls_port), .fallback = "8443", LIMITS(0, 65535),
     .help = "Where API and gateway listen with TLS, beside HTTP_PORT. 0 picks a free port and logs it."},
    {"TLS_BIND", group_security, SETTING_STRING, FIELD(tls_bind), .fallback = "", LIMITS(0, 45),
     .help = "The one address at which TLS_PORT listens. Unset: HTTP_BIND."},
    {"API_KEY", group_security, SETTING_STRING, .is_secret = true, FIELD(api_key), .fallback = "",
     LIMITS(0, 16 * 1025),
     .help =
         "What clients of /api/v1 must send as `Authorization: Bearer`, but for the health routes and the "
         "webhooks of providers. Several keys are separated by commas: up to 16 of 1 to 1024 printable "
         "ASCII characters. Each has all rights. Unset, and without API_KEYS: anybody may use the API."},
    {"API_KEYS", group_security, SETTING_LINES, .is_secret = true, FIELD(api_keys), .fallback = "",
     LIMITS(0, 64 * 1024),
     .help =
         "Keys with names and roles, best in a file (API_KEYS_FILE): one per line, `name role secret`. "
         "Roles: admin, call, agent or agent=voice-agent-*, metrics, read; SECURITY.md says what each "
         "may do. Names have 1 to " LIMIT_TEXT(KEY_NAME_MAX) " of A-Z a-z 0-9 . _ - ; at most " LIMIT_TEXT(
             KEYS_MAX) " keys. "
                       "Lines that begin with # do not count."},
    {"TWILIO_AUTH_TOKEN", group_security, SETTING_STRING, .is_secret = true, FIELD(twilio_auth_token),
     .fallback = "", LIMITS(0, 16 * 1025),
     .help =
         "The account's auth token: Twilio's webhooks must be signed with it, else 403. Several, separated "
         "by commas: any may have signed. Unset: anybody may send webhooks."},
    {"PLIVO_AUTH_TOKEN", group_security, SETTING_STRING, .is_secret = true, FIELD(plivo_auth_token),
     .fallback = "", LIMITS(0, 16 * 1025), .help = "The same for Plivo's webhooks (signature V3)."},
    {"EXOTEL_TOKEN", group_security, SETTING_STRING, .is_secret = true, FIELD(exotel_token), .fallback = "",
     LIMITS(0, 16 * 1025),
     .help =
         "Exotel signs nothing: its webhooks must carry this, as `?token=` in the URL or as Basic "
         "authentication (`user:password`, or the password alone), else 403. Several, separated by commas. "
         "Unset: anybody may send webhooks."},
    {"PUBLIC_BASE_URL", group_security, SETTING_URL, FIELD(public_base_url), .fallback = "", LIMITS(0, 1024),
     .choices = "http|https",
     .help = "How providers reach this router, with the path that a proxy takes off, if any; part of what "
             "they sign. Unset: from the request, and from the X-Forwarded headers of TRUSTED_PROXIES."},
    {"TRUSTED_PROXIES", group_security, SETTING_STRING, FIELD(trusted_proxies), .fallback = "",
     LIMITS(0, 8 * 1024),
     .help = "Proxies whose X-Forwarded-For, -Proto and -Host are believed: addresses and blocks, as "
             "`10.0.0.0/8,2001:db8::/32`. Unset: nobody's."},
    {"RATE_LIMIT", group_security, SETTING_STRING, FIELD(rate_limit), .fallback = "", LIMITS(0, 32),
     .help =
         "How many calls one client address may ask pods for: `10/s`, `600/m` or `3600/h`, and as many at "
         "once; then 429, on which a provider goes to its fallback URL. Providers send all their calls from "
         "a few addresses; behind a proxy set TRUSTED_PROXIES. Unset: no limit."},

    /* Logging */
    {"LOG_LEVEL", group_log, SETTING_ENUM, FIELD(log_level), .fallback = "info",
     .choices = "debug|info|warn|error", .help = "The least important lines that are written."},
    {"LOG_FORMAT", group_log, SETTING_ENUM, FIELD(log_format), .fallback = "json", .choices = "json|console",
     .help = "One JSON object per line, or text for a person's eyes."},
};

const size_t config_table_len = ARRAY_LEN(config_table);
