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
static const char group_waiting[] = "Waiting and rescue";
static const char group_tiers[] = "Tiers";
static const char group_calls[] = "Calls and background work";
static const char group_leader[] = "Leader election";
static const char group_security[] = "Security";
static const char group_log[] = "Logging";

const struct setting config_table[] = {
    /* HTTP */
    {"HTTP_PORT", group_http, SETTING_PORT, FIELD(http_port), .fallback = "8080", LIMITS(0, 65535),
     .help = "The port of the API. 0: the router takes a free port and logs it."},
    {"METRICS_PORT", group_http, SETTING_PORT, FIELD(metrics_port), .fallback = "9090", LIMITS(0, 65535),
     .help =
         "The port of /metrics and the health routes alone. 0: the router takes a free port and logs it."},
    {"HTTP_BIND", group_http, SETTING_STRING, FIELD(http_bind), .fallback = "", LIMITS(0, 45),
     .help = "The one address of the API's listener: `127.0.0.1`, `10.0.0.5`, `::1`. Unset: all addresses."},
    {"METRICS_BIND", group_http, SETTING_STRING, FIELD(metrics_bind), .fallback = "", LIMITS(0, 45),
     .help = "The same for METRICS_PORT. Unset: HTTP_BIND."},
    {"HTTP_READ_TIMEOUT", group_http, SETTING_DURATION, FIELD(http_read_timeout_ms), .fallback = "5s",
     LIMITS(10 * MS, HOUR),
     .help = "The time that a client has to send its header, and again to send its body. Then it gets 408."},
    {"HTTP_WRITE_TIMEOUT", group_http, SETTING_DURATION, FIELD(http_write_timeout_ms), .fallback = "10s",
     LIMITS(10 * MS, HOUR),
     .help = "The time that a client has to read its answer. Then the router closes the connection."},
    {"HTTP_IDLE_TIMEOUT", group_http, SETTING_DURATION, FIELD(http_idle_timeout_ms), .fallback = "60s",
     LIMITS(10 * MS, DAY), .help = "The time that a connection may be idle between two requests."},
    {"HTTP_SHUTDOWN_TIMEOUT", group_http, SETTING_DURATION, FIELD(http_shutdown_timeout_ms),
     .fallback = "30s", LIMITS(0, HOUR),
     .help = "The time that requests in flight have to finish after the router stopped accepting "
             "connections. It is also the least time that gateway connections get. After SIGINT or a second "
             "signal they get no more than this."},
    {"SHUTDOWN_DELAY", group_http, SETTING_DURATION, FIELD(shutdown_delay_ms), .fallback = "5s",
     LIMITS(0, HOUR),
     .help = "After SIGTERM the router accepts and answers all requests for this time, while /ready answers "
             "503. It must be longer than load balancers take to notice that."},
    {"MAX_CONNECTIONS", group_http, SETTING_UINT, FIELD(max_connections), .fallback = "10000",
     LIMITS(1, 1000000),
     .help = "The limit of open connections. At the limit, the router closes the connection that has been "
             "idle longest for a new one, then one that is slow to send its request or does not read its "
             "answer. If there is none, a new connection gets 503; /health and /ready are still answered."},
    {"MAX_CONNECTIONS_PER_CLIENT", group_http, SETTING_UINT, FIELD(max_connections_per_client),
     .fallback = "0", LIMITS(0, 1000000),
     .help = "The limit of open connections from one address (IPv6: one /64); further ones get 503. "
             "Addresses in TRUSTED_PROXIES do not count. Put your load balancer there, because all clients "
             "behind it have its address. Gateway streams and TLS handshakes do not count either: see "
             "GATEWAY_MAX, GATEWAY_STREAMS_PER_CALL and docs/TLS.md. 0: no limit."},

    /* Store */
    {"DATA_DIR", group_store, SETTING_STRING, FIELD(data_dir), .fallback = "./data", LIMITS(1, 4000),
     .help = "The directory of the embedded store's log and snapshots. The router creates it if it is "
             "missing. Only the router's user should be able to write to it."},
    {"LOG_FSYNC", group_store, SETTING_ENUM, FIELD(log_fsync), .fallback = "everysec",
     .choices = "always|everysec|no",
     .help = "When the embedded store's log is forced to the disk: before each answer, once a second, or "
             "when the kernel decides. A crash of the router alone loses nothing in any mode."},
    {"REDIS_URL", group_store, SETTING_STRING, .is_secret = true, FIELD(redis_url), .fallback = "",
     LIMITS(0, 4096),
     .help = "The Redis that several routers share: redis://[user:password@]host[:port][,host[:port]…][/db], "
             "several of these with commas, or unix:///path. rediss:// is the same over TLS. Several hosts "
             "are nodes of a Redis Cluster, or "
             "a master and its replicas. Unset: the embedded store."},
    {"REDIS_SENTINELS", group_store, SETTING_STRING, FIELD(redis_sentinels), .fallback = "", LIMITS(0, 4096),
     .help = "The sentinels of the Redis master, as host:port,host:port. User, password and database come "
             "from REDIS_URL."},
    {"REDIS_MASTER_NAME", group_store, SETTING_STRING, FIELD(redis_master_name), .fallback = "mymaster",
     LIMITS(1, 256), .help = "The name of the master at the sentinels."},
    {"REDIS_SENTINEL_USERNAME", group_store, SETTING_STRING, FIELD(redis_sentinel_username), .fallback = "",
     LIMITS(0, 256), .help = "The user name for the sentinels, if they have users."},
    {"REDIS_SENTINEL_PASSWORD", group_store, SETTING_STRING, .is_secret = true,
     FIELD(redis_sentinel_password), .fallback = "", LIMITS(0, 4096),
     .help = "The password for the sentinels. The password of the master is in REDIS_URL."},
    {"REDIS_SENTINEL_TLS", group_store, SETTING_BOOL, FIELD(redis_sentinel_tls), .fallback = "true",
     .help = "With rediss:// in REDIS_URL, the router speaks TLS with the sentinels, too. false: only with "
             "Redis itself."},
    {"REDIS_TLS_CA_FILE", group_store, SETTING_STRING, FIELD(redis_tls_ca_file), .fallback = "",
     LIMITS(0, 4096),
     .help = "With rediss://: the certificates, in PEM form, of those whom the router trusts to sign the "
             "certificates of Redis. The router reads this and the next two files again on SIGHUP. Unset: "
             "the certificates that the system trusts."},
    {"REDIS_TLS_CERT_FILE", group_store, SETTING_STRING, FIELD(redis_tls_cert_file), .fallback = "",
     LIMITS(0, 4096),
     .help = "The router's own certificate with its chain, in PEM form, for a Redis that demands client "
             "certificates. Unset: none."},
    {"REDIS_TLS_KEY_FILE", group_store, SETTING_STRING, FIELD(redis_tls_key_file), .fallback = "",
     LIMITS(0, 4096), .help = "The private key of that certificate, in PEM form and not encrypted."},
    {"REDIS_TLS_SERVER_NAME", group_store, SETTING_STRING, FIELD(redis_tls_server_name), .fallback = "",
     LIMITS(0, 253),
     .help = "The name that the certificates of Redis and of the sentinels must have. For sentinels and "
             "clusters that name their servers by addresses which are not in the certificates. Unset: the "
             "host that the router connects to."},
    {"REDIS_POOL_SIZE", group_store, SETTING_UINT, SETTING_INERT, FIELD(redis_pool_size), .fallback = "10",
     LIMITS(1, 1000),
     .help = "The number of connections to Redis. The router always uses one; it is pipelined, and as fast "
             "as eight."},
    {"REDIS_MIN_IDLE_CONN", group_store, SETTING_UINT, SETTING_INERT, FIELD(redis_min_idle_conn),
     .fallback = "5", LIMITS(0, 1000),
     .help = "The number of idle connections to Redis. The router's one connection always stays open."},
    {"REDIS_MAX_RETRIES", group_store, SETTING_UINT, SETTING_INERT, FIELD(redis_max_retries), .fallback = "3",
     LIMITS(0, 100),
     .help = "The number of retries of a command that failed on its way to Redis. Such a request fails at "
             "once, and its client may retry."},
    {"REDIS_TIMEOUT", group_store, SETTING_DURATION, FIELD(redis_timeout_ms), .fallback = "2s",
     LIMITS(10 * MS, MINUTE), .help = "The time to wait for an answer of Redis."},
    {"REDIS_WAIT_REPLICAS", group_store, SETTING_UINT, FIELD(redis_wait_replicas), .fallback = "0",
     LIMITS(0, 100),
     .help = "The number of Redis replicas that must have an allocation or a release before the router "
             "answers. With the number of all replicas, a planned failover loses nothing; while a replica is "
             "down, the answer is 503."},
    {"KEY_PREFIX", group_store, SETTING_STRING, FIELD(key_prefix), .fallback = "voice:", LIMITS(1, 64),
     .help =
         "The beginning of every key in Redis. `{voice}:` puts all keys into one slot of a Redis Cluster."},

    /* Pods */
    {"POD_SOURCE", group_pods, SETTING_ENUM, FIELD(pod_source), .fallback = "",
     .choices = "api|static|kubernetes",
     .help = "The source of the list of pods: pods register themselves (api), STATIC_PODS (static), or "
             "Kubernetes (kubernetes). Unset: static if STATIC_PODS is set; otherwise kubernetes if "
             "KUBECONFIG, KUBE_API_URL or a service account is there; otherwise api. Pods of a list that an "
             "earlier POD_SOURCE used are removed RECONCILE_INTERVAL after the start, and their calls end."},
    {"STATIC_PODS", group_pods, SETTING_STRING, FIELD(static_pods_text), .fallback = "",
     LIMITS(0, 128 * 1024),
     .help =
         "Pods by name and address: `voice-agent-0=127.0.0.1:9000,voice-agent-1`. The address is optional."},
    {"HEARTBEAT_TTL", group_pods, SETTING_DURATION, FIELD(heartbeat_ttl_ms), .fallback = "90s",
     LIMITS(100 * MS, DAY),
     .help = "A pod that registered itself is removed if it sends no heartbeat for this time."},
    {"POD_ADDRESS_ALLOW", group_pods, SETTING_STRING, FIELD(pod_address_allow), .fallback = "",
     LIMITS(0, 8 * 1024),
     .help = "The allowed addresses of pods that register themselves: addresses and blocks, as "
             "`10.0.0.0/8,fd00::/8`. The router checks the address after it has resolved a name. Unset: all "
             "addresses except link-local, unspecified and multicast ones; loopback only if the registration "
             "itself came from loopback."},
    {"POD_NAME", group_pods, SETTING_STRING, FIELD(pod_name), .fallback = "smart-router-local",
     LIMITS(1, 253), .help = "The name of this router, as the status shows it."},
    {"NAMESPACE", group_pods, SETTING_STRING, FIELD(namespace_name), .fallback = "default", LIMITS(1, 63),
     .help = "The Kubernetes namespace of the pods."},
    {"POD_LABEL_SELECTOR", group_pods, SETTING_STRING, FIELD(pod_label_selector),
     .fallback = "app=voice-agent", LIMITS(1, 1024),
     .help = "Selects the pods of the namespace that are voice agents."},
    {"VOICE_AGENT_CONTAINER", group_pods, SETTING_STRING, FIELD(voice_agent_container), .fallback = "",
     LIMITS(0, 63),
     .help = "The container of the agent in those pods. When this container restarts, its calls end. "
             "Restarts of other containers have no effect. Unset: the first container of each pod's spec."},
    {"KUBECONFIG", group_pods, SETTING_STRING, FIELD(kubeconfig), .fallback = "", LIMITS(0, 4096),
     .help = "A kubeconfig file. Its current context has the address of the API server and the credentials. "
             "Unset: the service account of the router's own pod."},
    {"KUBE_API_URL", group_pods, SETTING_URL, FIELD(kube_api_url), .fallback = "", LIMITS(0, 1024),
     .choices = "http|https",
     .help = "The address of an API server that needs no credentials, such as `kubectl proxy`: "
             "http://127.0.0.1:8001. It takes precedence over KUBECONFIG."},
    {"KUBERNETES_SERVICE_HOST", group_pods, SETTING_STRING, FIELD(kubernetes_service_host), .fallback = "",
     LIMITS(0, 255), .help = "The host of the API server. Kubernetes sets it in every pod."},
    {"KUBERNETES_SERVICE_PORT", group_pods, SETTING_PORT, FIELD(kubernetes_service_port), .fallback = "443",
     LIMITS(1, 65535), .help = "The port of the API server. Kubernetes sets it in every pod."},
    {"SERVICE_ACCOUNT_DIR", group_pods, SETTING_STRING, FIELD(service_account_dir),
     .fallback = "/var/run/secrets/kubernetes.io/serviceaccount", LIMITS(1, 1024),
     .help = "The directory of the service account's token and certificate."},
    {"AUTOSCALE_KIND", group_pods, SETTING_ENUM, FIELD(autoscale_kind), .fallback = "deployment",
     .choices = "deployment|statefulset",
     .help =
         "The kind of workload that an autoscaler changes (docs/SCALING.md). statefulset: the leader drains "
         "pods with ordinals above the wanted number, and that number stays above the ordinals with live "
         "calls."},
    {"MARK_BUSY_PODS", group_pods, SETTING_BOOL, FIELD(mark_busy_pods), .fallback = "true",
     .help = "The router annotates Kubernetes pods while they have calls, so that scaling down removes idle "
             "pods first. It needs the right to patch pods; without that right it logs an error. false: the "
             "router removes the annotations of earlier routers."},

    /* Voice agents */
    {"VOICE_AGENT_BASE_URL", group_agents, SETTING_URL, FIELD(voice_agent_base_url),
     .fallback = "ws://localhost:8080", LIMITS(1, 1024), .choices = "ws|wss",
     .help = "`{base}` in the URLs of calls. Unset: PUBLIC_BASE_URL with ws or wss in place of http or "
             "https, if that is set."},
    {"WS_URL_TEMPLATE", group_agents, SETTING_STRING, FIELD(ws_url_template), .fallback = DEFAULT_TEMPLATE,
     LIMITS(1, 1024),
     .help = "The URL of a call's pod. `{call_sid}`, `{merchant}` and `{ticket}` are possible too. Each "
             "value is percent-encoded. If GATEWAY_SECRET is set and the template has no `{ticket}`, the "
             "router inserts it after `/ws/pod/{pod}`, because the gateway expects it there."},
    {"BUSY_MESSAGE", group_agents, SETTING_STRING, FIELD(busy_message),
     .fallback = "All agents are currently busy. Please try again later.", LIMITS(1, 1000),
     .help = "The text that Twilio and Plivo read to a caller who gets no pod."},
    {"FALLBACK_WS_URL", group_agents, SETTING_URL, FIELD(fallback_ws_url), .fallback = "", LIMITS(0, 2048),
     .choices = "ws|wss",
     .help = "The URL for a call that gets no pod, or whose store is down, instead of the busy message."},
    {"VOICE_AGENT_PORT", group_agents, SETTING_PORT, FIELD(voice_agent_port), .fallback = "8000",
     LIMITS(1, 65535), .help = "The port of voice agents on Kubernetes."},

    /* Gateway */
    {"GATEWAY_SECRET", group_gateway, SETTING_STRING, .is_secret = true, FIELD(gateway_secret),
     .fallback = "", LIMITS(0, 4096),
     .help = "The secret that signs the tickets in the URLs of calls. The gateway refuses a connection "
             "without a valid ticket. Two secrets are separated by a comma: the first one signs, both are "
             "valid. Unset: no tickets."},
    {"GATEWAY_RELEASE_GRACE", group_gateway, SETTING_DURATION, FIELD(gateway_release_grace_ms),
     .fallback = "5s", LIMITS(0, HOUR),
     .help = "After the last gateway connection of a call has closed, the router waits for a new one for "
             "this time. Then it releases the call."},
    {"GATEWAY_IDLE_TIMEOUT", group_gateway, SETTING_DURATION, FIELD(gateway_idle_timeout_ms),
     .fallback = "60s", LIMITS(100 * MS, DAY),
     .help = "The router closes a gateway connection that has carried no byte in either direction for this "
             "time."},
    {"GATEWAY_CONNECT_TIMEOUT", group_gateway, SETTING_DURATION, FIELD(gateway_connect_timeout_ms),
     .fallback = "2s", LIMITS(10 * MS, MINUTE),
     .help = "The time that a pod has to accept a connection. Then its call moves to another pod. A pod has "
             "five times as long to answer the handshake."},
    {"GATEWAY_DRAIN_TIMEOUT", group_gateway, SETTING_DURATION, FIELD(gateway_drain_timeout_ms),
     .fallback = "", LIMITS(0, 30 * DAY),
     .help = "The time that open gateway connections may continue after SIGTERM and SHUTDOWN_DELAY. Then the "
             "router closes them. It is never less than HTTP_SHUTDOWN_TIMEOUT. Unset: CALL_MAX_DURATION if "
             "another router uses the same Redis, otherwise 0."},
    {"GATEWAY_MAX", group_gateway, SETTING_UINT, FIELD(gateway_max), .fallback = "10000", LIMITS(1, 1000000),
     .help = "The limit of open gateway connections; further ones get 503. Each connection uses two file "
             "descriptors."},
    {"GATEWAY_STREAMS_PER_CALL", group_gateway, SETTING_UINT, FIELD(gateway_streams_per_call),
     .fallback = "2", LIMITS(1, 1000),
     .help = "The limit of open gateway connections of one call at this router. A further one replaces a "
             "connection whose client has been silent for 5 s. If there is none, it gets 429."},

    /* Waiting and rescue */
    {"HOLD_MAX_WAIT", group_waiting, SETTING_DURATION, FIELD(hold_max_wait_ms), .fallback = "0",
     LIMITS(0, HOUR),
     .help = "A call that finds no pod waits for one for this time at most. A merchant's `hold_seconds` "
             "takes its place. 0: such calls are refused at once. docs/WAITING.md describes waiting."},
    {"HOLD_MAX_CALLS", group_waiting, SETTING_UINT, FIELD(hold_max_calls), .fallback = "1000",
     LIMITS(1, 100000),
     .help = "The limit of calls that wait at once; further ones are refused. A merchant's `max_waiting` "
             "limits its own calls."},
    {"HOLD_AGEING", group_waiting, SETTING_DURATION, FIELD(hold_ageing_ms), .fallback = "", LIMITS(0, HOUR),
     .help = "One step of a merchant's `priority` is worth this time of waiting. Unset: HOLD_MAX_WAIT "
             "divided by 20. 0: `priority` has no effect."},
    {"HOLD_AUDIO", group_waiting, SETTING_STRING, FIELD(hold_audio), .fallback = "", LIMITS(0, 4096),
     .help = "The WAV file that a waiting caller hears: mono, 8 kHz, mu-law or 16-bit PCM, 0.1 to 60 s. "
             "It is read at start; with a file that cannot be used the router does not start. Unset: a "
             "soft tone."},
    {"RESCUE", group_waiting, SETTING_BOOL, FIELD(rescue), .fallback = "true",
     .help = "A call whose pod breaks moves to another pod while the caller hears HOLD_AUDIO, and a call "
             "whose router stops resumes with the provider's next request. It needs GATEWAY_SECRET; "
             "resuming also needs PUBLIC_BASE_URL. false: both are off, and providers get the shortest "
             "answers."},

    /* Tiers */
    {"TIER_CONFIG", group_tiers, SETTING_JSON, FIELD(tier_config), .fallback = "", LIMITS(0, 60 * 1024),
     .help = "The tiers for a store that is still empty. Afterwards the stored tiers count (PUT "
             "/api/v1/tiers): if they differ, the router warns at start and says how to apply this text. A "
             "member that is unknown is ignored with a warning. Unset: gold exclusive 1, standard exclusive "
             "1, basic shared 1 with 3 calls. docs/TIERS.md describes the forms."},
    {"TIER_REFRESH_INTERVAL", group_tiers, SETTING_DURATION, FIELD(tier_refresh_interval_ms),
     .fallback = "30s", LIMITS(100 * MS, DAY),
     .help = "The interval at which the router reads the tiers again, because another router may have "
             "changed them."},

    /* Calls and background work */
    {"LEASE_TTL", group_calls, SETTING_DURATION, FIELD(lease_ttl_ms), .fallback = "15m",
     LIMITS(100 * MS, 30 * DAY), .help = "A call holds its pod for this time after each renewal."},
    {"CALL_MAX_DURATION", group_calls, SETTING_DURATION, FIELD(call_max_duration_ms), .fallback = "4h",
     LIMITS(100 * MS, 30 * DAY),
     .help = "A call that was never renewed holds its pod for this time. Unset, it is never less than "
             "LEASE_TTL."},
    {"CALL_INFO_TTL", group_calls, SETTING_DURATION, FIELD(call_info_ttl_ms), .fallback = "1h",
     LIMITS(100 * MS, 30 * DAY),
     .help = "The router keeps the record of a call for this time; never less than LEASE_TTL."},
    {"CONNECT_TIMEOUT", group_calls, SETTING_DURATION, FIELD(connect_timeout_ms), .fallback = "0",
     LIMITS(0, DAY),
     .help = "A call that is not renewed within this time after its allocation ends. 0: off."},
    {"DRAINING_TTL", group_calls, SETTING_DURATION, FIELD(draining_ttl_ms), .fallback = "6m",
     LIMITS(100 * MS, 30 * DAY), .help = "The duration of a drain that names none."},
    {"CLEANUP_INTERVAL", group_calls, SETTING_DURATION, FIELD(cleanup_interval_ms), .fallback = "30s",
     LIMITS(10 * MS, DAY),
     .help =
         "The interval at which the router ends calls whose lease has expired and brings lost pods back."},
    {"RECONCILE_INTERVAL", group_calls, SETTING_DURATION, FIELD(reconcile_interval_ms), .fallback = "60s",
     LIMITS(10 * MS, DAY),
     .help =
         "The interval at which the router compares all pods with their source, and rebalances the tiers."},

    /* Leader election */
    {"LEADER_ELECTION_ENABLED", group_leader, SETTING_BOOL, FIELD(leader_election_enabled),
     .fallback = "true", .help = "false: this process leads. With the embedded store it always leads."},
    {"LEADER_ELECTION_NAMESPACE", group_leader, SETTING_STRING, FIELD(leader_election_namespace),
     .fallback = "", LIMITS(0, 63), .help = "The namespace of the Lease. Unset: NAMESPACE."},
    {"LEADER_ELECTION_LOCK_NAME", group_leader, SETTING_STRING, FIELD(leader_election_lock_name),
     .fallback = "smart-router-leader", LIMITS(1, 253), .help = "The name of the Lease."},
    {"LEADER_ELECTION_DURATION", group_leader, SETTING_DURATION, FIELD(leader_election_duration_ms),
     .fallback = "15s", LIMITS(SECOND, HOUR),
     .help = "The time that other routers wait for a leader that does not renew. It must be longer than the "
             "renew deadline."},
    {"LEADER_ELECTION_RENEW_DEADLINE", group_leader, SETTING_DURATION,
     FIELD(leader_election_renew_deadline_ms), .fallback = "10s", LIMITS(100 * MS, HOUR),
     .help =
         "A leader that cannot renew for this time stops leading. It must be longer than 1.2 retry periods."},
    {"LEADER_ELECTION_RETRY_PERIOD", group_leader, SETTING_DURATION, FIELD(leader_election_retry_period_ms),
     .fallback = "2s", LIMITS(10 * MS, HOUR),
     .help = "The time between two attempts to become the leader or to renew."},

    /* Security */
    {"TLS_CERT_FILE", group_security, SETTING_STRING, FIELD(tls_cert_file), .fallback = "", LIMITS(0, 4096),
     .help = "The certificate of the TLS listener with its chain, in PEM form. The router reads it again on "
             "SIGHUP. Unset: there is no TLS listener."},
    {"TLS_KEY_FILE", group_security, SETTING_STRING, FIELD(tls_key_file), .fallback = "", LIMITS(0, 4096),
     .help = "The private key of the certificate, in PEM form and not encrypted. The router reads it again "
             "on SIGHUP."},
    {"TLS_PORT", group_security, SETTING_PORT, FIELD(tls_port), .fallback = "8443", LIMITS(0, 65535),
     .help = "The port of API and gateway with TLS, beside HTTP_PORT. 0: the router takes a free port and "
             "logs it."},
    {"TLS_BIND", group_security, SETTING_STRING, FIELD(tls_bind), .fallback = "", LIMITS(0, 45),
     .help = "The one address of TLS_PORT's listener. Unset: HTTP_BIND."},
    {"API_KEY", group_security, SETTING_STRING, .is_secret = true, FIELD(api_key), .fallback = "",
     LIMITS(0, 16 * 1025),
     .help = "The key that clients of /api/v1 must send as `Authorization: Bearer`, except on the health "
             "routes and the providers' webhooks. Several keys are separated by commas: up to 16, each of 1 "
             "to 1024 printable ASCII characters. Each key has all rights. If API_KEYS is unset too, anyone "
             "can use the API."},
    {"API_KEYS", group_security, SETTING_LINES, .is_secret = true, FIELD(api_keys), .fallback = "",
     LIMITS(0, 64 * 1024),
     .help = "Keys with names and roles, best in a file (API_KEYS_FILE): one per line, `name role secret`. "
             "Roles: admin, call, agent or `agent=voice-agent-*`, metrics, read; SECURITY.md has their "
             "rights. A name has 1 to " LIMIT_TEXT(
                 KEY_NAME_MAX) " of the characters `A-Za-z0-9._-`. There "
                               "are at most " LIMIT_TEXT(
                                   KEYS_MAX) " keys. Lines that begin with `#` do not count."},
    {"TWILIO_AUTH_TOKEN", group_security, SETTING_STRING, .is_secret = true, FIELD(twilio_auth_token),
     .fallback = "", LIMITS(0, 16 * 1025),
     .help = "The account's auth token. Twilio's webhooks must be signed with it; others get 403. Several "
             "tokens are separated by commas; each of them is valid. Unset: anyone can send webhooks."},
    {"PLIVO_AUTH_TOKEN", group_security, SETTING_STRING, .is_secret = true, FIELD(plivo_auth_token),
     .fallback = "", LIMITS(0, 16 * 1025), .help = "The same for Plivo's webhooks (signature V3)."},
    {"EXOTEL_TOKEN", group_security, SETTING_STRING, .is_secret = true, FIELD(exotel_token), .fallback = "",
     LIMITS(0, 16 * 1025),
     .help = "Exotel does not sign its webhooks. They must contain this token, as `?token=` in the URL or as "
             "Basic authentication (`user:password`, or the password alone); others get 403. Several tokens "
             "are separated by commas. Unset: anyone can send webhooks."},
    {"PUBLIC_BASE_URL", group_security, SETTING_URL, FIELD(public_base_url), .fallback = "", LIMITS(0, 1024),
     .choices = "http|https",
     .help = "The URL that providers use for this router, with the path that a proxy removes, if there is "
             "one. Providers sign it. Unset: the router takes it from the request, and from the X-Forwarded "
             "headers of TRUSTED_PROXIES."},
    {"TRUSTED_PROXIES", group_security, SETTING_STRING, FIELD(trusted_proxies), .fallback = "",
     LIMITS(0, 8 * 1024),
     .help = "The proxies whose headers X-Forwarded-For, -Proto and -Host the router trusts: addresses and "
             "blocks, as `10.0.0.0/8,2001:db8::/32`. Unset: none."},
    {"RATE_LIMIT", group_security, SETTING_STRING, FIELD(rate_limit), .fallback = "", LIMITS(0, 32),
     .help = "The limit of allocations by one client address: `10/s`, `600/m` or `3600/h`, and as many at "
             "once. Further ones get 429; a provider then uses its fallback URL. Providers send all their "
             "calls from a few addresses. Behind a proxy, set TRUSTED_PROXIES. Unset: no limit."},

    /* Logging */
    {"LOG_LEVEL", group_log, SETTING_ENUM, FIELD(log_level), .fallback = "info",
     .choices = "debug|info|warn|error", .help = "The router writes lines of this level and above."},
    {"LOG_FORMAT", group_log, SETTING_ENUM, FIELD(log_format), .fallback = "json", .choices = "json|console",
     .help = "One JSON object per line, or text for people."},
};

const size_t config_table_len = ARRAY_LEN(config_table);
