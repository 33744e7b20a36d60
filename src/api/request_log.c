/*
 * request_log.c - the log lines of requests: refused, failed and finished ones.
 */
#include "api/api_internal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "base/log_text.h"

void api_log_request(struct http_request *request, enum log_level level, const char *message, int status,
                     const char *error)
{
    struct slice method = http_request_method(request);
    struct arena *arena = http_request_arena(request);
    char path_text[LOG_CUT_SIZE];

    if (!log_enabled(level))
        return;
    LOG_AT(level, message, log_str("method", arena_copy(arena, method.data, method.len)),
           log_str("path", log_cut(path_text, http_request_path(request))), log_num("status", status),
           log_str("error", error), log_str("key", api_key_name(request)),
           log_str("peer", http_request_peer(request)), log_str("request_id", http_request_id(request)),
           log_str("traceparent", traceparent_text(request)),
           log_num("duration_us", (int64_t)((clock_elapsed_ns() - http_request_started_ns(request)) / 1000)));
}

void api_log_refused(struct http_request *request, int status, const char *error)
{
    /* Without a key, anybody can be refused as often as they like. */
    if (!api_key_name(request) &&
        !log_limit_passes(status == 401 ? LOG_OF_UNAUTHORIZED : LOG_OF_REFUSED, LOG_INFO))
        return;
    api_log_request(request, LOG_INFO, "request refused", status, error);
}

/*
 * Logs a request that nobody has logged yet. A handler that refuses logs it itself, with the reason
 * (api_refuse). Left are requests that the server refused before any handler, answers that failed,
 * and, at debug, requests that went well. A 503 is not logged either: its cause has been logged.
 */
static void api_request_log(struct http_request *request, const struct http_route *route, int status)
{
    bool is_refusal = (status >= 400 && status < 500) || status == 505;
    bool was_handled = http_request_was_handled(request);
    enum route_log log = route ? route->log : ROUTE_LOG_REQUEST;

    if (log == ROUTE_LOG_BY_MODULE)
        return;
    if (log == ROUTE_LOG_PROBE)
        api_log_request(request, status == 500 ? LOG_WARN : LOG_DEBUG, "request", status, NULL);
    else if (is_refusal && !was_handled)
        api_log_refused(request, status, NULL);
    else if (status >= 500 && status != 503 && !is_refusal)
        api_log_request(request, LOG_WARN, "request failed", status, NULL);
    else if (!is_refusal && !(was_handled && log == ROUTE_LOG_BY_ITSELF && status != 0))
        api_log_request(request, LOG_DEBUG, "request", status, NULL);
}

void api_request_done(struct http_request *request, const struct http_route *route, void *arg)
{
    struct api *api = arg;
    int status = http_request_status(request);
    uint64_t duration_ns = clock_elapsed_ns() - http_request_started_ns(request);

    instruments_answered(api->instruments, route, http_request_method(request), status,
                         http_request_was_held(request), duration_ns);
    api_request_log(request, route, status);
}
