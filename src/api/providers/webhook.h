/*
 * webhook.h - what the webhooks share that ask where a call shall go: when it begins (webhook.c), and when
 * its stream has ended (after.c). Internal to the module.
 */
#ifndef API_PROVIDERS_WEBHOOK_H
#define API_PROVIDERS_WEBHOOK_H

#include "api/allocation.h"

/* How often a provider asks again while the store cannot answer. */
enum { WEBHOOK_TRIES_MAX = 3 };

/*
 * Checks that the webhook is the provider's and comes not too often, and reads which call it is about. NULL:
 * it was answered. Errors of the parameters are for webhook_read.
 */
struct allocation *webhook_begin(struct api *api, struct http_request *request,
                                 const struct provider *provider, struct params *ret_params) MUST_CHECK;

/*
 * Reads merchant, flow and template, from the query alone unless the provider's body may name them. False:
 * the parameters are wrong, and it was answered.
 */
bool webhook_read(struct allocation *allocation, struct params *params) MUST_CHECK;

/* The call has a pod, or waits for one: the stream at which it is connected or held. */
void webhook_answer_stream(const struct allocation *allocation, const struct result *result);

/* No pod: the call is given the fallback URL rather than dropped, if there is one. */
void webhook_answer_no_pod(const struct allocation *allocation, const char *error, const char *code);

/* The call is asked for again in a moment; only for providers that can be told so. */
void webhook_answer_later(const struct allocation *allocation, unsigned tries);

/* What the provider sends cannot be carried out: it is logged, and the caller hears the busy message. */
void webhook_refuse(const struct allocation *allocation, const char *error);

/*
 * Appends the URL that the provider asks when the stream of the call has ended. `pod` "": the call has none.
 */
void webhook_write_after(const struct allocation *allocation, const char *pod, unsigned tries,
                         struct strbuf *buf);

#endif
