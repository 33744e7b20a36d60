/*
 * provider.h - the telephony providers: where their webhooks carry the call, and how their answers read.
 */
#ifndef API_PROVIDERS_PROVIDER_H
#define API_PROVIDERS_PROVIDER_H

#include "base/strbuf.h"

struct provider {
    const char *name;
    const char *sid_field;        /* the webhook's parameter that names the call */
    const char *default_template; /* {template} when the request names none */
    const char *content_type;
    int failure_status;   /* when there is no pod: XML is only spoken to the caller with status 200 */
    int malformed_status; /* when the webhook does not say which call it is about */
    bool takes_json;      /* the webhook's body may be a JSON object */

    /* Appends the answer that connects the call to `url`. */
    void (*render_stream)(struct strbuf *buf, struct slice url);
    /* Appends the answer that tells the caller `message` and hangs up; `code` for those that read JSON. */
    void (*render_failure)(struct strbuf *buf, const char *message, const char *error, const char *code);
};

extern const struct provider provider_twilio;
extern const struct provider provider_plivo;
extern const struct provider provider_exotel;

/* {template} for a provider of any name. */
const char *provider_default_template(const char *name);

#endif
