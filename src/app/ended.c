/*
 * ended.c - logs and counts each call that ended without a release, and passes it on to the
 * gateway.
 */
#include "app/ended.h"

#include <stdlib.h>

#include "base/log.h"

enum { ENDED_REASONS = CALL_END_UNMENTIONED + 1 };

struct ended {
    struct metrics_series *by_reason[ENDED_REASONS];
    call_over_fn tell;
    void *tell_arg;
};

static void ended_told(void *arg, const struct ended_call *call)
{
    struct ended *ended = arg;

    log_warn("call ended", log_str("call_sid", call->call_sid), log_str("pod", call->pod),
             log_str("pool", call->pool), log_str("merchant", call->merchant_id),
             log_str("reason", call_end_name(call->why)));
    metrics_add(ended->by_reason[call->why], 1);
    if (ended->tell)
        ended->tell(ended->tell_arg, call->call_sid);
}

void ended_also_tell(struct ended *ended, call_over_fn fn, void *arg)
{
    ended->tell = fn;
    ended->tell_arg = arg;
}

int ended_new(struct store *store, struct metrics *metrics, struct ended **ret_ended)
{
    static const char *const labels[] = {"reason"};
    struct metrics_family *family =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_calls_ended_total",
                       "Calls that ended without being released.", labels, 1, NULL, 0);
    struct ended *ended = calloc(1, sizeof(*ended));

    if (!family || !ended) {
        free(ended);
        return -ENOMEM;
    }
    for (int i = 0; i < ENDED_REASONS; i++) {
        const char *reason = call_end_name((enum call_end)i);

        ended->by_reason[i] = metrics_series(family, &reason);
    }
    store_on_ended(store, ended_told, ended);
    *ret_ended = ended;
    return 0;
}

struct ended *ended_free(struct ended *ended)
{
    free(ended);
    return NULL;
}
