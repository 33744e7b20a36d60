/*
 * verify.h - checks that a webhook comes from its provider. Internal to the module.
 */
#ifndef API_PROVIDERS_VERIFY_H
#define API_PROVIDERS_VERIFY_H

#include "api/api_internal.h"
#include "api/providers/provider.h"
#include "api/providers/signature.h"
#include "base/log_limit.h"

/*
 * True: it does, or nobody has set that provider's token. False: it has been answered and nothing else may be
 * done with it: a HEAD with 405; one that is forged with 403, counted, and logged without what it carried.
 */
bool verify_webhook(struct api *api, struct http_request *request,
                    const struct provider *provider) MUST_CHECK;

/*
 * Of which kind are lines about a webhook that verify_webhook let through? What strangers send must not use
 * up the lines about a provider that does what it may not do.
 */
enum log_kind verify_log_kind(const struct api *api, const struct provider *provider);

/* Has somebody set the provider's token? */
bool verify_is_on(const struct api *api, const struct provider *provider);

/* Answers with 403, counts and logs: whoever sends it again was not asked by the provider. See over.h. */
void verify_refuse_replay(struct api *api, struct http_request *request, const struct provider *provider,
                          const char *call_sid);

/* The same for a webhook about a call that is another provider's, or the API's: see OUTCOME_FORBIDDEN. */
void verify_refuse_others(struct api *api, struct http_request *request, const struct provider *provider,
                          const char *call_sid);

/* For the providers' checks: the tokens of that kind, and what the signature is about. Both borrow. */
void verify_read(const struct http_request *request, const struct secrets *secrets, enum secret_kind kind,
                 struct slice url, struct signature_tokens *ret_tokens, struct signed_request *ret_request);

#endif
