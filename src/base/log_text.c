/*
 * log_text.c - shortens a text of a client for the log, and hides the tickets in it.
 *
 * Anyone who has a ticket can connect to its call.
 */
#include "base/log_text.h"

#include <stdio.h>

static bool is_ticket_digit(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* How long the ticket, or the beginning of one, is that may stand here; 0: there is none. */
static size_t ticket_len(const char *text)
{
    size_t len = 0;

    if (!begins_with(text, LOG_TICKET_BEGINS) && !begins_with(text, LOG_OLD_TICKET_BEGINS))
        return 0;
    while (is_ticket_digit(text[len]))
        len++;
    return len;
}

/*
 * A URL that went astray (a proxy's prefix, a wrong method) is still good for its call, and those
 * who read the log are not meant to have it.
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
