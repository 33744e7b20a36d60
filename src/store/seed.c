/*
 * seed.c - warns if TIER_CONFIG differs from the stored tiers.
 */
#include "store/seed.h"

#include "base/json.h"
#include "base/log.h"

/* One line, or NULL: it is too long for the log, or is no JSON. */
static const char *seed_shown(struct strbuf *buf, const char *text, size_t len)
{
    strbuf_init(buf, NULL, LOG_JSON_MAX);
    if (json_is_valid((struct slice){text, len}))
        json_compact(buf, (struct slice){text, len});
    return strbuf_failed(buf) || buf->len == 0 ? NULL : buf->data;
}

void seed_compare(const char *stored, size_t len, const struct tier_config *wanted)
{
    struct strbuf in_force, other;

    if (tier_config_is_same(stored, len, wanted))
        return;
    log_warn(
        "TIER_CONFIG differs from the stored tiers, and the stored ones are in force; to apply TIER_CONFIG, "
        "send it: curl -X PUT --data \"$TIER_CONFIG\" http://ROUTER/api/v1/tiers; to keep the stored ones, "
        "unset TIER_CONFIG or make it the same",
        log_json("stored", seed_shown(&in_force, stored, len)),
        log_json("tier_config", seed_shown(&other, wanted->text, strlen(wanted->text))));
    strbuf_release(&in_force);
    strbuf_release(&other);
}
