/*
 * admit.c - may this client ask for a pod now? Asked before anything else is done for it.
 */
#include <stdio.h>

#include "api/api_internal.h"
#include "base/clock.h"

enum { LOG_PAUSE_MS = 10 * 1000 };

/* One line now and then: a flood must not fill the log as well. */
static void admit_log(struct api *api, const struct http_request *request, const char *client,
                      uint64_t now_ms)
{
    size_t refused;

    if (complaint_is_due(&api->limited, 1, now_ms, LOG_PAUSE_MS, &refused))
        log_warn("requests for pods refused: RATE_LIMIT", log_str("client", client),
                 log_num("refused", (int64_t)refused), log_str("request_id", http_request_id(request)));
}

bool api_admit(struct api *api, struct http_request *request)
{
    uint64_t now_ms = clock_elapsed_ms();
    struct forwarded from;
    char seconds[24];
    uint64_t wait_ms;

    if (!api->rate)
        return true;
    forwarded_read(api->settings.trusted, request, &from);
    wait_ms = rate_take(api->rate, from.client, now_ms);
    if (wait_ms == 0)
        return true;
    instruments_limited(api->instruments);
    admit_log(api, request, from.client, now_ms);
    snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)(wait_ms + 999) / 1000);
    http_response_header(request, "Retry-After", seconds);
    http_respond_error(request, 429, "too many calls from this address");
    return false;
}
