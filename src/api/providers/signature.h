/*
 * signature.h - checks that a webhook was signed with the account's token, by the rules of the
 * providers' own libraries.
 *
 * Pure functions on unchecked input: no I/O, no clock, nothing is logged. Texts are compared in
 * constant time. What is signed is what the handlers read afterwards: every field of the body,
 * decoded, and the URL with its query as it was sent. Loop thread not needed.
 */
#ifndef API_PROVIDERS_SIGNATURE_H
#define API_PROVIDERS_SIGNATURE_H

#include "base/arena.h"
#include "base/base.h"

enum {
    SIGNATURE_URL_MAX = 16 * 1024,  /* the public URL */
    SIGNATURE_BODY_MAX = 64 * 1024, /* decoded it never gets longer */
    SIGNATURE_TOKENS_MAX = 16,
    SIGNATURE_LIST_MAX = 16, /* signatures in one header of Plivo */
    SIGNATURE_NONCE_MAX = 256,
};

/* What was asked. All of it is the stranger's, but for scheme and host of the URL where an operator gave
 * them. */
struct signed_request {
    bool is_post;
    struct slice url;  /* scheme://host[:port]path[?query], as the provider has it; empty: it is not known */
    struct slice body; /* as it came; a form, unless Twilio's URL has the hash of it */
};

struct signature_tokens {
    struct slice values[SIGNATURE_TOKENS_MAX]; /* none is empty */
    size_t count;
};

/*
 * X-Twilio-Signature: base64(HMAC-SHA1(token, URL and sorted fields)). Accepted with and without the port in
 * the URL, because Twilio does not always sign what it was told. A URL with bodySHA256 in its query signs the
 * hash of the body instead of its fields.
 *
 * 0; -ENOKEY: there is no signature; -EKEYREJECTED: none of the tokens made it; -EBADMSG: the request cannot
 * have been signed as it is (no URL, a NUL in a field, too many fields, too long); -ENOMEM.
 */
int signature_check_twilio(struct arena *arena, const struct signature_tokens *tokens,
                           const struct signed_request *request, struct slice signature) MUST_CHECK;

/*
 * X-Plivo-Signature-V3, a list of which any may fit, and X-Plivo-Signature-V3-Nonce:
 * base64(HMAC-SHA256(token, URL, sorted query, sorted fields, nonce)). Errors as above.
 */
int signature_check_plivo(struct arena *arena, const struct signature_tokens *tokens,
                          const struct signed_request *request, struct slice signatures,
                          struct slice nonce) MUST_CHECK;

#endif
