/*
 * refusal.c - the reason why no pod was found: as JSON for an answer, as text for the log, and as
 * one word for the metrics.
 */
#include "api/api_internal.h"

void api_put_refusal(struct json_writer *json, const char *key, const struct refusal *refusal)
{
    json_key(json, key);
    json_object_begin(json);
    json_put_time(json, "at", refusal->at_ms);
    json_key(json, "chain");
    json_array_begin(json);
    for (size_t i = 0; i < refusal->count; i++) {
        const struct refusal_step *step = &refusal->steps[i];

        json_object_begin(json);
        json_put_string(json, "pool", name_of_pool_label(step->pool));
        json_put_bool(json, "is_configured", step->is_configured);
        json_put_u64(json, "pods", step->pods);
        for (int state = 0; state < POD_STATES; state++)
            json_put_u64(json, pod_state_name((enum pod_state)state), step->by_state[state]);
        json_object_end(json);
    }
    json_array_end(json);
    json_object_end(json);
}

static void write_step(struct strbuf *buf, const struct refusal_step *step)
{
    const char *separator = "";

    strbuf_append_str(buf, name_of_pool_label(step->pool));
    strbuf_append_str(buf, ": ");
    if (!step->is_configured) {
        strbuf_append_str(buf, "not configured");
        separator = ", ";
    } else if (step->pods == 0) {
        strbuf_append_str(buf, "no pods");
    }
    for (int state = 0; state < POD_STATES; state++) {
        if (step->by_state[state] == 0)
            continue;
        strbuf_append_str(buf, separator);
        strbuf_append_u64(buf, step->by_state[state]);
        strbuf_append_char(buf, ' ');
        strbuf_append_str(buf, pod_state_name((enum pod_state)state));
        separator = ", ";
    }
}

void api_write_refusal(struct strbuf *buf, const struct refusal *refusal)
{
    if (!refusal || refusal->count == 0)
        strbuf_append_str(buf, "no pools in the chain");
    for (size_t i = 0; refusal && i < refusal->count; i++) {
        if (i > 0)
            strbuf_append_str(buf, "; ");
        write_step(buf, &refusal->steps[i]);
    }
}

enum call_refusal api_refusal_reason(const struct refusal *refusal)
{
    uint64_t by_state[POD_STATES] = {0};
    bool has_pool = false;

    for (size_t i = 0; refusal && i < refusal->count; i++) {
        has_pool |= refusal->steps[i].is_configured;
        for (int state = 0; state < POD_STATES; state++)
            by_state[state] += refusal->steps[i].by_state[state];
    }
    /* A pod that is available now was taken while this call was refused: it was busy, so to speak. */
    if (by_state[POD_BUSY] + by_state[POD_AVAILABLE] > 0)
        return CALL_REFUSED_BUSY;
    if (by_state[POD_DRAINING] > 0)
        return CALL_REFUSED_DRAINING;
    if (by_state[POD_SUSPENDED] > 0)
        return CALL_REFUSED_SUSPENDED;
    return has_pool ? CALL_REFUSED_NO_PODS : CALL_REFUSED_NO_POOLS;
}
