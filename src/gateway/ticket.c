/*
 * ticket.c - makes and checks tickets: base64url and HMAC.
 */
#include "gateway/ticket.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/base64_digit.h"
#include "base/log_text.h"

/* The second character of a ticket has the two lower bits of its version. */
_Static_assert(TICKET_VERSION == 2 && TICKET_OLD_VERSION == 1,
               "change LOG_TICKET_BEGINS and LOG_OLD_TICKET_BEGINS, too: the log hides tickets by them");

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static size_t encode(const unsigned char *data, size_t len, char *text)
{
    size_t at = 0;

    for (size_t i = 0; i < len; i += 3) {
        unsigned group = (unsigned)data[i] << 16;

        if (i + 1 < len)
            group |= (unsigned)data[i + 1] << 8;
        if (i + 2 < len)
            group |= data[i + 2];
        text[at++] = digits[group >> 18 & 63];
        text[at++] = digits[group >> 12 & 63];
        if (i + 1 < len)
            text[at++] = digits[group >> 6 & 63];
        if (i + 2 < len)
            text[at++] = digits[group & 63];
    }
    text[at] = '\0';
    return at;
}

/*
 * -EBADMSG: not base64url, or not the only way to write it: bits that would be thrown away must be zero, so
 * that one ticket is one text.
 */
static int decode(struct slice text, unsigned char data[TICKET_BYTES_MAX], size_t *ret_len)
{
    unsigned bits = 0;
    unsigned count = 0;
    size_t len = 0;

    if (text.len > TICKET_MAX || text.len % 4 == 1)
        return -EBADMSG;
    for (size_t i = 0; i < text.len; i++) {
        int value = base64_value(text.data[i], "-_");

        if (value < 0)
            return -EBADMSG;
        bits = (bits << 6 | (unsigned)value) & 0xffff;
        count += 6;
        if (count >= 8) {
            count -= 8;
            data[len++] = (unsigned char)(bits >> count);
        }
    }
    if (bits & ((1U << count) - 1))
        return -EBADMSG;
    *ret_len = len;
    return 0;
}

/* What is signed, put together. */
struct signed_text {
    unsigned char bytes[1 + TICKET_EXPIRY + 1 + CALL_SID_MAX + 1 + POD_NAME_MAX + 1 + TICKET_PATH_MAX];
    size_t len;
};

static void text_add(struct signed_text *text, const void *data, size_t len)
{
    assert(len <= sizeof(text->bytes) - text->len);
    memcpy(text->bytes + text->len, data, len);
    text->len += len;
}

/* `head` is the ticket's own: version and expiry. */
static void text_write(struct signed_text *text, const unsigned char *head, const char *call_sid,
                       const struct ticket_use *use)
{
    bool is_old = head[0] == TICKET_OLD_VERSION;
    const unsigned char purpose = (unsigned char)use->purpose;

    assert(strlen(call_sid) <= CALL_SID_MAX && strlen(use->pod) <= POD_NAME_MAX &&
           use->path.len <= TICKET_PATH_MAX);
    text->len = 0;
    text_add(text, head, 1 + TICKET_EXPIRY);
    if (!is_old)
        text_add(text, &purpose, 1);
    text_add(text, call_sid, strlen(call_sid) + 1);
    text_add(text, use->pod, strlen(use->pod) + (is_old ? 0 : 1));
    if (!is_old)
        text_add(text, use->path.data, use->path.len);
}

/* 0 or -ENOMEM. */
static int text_sign(const struct signed_text *text, struct slice secret, unsigned char mac[TICKET_MAC])
{
    unsigned char full[EVP_MAX_MD_SIZE];
    unsigned full_len = 0;

    if (!HMAC(EVP_sha256(), secret.data, (int)secret.len, text->bytes, text->len, full, &full_len))
        return -ENOMEM;
    assert(full_len >= TICKET_MAC);
    memcpy(mac, full, TICKET_MAC);
    return 0;
}

int ticket_make(struct slice secret, const char *call_sid, const struct ticket_use *use, uint64_t expiry_s,
                char ret_ticket[TICKET_MAX + 1])
{
    unsigned char data[TICKET_BYTES_MAX];
    struct signed_text text;
    size_t sid_len = strlen(call_sid);
    int err;

    assert(secret.len > 0);
    assert(sid_len > 0 && sid_len <= CALL_SID_MAX);
    if (use->path.len > TICKET_PATH_MAX)
        return -ENAMETOOLONG;
    data[0] = TICKET_VERSION;
    for (unsigned i = 0; i < TICKET_EXPIRY; i++)
        data[1 + i] = (unsigned char)(expiry_s >> (8 * (TICKET_EXPIRY - 1 - i)));
    text_write(&text, data, call_sid, use);
    err = text_sign(&text, secret, data + 1 + TICKET_EXPIRY);
    if (err < 0)
        return err;
    memcpy(data + TICKET_HEAD, call_sid, sid_len);
    encode(data, TICKET_HEAD + sid_len, ret_ticket);
    return 0;
}

/* Could there be a ticket for this at all? A held stream has no pod, and every other one has. */
static bool use_is_possible(const struct ticket_use *use, unsigned char version)
{
    if (use->path.len > TICKET_PATH_MAX)
        return false;
    if (use->purpose == TICKET_HOLD)
        return version == TICKET_VERSION && !use->pod[0];
    return (version == TICKET_VERSION || version == TICKET_OLD_VERSION) &&
           name_is_pod(use->pod, strlen(use->pod));
}

int ticket_check(const struct slice *secrets, size_t count, struct slice ticket, const struct ticket_use *use,
                 uint64_t now_s, char ret_call_sid[CALL_SID_MAX + 1])
{
    unsigned char data[TICKET_BYTES_MAX];
    char call_sid[CALL_SID_MAX + 1];
    struct signed_text text;
    uint64_t expiry_s = 0;
    unsigned fits = 0;
    size_t len = 0;
    size_t sid_len;

    if (decode(ticket, data, &len) < 0 || len <= TICKET_HEAD || !use_is_possible(use, data[0]))
        return -EBADMSG;
    sid_len = len - TICKET_HEAD;
    memcpy(call_sid, data + TICKET_HEAD, sid_len);
    call_sid[sid_len] = '\0';
    if (!name_is_call_sid(call_sid, sid_len))
        return -EBADMSG;
    text_write(&text, data, call_sid, use);
    for (size_t i = 0; i < count; i++) {
        unsigned char mac[TICKET_MAC];

        if (text_sign(&text, secrets[i], mac) < 0)
            continue;
        fits |= CRYPTO_memcmp(mac, data + 1 + TICKET_EXPIRY, TICKET_MAC) == 0;
    }
    if (!fits)
        return -EBADMSG;
    for (unsigned i = 0; i < TICKET_EXPIRY; i++)
        expiry_s = expiry_s << 8 | data[1 + i];
    if (now_s > expiry_s)
        return -ETIME;
    memcpy(ret_call_sid, call_sid, sid_len + 1);
    return 0;
}
