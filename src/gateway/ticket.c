#include "gateway/ticket.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

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

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
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
        int value = digit_value(text.data[i]);

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

/* Signs the version and expiry in `head` with the names. 0 or -ENOMEM. */
static int sign(struct slice secret, const unsigned char *head, const char *call_sid, const char *pod,
                unsigned char mac[TICKET_MAC])
{
    unsigned char text[1 + TICKET_EXPIRY + CALL_SID_MAX + 1 + POD_NAME_MAX];
    unsigned char full[EVP_MAX_MD_SIZE];
    unsigned full_len = 0;
    size_t sid_len = strlen(call_sid);
    size_t pod_len = strlen(pod);
    size_t len = 1 + TICKET_EXPIRY;

    assert(sid_len <= CALL_SID_MAX && pod_len <= POD_NAME_MAX);
    memcpy(text, head, len);
    memcpy(text + len, call_sid, sid_len + 1);
    len += sid_len + 1;
    memcpy(text + len, pod, pod_len);
    len += pod_len;
    if (!HMAC(EVP_sha256(), secret.data, (int)secret.len, text, len, full, &full_len))
        return -ENOMEM;
    assert(full_len >= TICKET_MAC);
    memcpy(mac, full, TICKET_MAC);
    return 0;
}

int ticket_make(struct slice secret, const char *call_sid, const char *pod, uint64_t expiry_s,
                char ret_ticket[TICKET_MAX + 1])
{
    unsigned char data[TICKET_BYTES_MAX];
    size_t sid_len = strlen(call_sid);
    int err;

    assert(secret.len > 0);
    assert(sid_len > 0 && sid_len <= CALL_SID_MAX);
    data[0] = TICKET_VERSION;
    for (unsigned i = 0; i < TICKET_EXPIRY; i++)
        data[1 + i] = (unsigned char)(expiry_s >> (8 * (TICKET_EXPIRY - 1 - i)));
    err = sign(secret, data, call_sid, pod, data + 1 + TICKET_EXPIRY);
    if (err < 0)
        return err;
    memcpy(data + TICKET_HEAD, call_sid, sid_len);
    encode(data, TICKET_HEAD + sid_len, ret_ticket);
    return 0;
}

int ticket_check(const struct slice *secrets, size_t count, struct slice ticket, const char *pod,
                 uint64_t now_s, char ret_call_sid[CALL_SID_MAX + 1])
{
    unsigned char data[TICKET_BYTES_MAX];
    char call_sid[CALL_SID_MAX + 1];
    uint64_t expiry_s = 0;
    unsigned fits = 0;
    size_t len = 0;
    size_t sid_len;

    if (decode(ticket, data, &len) < 0 || len <= TICKET_HEAD || data[0] != TICKET_VERSION)
        return -EBADMSG;
    sid_len = len - TICKET_HEAD;
    memcpy(call_sid, data + TICKET_HEAD, sid_len);
    call_sid[sid_len] = '\0';
    if (!name_is_call_sid(call_sid, sid_len) || !name_is_pod(pod, strlen(pod)))
        return -EBADMSG;
    for (size_t i = 0; i < count; i++) {
        unsigned char mac[TICKET_MAC];

        if (sign(secrets[i], data, call_sid, pod, mac) < 0)
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
