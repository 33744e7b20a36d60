/*
 * log_limit.c - limits log lines that clients can cause without a key.
 */
#include "base/log_limit.h"

#include "base/clock.h"
#include "base/log_repeat.h"

static struct {
    struct {
        struct log_burst lines;
        uint64_t left_out;
        uint64_t told;
        uint64_t since_ms; /* when the first was left out that no line has told of */
    } kinds[LOG_KINDS];
    bool is_behind; /* something was left out that no line has told of */
} limits;

static const char *const kind_names[LOG_KINDS] = {
    [LOG_OF_UNAUTHORIZED] = "unauthorized", [LOG_OF_REFUSED] = "refused", [LOG_OF_WEBHOOK] = "webhook",
    [LOG_OF_PROVIDER] = "provider",         [LOG_OF_GATEWAY] = "gateway",
};

const char *log_kind_name(enum log_kind kind)
{
    return kind_names[kind];
}

bool log_limit_passes(enum log_kind kind, enum log_level level)
{
    uint64_t now_ms;

    if (!log_enabled(level))
        return false;
    now_ms = clock_elapsed_ms();
    if (log_burst_passes(&limits.kinds[kind].lines, LOG_LIMIT_BURST, LOG_LIMIT_INTERVAL_MS, now_ms))
        return true;
    if (limits.kinds[kind].left_out == limits.kinds[kind].told)
        limits.kinds[kind].since_ms = now_ms;
    limits.kinds[kind].left_out++;
    limits.is_behind = true;
    return false;
}

uint64_t log_limit_left_out(enum log_kind kind)
{
    return limits.kinds[kind].left_out;
}

void log_limit_tell(bool is_end)
{
    uint64_t now_ms;

    /* Asked in every turn of the loop: it costs nothing while nothing is left out. */
    if (!limits.is_behind)
        return;
    now_ms = clock_elapsed_ms();
    limits.is_behind = false;
    for (enum log_kind kind = 0; kind < LOG_KINDS; kind++) {
        uint64_t untold = limits.kinds[kind].left_out - limits.kinds[kind].told;

        if (untold == 0)
            continue;
        if (!is_end && now_ms - limits.kinds[kind].since_ms < LOG_LIMIT_TELL_MS) {
            limits.is_behind = true;
            continue;
        }
        limits.kinds[kind].told = limits.kinds[kind].left_out;
        log_warn(
            "lines about refused strangers were left out of the log: the metrics have counted all of them",
            log_str("kind", kind_names[kind]), log_num("lines", (int64_t)untold));
    }
}
