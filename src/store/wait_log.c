/*
 * wait_log.c - says that a wait has ended without a pod.
 */
#include "base/log.h"
#include "store/store.h"

void store_log_wait_ended(const struct ended_wait *wait, const char *reason)
{
    log_info("wait ended", log_str("call_sid", wait->call_sid), log_str("merchant", wait->merchant_id),
             log_str("provider", wait->provider), log_str("outcome", wait_end_name(wait->how)),
             log_num("waited_ms", (int64_t)wait->waited_ms), log_str("reason", reason));
}

void store_log_wait_released(const struct result *result, const char *reason)
{
    const struct call_info *call = &result->release.call;

    if (release_ends_wait(result))
        store_log_wait_ended(&(struct ended_wait){.call_sid = call->call_sid,
                                                  .merchant_id = call->merchant_id,
                                                  .provider = call->provider,
                                                  .how = WAIT_ABANDONED,
                                                  .waited_ms = result->release.waited_ms},
                             reason);
}
