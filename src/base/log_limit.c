/*
 * log_limit.c - limits log lines that clients can cause without a key, and shortens the texts in
 * them.
 *
 * Tickets in such texts are hidden, because anyone who has one can connect to its call.
 */
#include "base/log_limit.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/ratelimit.h"

static struct {
    struct {
        struct ratelimit lines;
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
    if (ratelimit_passes(&limits.kinds[kind].lines, LOG_LIMIT_BURST, LOG_LIMIT_INTERVAL_MS, now_ms))
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

static bool is_ticket_digit(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* How long the ticket, or the beginning of one, is that may stand here; 0: there is none. */
static size_t ticket_len(const char *text)
{
    size_t len = 0;

    if (strncmp(text, "AQAAAA", 6) != 0 && strncmp(text, "AgAAAA", 6) != 0)
        return 0;
    while (is_ticket_digit(text[len]))
        len++;
    return len;
}

/*
 * A URL that went astray (a proxy's prefix, a wrong method) is still good for its call, and those who read
 * the log are not meant to have it. Every ticket begins with its version and the upper half of its expiry
 * (src/gateway/ticket.h), which are the same for all.
 */
static void hide_tickets(char *text)
{
    while (*text) {
        size_t len = ticket_len(text);

        memset(text, '*', len);
        text += len > 0 ? len : 1;
    }
}

/* Bytes that were sent as %41 instead of A hide a ticket from us, and from nobody else. */
static bool may_hide_ticket(struct slice text)
{
    size_t escapes = 0;

    for (size_t i = 0; i < text.len; i++)
        escapes += text.data[i] == '%';
    return escapes > 8;
}

const char *log_cut(char buf[LOG_CUT_SIZE], struct slice text)
{
    if (may_hide_ticket(text))
        snprintf(buf, LOG_CUT_SIZE, "(%zu bytes, not shown: too many escapes)", text.len);
    else if (text.len <= LOG_CUT_MAX)
        snprintf(buf, LOG_CUT_SIZE, "%.*s", (int)text.len, text.len ? text.data : "");
    else
        snprintf(buf, LOG_CUT_SIZE, "%.*s... (%zu bytes)", LOG_CUT_MAX, text.data, text.len);
    hide_tickets(buf);
    return buf;
}
