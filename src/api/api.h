/*
 * api.h - the HTTP API: turns requests into commands for the store, and results into answers.
 *
 * It shares nothing with the other modules but the store. Loop thread only.
 */
#ifndef API_API_H
#define API_API_H

#include "api/secrets.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "http/forwarded.h"
#include "http/http.h"
#include "metrics/metrics.h"
#include "store/store.h"

struct api; /* opaque: see api_internal.h */

enum { API_TICKET_SIZE = 256 };

/* All strings are borrowed and must stay. */
struct api_settings {
    const char *base_url;        /* VOICE_AGENT_BASE_URL, without a slash at its end */
    const char *ws_url_template; /* WS_URL_TEMPLATE; valid, see api_check_template */
    const char *busy_message;
    const char *fallback_ws_url;     /* "" if there is none */
    const char *identity;            /* this process's name: POD_NAME */
    uv_loop_t *loop;                 /* borrowed; NULL: no events can be watched */
    const struct trusted *trusted;   /* TRUSTED_PROXIES, borrowed; NULL: nobody */
    const char *public_base_url;     /* PUBLIC_BASE_URL, without a slash at its end; NULL or "": not known */
    const char *rate_limit;          /* RATE_LIMIT, see rate_check; NULL or "": none */
    uint64_t heartbeat_ttl_ms;       /* HEARTBEAT_TTL */
    bool scales_sets;                /* AUTOSCALE_KIND=statefulset */
    bool rescues;                    /* RESCUE */
    uint64_t hold_max_wait_ms;       /* HOLD_MAX_WAIT */
    const struct trusted *pod_allow; /* POD_ADDRESS_ALLOW, borrowed; see http/address_rule.h */
    /*
     * Writes {ticket} of a URL, API_TICKET_SIZE bytes with its NUL at most; `path` is what stands behind it.
     * NULL: URLs have no tickets.
     */
    void (*make_ticket)(void *arg, const char *call_sid, const char *pod, struct slice path, char *ticket);
    void *make_ticket_arg;
    /* Adds members to GET /api/v1/diagnosis. NULL: none. */
    void (*put_facts)(void *arg, struct json_writer *json);
    void *put_facts_arg;
};

int api_new(const struct api_settings *settings, struct store *store, struct metrics *metrics,
            struct api **ret_api) MUST_CHECK;
struct api *api_free(struct api *api);

/*
 * Replaces all keys and tokens at once; they are copied. `api_keys` is the text of API_KEYS. -EINVAL (see
 * secrets_check and keys_new), -ENOMEM: nothing has changed. Until the first call there are none, and nothing
 * is checked. Requests that were let in before go on with the rights that they had.
 */
int api_set_secrets(struct api *api, const char *const texts[SECRET_KINDS], const char *api_keys) MUST_CHECK;

/*
 * Adds every route to `server`, and logs and counts its requests. When there are API keys, it guards /metrics
 * and everything under /api/v1 but the health routes and the webhooks of providers, and lets each key do what
 * its role allows.
 */
int api_serve(struct api *api, struct http_server *server) MUST_CHECK;

/* Adds /metrics and the health routes only, without asking for a key: for the listener on METRICS_PORT. */
int api_serve_metrics(struct api *api, struct http_server *server) MUST_CHECK;

/* On shutdown: /ready answers 503 from now on. All else is answered as before. */
void api_set_stopping(struct api *api);

/* Do calls of providers resume, as far as the settings decide? And does this provider ask by itself? */
bool api_resumes(const struct api *api);
bool api_provider_asks(const char *provider);

/*
 * On shutdown with a store of one's own: calls come back to the next process. From now on a provider that
 * asks where a call goes, or how it goes on (/api/v1/{provider}/after), is told to ask again when this
 * process has gone, in `delay_ms`.
 */
void api_set_departing(struct api *api, uint64_t delay_ms);

/*
 * Something happened to a call that this process holds: see store_on_changed. Requests that wait for it ask
 * the store again, later.
 */
void api_call_changed(struct api *api, const char *call_sid);

/* When no connection is accepted any more: ends the streams of events, the waits for drained pods and the
 * samples of the history. */
void api_end_watchers(struct api *api);

/* Before the servers are closed: their connections are not counted any more. */
void api_forget_servers(struct api *api);

/* The name of the leader, for the status. */
void api_set_leader(struct api *api, bool is_leader, const char *leader);

/* Adds every family of metrics of the API, for their list. 0 or -ENOMEM. */
int api_list_metrics(struct metrics *metrics) MUST_CHECK;

/* Appends a line for each route: its method, its path and the roles that may use it. */
void api_write_routes(struct strbuf *buf);

/* Appends the OpenAPI document of all routes. */
void api_write_openapi(struct strbuf *buf);

/* Is the URL template one that can be filled in? False, with a sentence in `error`. */
bool api_check_template(const char *ws_url_template, char *error, size_t error_size);

/* Do its URLs lead to the gateway, so that a call can wait there for its pod? */
bool api_template_can_hold(const char *ws_url_template);

#endif
