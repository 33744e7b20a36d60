/*
 * ws_url.h - the URL at which a call reaches its pod, from a template that is taken apart once.
 */
#ifndef API_WS_URL_H
#define API_WS_URL_H

#include "base/strbuf.h"

struct ws_url; /* opaque: a template, taken apart */

enum {
    WS_URL_TEMPLATE_MAX = 1024,
    WS_URL_FIELDS_MAX = 32,
    /* Every value at its longest, percent-encoded, in every place that a template may have. */
    WS_URL_MAX = 64 * 1024,
};

/* What a call puts into the template. None is NULL; "" where there is nothing. */
struct ws_url_values {
    const char *pod;
    const char *provider;
    const char *template;
    const char *flow;
    const char *call_sid;
    const char *merchant;
    const char *ticket;
};

/*
 * Copies what it needs. `base_url` is {base}, as it is. With tickets, a template that does not say where
 * {ticket} goes gets it right after /ws/pod/{pod}, where the gateway looks for it. 0; -EINVAL: not a valid
 * template; -ENOMEM.
 */
int ws_url_new(const char *url_template, const char *base_url, bool has_tickets,
               struct ws_url **ret_url) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct ws_url *ws_url_free(struct ws_url *url);

/*
 * The path that the URL has behind its ticket, as ws_url_write writes it; without a query. "/" if there is
 * none, or the template has no ticket. `buf`, in an arena, is where it is put together; if that fails the
 * path is one that no URL has.
 */
struct slice ws_url_path(const struct ws_url *url, const struct ws_url_values *values, struct strbuf *buf);

/* Appends the URL; every value is percent-encoded. */
void ws_url_write(const struct ws_url *url, const struct ws_url_values *values, struct strbuf *buf);

/*
 * Can a call without a pod have a URL? It has one at the gateway: /ws/hold/{ticket} in place of
 * /ws/pod/{pod}/{ticket}, and nothing else in the template is the pod's.
 */
bool ws_url_can_hold(const struct ws_url *url);

/* The same URL for a call that has no pod yet. Only if ws_url_can_hold. */
void ws_url_write_hold(const struct ws_url *url, const struct ws_url_values *values, struct strbuf *buf);

#endif
