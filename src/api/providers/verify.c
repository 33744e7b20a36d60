/*
 * verify.c - checks that a webhook comes from its provider, and refuses, logs and counts those
 * that do not.
 */
#include "api/providers/verify.h"

#include "base/log_limit.h"
#include "base/log_text.h"
#include "http/forwarded.h"

_Static_assert((int)SIGNATURE_TOKENS_MAX >= (int)SECRETS_MAX, "all tokens must be tried");

void verify_read(const struct http_request *request, const struct secrets *secrets, enum secret_kind kind,
                 struct slice url, struct signature_tokens *ret_tokens, struct signed_request *ret_request)
{
    ret_tokens->count = secrets_count(secrets, kind);
    assert(ret_tokens->count <= SIGNATURE_TOKENS_MAX);
    for (size_t i = 0; i < ret_tokens->count; i++)
        ret_tokens->values[i] = secrets_at(secrets, kind, i);
    *ret_request = (struct signed_request){
        .is_post = slice_equals(http_request_method(request), "POST"),
        .url = url,
        .body = http_request_body(request),
    };
}

/*
 * Appends the URL as the provider has it: what the operator says, else what the client asked for or, if it is
 * a trusted proxy, was asked for itself. Without a host it stays empty.
 */
static void verify_write_url(const struct api *api, struct http_request *request, struct strbuf *buf)
{
    const char *base = api->settings.public_base_url;
    struct slice target = http_request_target(request);
    struct forwarded forwarded;

    if (base && base[0]) {
        strbuf_append_str(buf, base);
    } else {
        forwarded_read(api->settings.trusted, request, &forwarded);
        if (forwarded.host.len == 0)
            return;
        strbuf_append_str(buf, forwarded.is_https ? "https://" : "http://");
        strbuf_append(buf, forwarded.host.data, forwarded.host.len);
    }
    strbuf_append(buf, target.data, target.len);
}

static enum webhook_refusal refusal_of(int err)
{
    switch (err) {
    case -ENOKEY:
        return WEBHOOK_UNSIGNED;
    case -EKEYREJECTED:
        return WEBHOOK_WRONG;
    default:
        return WEBHOOK_UNVERIFIABLE;
    }
}

/*
 * The log gets the URL that was checked, because an operator may have configured another one; but
 * not its query, which may hold a token.
 */
static void verify_refuse(struct api *api, struct http_request *request, const struct provider *provider,
                          enum webhook_refusal reason, const struct strbuf *url)
{
    static const char *const errors[WEBHOOK_REFUSALS] = {
        [WEBHOOK_UNSIGNED] = "the webhook has no signature or token",
        [WEBHOOK_WRONG] = "the webhook's signature or token is wrong",
        [WEBHOOK_UNVERIFIABLE] = "the webhook cannot have been signed as it is",
    };
    struct slice text = strbuf_slice(url);
    const char *query = text.len > 0 ? memchr(text.data, '?', text.len) : NULL;
    char url_text[LOG_CUT_SIZE];

    instruments_webhook_refused(api->instruments, provider->name, reason);
    instruments_unauthorized(api->instruments, provider->secret);
    if (query)
        text.len = (size_t)(query - text.data);
    if (log_limit_passes(LOG_OF_WEBHOOK, LOG_WARN))
        log_warn("webhook refused", log_str("provider", provider->name), log_str("error", errors[reason]),
                 log_str("reason", webhook_refusal_name(reason)), log_str("url", log_cut(url_text, text)),
                 log_str("peer", http_request_peer(request)),
                 log_str("request_id", http_request_id(request)));
    http_respond_error(request, 403, errors[reason]);
}

bool verify_is_on(const struct api *api, const struct provider *provider)
{
    return secrets_count(api->secrets, provider->secret) > 0;
}

enum log_kind verify_log_kind(const struct api *api, const struct provider *provider)
{
    return verify_is_on(api, provider) ? LOG_OF_PROVIDER : LOG_OF_WEBHOOK;
}

static void verify_refuse_call(struct api *api, struct http_request *request, const struct provider *provider,
                               const char *call_sid, enum webhook_refusal reason, const char *error)
{
    instruments_webhook_refused(api->instruments, provider->name, reason);
    if (log_limit_passes(verify_log_kind(api, provider), LOG_WARN))
        log_warn("webhook refused", log_str("provider", provider->name), log_str("error", error),
                 log_str("reason", webhook_refusal_name(reason)), log_str("call_sid", call_sid),
                 log_str("peer", http_request_peer(request)),
                 log_str("request_id", http_request_id(request)));
    http_respond_error(request, 403, error);
}

void verify_refuse_replay(struct api *api, struct http_request *request, const struct provider *provider,
                          const char *call_sid)
{
    verify_refuse_call(api, request, provider, call_sid, WEBHOOK_REPLAYED,
                       "the provider has said that this call is over");
}

void verify_refuse_others(struct api *api, struct http_request *request, const struct provider *provider,
                          const char *call_sid)
{
    verify_refuse_call(api, request, provider, call_sid, WEBHOOK_OF_OTHERS,
                       "the call is not this provider's");
}

bool verify_webhook(struct api *api, struct http_request *request, const struct provider *provider)
{
    struct strbuf url;
    int err;

    /* A HEAD is answered like a GET, but nobody who only looks may take a pod or end a call. */
    if (slice_equals(http_request_method(request), "HEAD")) {
        http_response_header(request, "Allow", "GET, POST");
        api_refuse(request, 405, "method not allowed");
        return false;
    }
    if (!verify_is_on(api, provider))
        return true;
    strbuf_init(&url, http_request_arena(request), SIGNATURE_URL_MAX);
    verify_write_url(api, request, &url);
    err = strbuf_failed(&url) ? -ENOMEM : provider->check(request, api->secrets, strbuf_slice(&url));
    if (err == 0)
        return true;
    if (err == -ENOMEM)
        api_reply_no_memory(request);
    else
        verify_refuse(api, request, provider, refusal_of(err), &url);
    return false;
}
