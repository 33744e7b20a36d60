/*
 * lost_calls.c - logs and counts each call that ended without a release, and passes it on to the
 * gateway.
 */
#include "app/lost_calls.h"

#include <stdlib.h>

#include "base/log.h"

enum { ENDED_REASONS = CALL_END_UNMENTIONED + 1 };

struct lost_calls {
    struct metrics_series *by_reason[ENDED_REASONS];
    call_finished_fn tell;
    void *tell_arg;
};

static void lost_calls_told(void *arg, const struct ended_call *call)
{
    struct lost_calls *lost_calls = arg;

    log_warn("call ended", log_str("call_sid", call->call_sid), log_str("pod", call->pod),
             log_str("pool", call->pool), log_str("merchant", call->merchant_id),
             log_str("reason", call_end_name(call->why)));
    metrics_add(lost_calls->by_reason[call->why], 1);
    if (lost_calls->tell)
        lost_calls->tell(lost_calls->tell_arg, call->call_sid);
}

void lost_calls_also_tell(struct lost_calls *lost_calls, call_finished_fn fn, void *arg)
{
    lost_calls->tell = fn;
    lost_calls->tell_arg = arg;
}

static struct metrics_series *ended_series(struct metrics_family *family, enum call_end why)
{
    const char *reason = call_end_name(why);

    return metrics_series(family, &reason);
}

struct metrics_family *lost_calls_family(struct metrics *metrics)
{
    static const char *const labels[] = {"reason"};
    struct metrics_family *family =
        metrics_family(metrics, METRICS_COUNTER, "smart_router_calls_ended_total",
                       "Calls that ended without being released.", labels, 1, NULL, 0);

    for (int i = 0; i < ENDED_REASONS && family; i++)
        (void)ended_series(family, (enum call_end)i);
    return family;
}

int lost_calls_new(struct store *store, struct metrics *metrics, struct lost_calls **ret_lost_calls)
{
    struct metrics_family *family = lost_calls_family(metrics);
    struct lost_calls *lost_calls = calloc(1, sizeof(*lost_calls));

    if (!family || !lost_calls) {
        free(lost_calls);
        return -ENOMEM;
    }
    for (int i = 0; i < ENDED_REASONS; i++)
        lost_calls->by_reason[i] = ended_series(family, (enum call_end)i);
    store_on_ended(store, lost_calls_told, lost_calls);
    *ret_lost_calls = lost_calls;
    return 0;
}

struct lost_calls *lost_calls_free(struct lost_calls *lost_calls)
{
    free(lost_calls);
    return NULL;
}
