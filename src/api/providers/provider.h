/*
 * provider.h - the telephony providers: the fields of their webhooks, and the form of their
 * answers.
 */
#ifndef API_PROVIDERS_PROVIDER_H
#define API_PROVIDERS_PROVIDER_H

#include "api/params.h"
#include "api/secrets.h"
#include "base/strbuf.h"

struct http_request;

struct provider {
    const char *name;
    const char *sid_field;        /* the webhook's parameter that names the call */
    const char *default_template; /* {template} when the request names none */
    const char *content_type;
    int failure_status;      /* when there is no pod: XML is only spoken to the caller with status 200 */
    int malformed_status;    /* when the webhook does not say which call it is about */
    bool takes_json;         /* the webhook's body may be a JSON object */
    bool body_has_settings;  /* merchant_id, flow and template may be in the body; else in the query only */
    enum secret_kind secret; /* what its webhooks are checked with, if that is set */
    struct slice status_answer; /* to a status callback, whatever it says */

    /*
     * Appends the answer that connects the call to `url`. `after` is what the provider asks when the stream
     * has ended; "": it does not ask.
     */
    void (*render_stream)(struct strbuf *buf, struct slice url, struct slice after);
    /* Appends the answer that ends the call without a word. */
    void (*render_hangup)(struct strbuf *buf);
    /* Appends the answer that lets the provider ask `url` after a pause. NULL: it cannot be told that. */
    void (*render_later)(struct strbuf *buf, struct slice url, uint64_t pause_s);
    /* Appends the answer that tells the caller `message` and hangs up; `code` for those that read JSON. */
    void (*render_failure)(struct strbuf *buf, const char *message, const char *error, const char *code);
    /*
     * Is the webhook signed, or does it carry a token? `url` is the public one. 0; -ENOKEY: no;
     * -EKEYREJECTED: wrongly; -EBADMSG: it cannot be, as it is; -ENOMEM. Nothing of the call has been read by
     * then.
     */
    int (*check)(struct http_request *request, const struct secrets *secrets, struct slice url);
    /* Does a status callback say that the call is over? *ret_status is its status for the log, or "". */
    bool (*ends_call)(struct params *params, const char **ret_status);
};

extern const struct provider provider_twilio;
extern const struct provider provider_plivo;
extern const struct provider provider_exotel;

/* Is `status` one in which a call ends? Most providers have the same words. */
bool provider_status_is_final(const char *status);

/* How the provider is called by those who spell it in capitals; any other name is itself. */
const char *provider_spelling(const char *name);

/* Can the provider of that name be told to ask again later? */
bool provider_can_wait(const char *name);

/* {template} for a provider of any name. */
const char *provider_default_template(const char *name);

#endif
