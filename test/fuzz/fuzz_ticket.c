/*
 * fuzz_ticket.c - tickets: none is accepted that was not made.
 *
 * An input is how much of a change, a pod, a call, a path, and a text, with LF between them. The text itself
 * counts only if it is, to the letter, the ticket that the key would make (or one of the version before). A
 * ticket made for the names is accepted for its purpose, its pod and its path only, until its expiry only,
 * and not once anything of it was changed.
 */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"
#include "gateway/ticket.h"

enum {
    NOW_S = 1700000000,
};

static const struct slice secrets[] = {
    {"0123456789abcdef0123456789abcdef", 32},
    {"another key, which is the older one", 35},
};

static int check(struct slice ticket, const struct ticket_use *use, uint64_t now_s,
                 char call_sid[CALL_SID_MAX + 1])
{
    return ticket_check(secrets, ARRAY_LEN(secrets), ticket, use, now_s, call_sid);
}

/* The expiry as the ticket's first characters say it. */
static uint64_t expiry_of(struct slice ticket)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint64_t expiry_s = 0;

    assert(ticket.len > 12);
    /* 9 bytes, the version and the expiry, are 12 digits; the version leaves at the top. */
    for (size_t i = 0; i < 12; i++) {
        const char *digit = strchr(digits, ticket.data[i]);

        assert(digit && *digit);
        expiry_s = expiry_s << 6 | (uint64_t)(digit - digits);
    }
    return expiry_s;
}

/* As the version before made it: without purpose and path. */
static void make_old(struct slice secret, const char *call_sid, const char *pod, uint64_t expiry_s,
                     char *made)
{
    unsigned char text[9 + CALL_SID_MAX + 1 + POD_NAME_MAX] = {TICKET_OLD_VERSION};
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned char data[TICKET_BYTES_MAX];
    unsigned char encoded[TICKET_MAX + 8];
    size_t sid_len = strlen(call_sid);
    size_t pod_len = strlen(pod);

    for (size_t i = 0; i < 8; i++)
        text[1 + i] = (unsigned char)(expiry_s >> (56 - 8 * i));
    memcpy(text + 9, call_sid, sid_len + 1);
    memcpy(text + 9 + sid_len + 1, pod, pod_len);
    if (!HMAC(EVP_sha256(), secret.data, (int)secret.len, text, 9 + sid_len + 1 + pod_len, mac, NULL))
        abort();
    memcpy(data, text, 9);
    memcpy(data + 9, mac, TICKET_MAC);
    memcpy(data + TICKET_HEAD, call_sid, sid_len);
    EVP_EncodeBlock(encoded, data, (int)(TICKET_HEAD + sid_len));
    for (size_t i = 0;; i++) {
        char c = (char)encoded[i];

        made[i] = c == '+' ? '-' : c == '/' ? '_' : c == '=' ? '\0' : c;
        if (!made[i])
            return;
    }
}

static void check_text(struct slice text, const struct ticket_use *use)
{
    char call_sid[CALL_SID_MAX + 1] = "untouched";
    struct ticket_use hold = {TICKET_HOLD, "", use->path};
    char made[TICKET_MAX + 1];
    bool is_made = false;
    int rc = check(text, use, 0, call_sid);

    if (rc) {
        assert(rc == -EBADMSG && strcmp(call_sid, "untouched") == 0);
        return;
    }
    assert(check(text, &hold, 0, made) == -EBADMSG);
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        if (text.data[1] >= 'Q' && text.data[1] <= 'f') /* the version's last two bits are 01 */
            make_old(secrets[i], call_sid, use->pod, expiry_of(text), made);
        else if (ticket_make(secrets[i], call_sid, use, expiry_of(text), made))
            abort();
        is_made = is_made || (strlen(made) == text.len && memcmp(made, text.data, text.len) == 0);
    }
    assert(is_made);
}

static void check_change(char *ticket, size_t at, char with, const struct ticket_use *use)
{
    char call_sid[CALL_SID_MAX + 1];
    size_t len = strlen(ticket);
    char was = ticket[at % len];

    ticket[at % len] = with;
    if (with != was)
        assert(check((struct slice){ticket, len}, use, 0, call_sid) == -EBADMSG);
    ticket[at % len] = was;
    /* Shorter and longer. */
    assert(check((struct slice){ticket, at % len}, use, 0, call_sid) == -EBADMSG);
    ticket[len] = with;
    assert(check((struct slice){ticket, len + 1}, use, 0, call_sid) == -EBADMSG);
    ticket[len] = '\0';
}

/* The same call with one thing different. */
static void check_other_uses(const char *ticket, const struct ticket_use *use, struct input *change)
{
    char pod[POD_NAME_MAX + 2];
    char path[TICKET_PATH_MAX + 2];
    char found[CALL_SID_MAX + 1];
    struct ticket_use other = *use;
    size_t at;

    other.purpose = use->purpose == TICKET_HOLD ? TICKET_STREAM : TICKET_HOLD;
    assert(check(slice_of(ticket), &other, 0, found) == -EBADMSG);
    other.pod = use->purpose == TICKET_HOLD ? "a" : "";
    assert(check(slice_of(ticket), &other, 0, found) == -EBADMSG);

    other = *use;
    snprintf(pod, sizeof(pod), "%s", use->pod[0] ? use->pod : "y");
    pod[strlen(pod) - 1] = pod[strlen(pod) - 1] == 'x' ? 'y' : 'x';
    other.pod = pod;
    assert(check(slice_of(ticket), &other, 0, found) == -EBADMSG);

    other = *use;
    memcpy(path, use->path.data, use->path.len);
    path[use->path.len] = (char)input_byte(change);
    other.path = (struct slice){path, use->path.len + 1};
    assert(check(slice_of(ticket), &other, 0, found) == -EBADMSG);
    if (use->path.len == 0)
        return;
    at = input_byte(change) % use->path.len;
    other.path.len = at;
    assert(check(slice_of(ticket), &other, 0, found) == -EBADMSG);
    other.path.len = use->path.len;
    path[at] ^= (char)(input_byte(change) | 1);
    assert(check(slice_of(ticket), &other, 0, found) == -EBADMSG);
}

static void check_made(const char *call_sid, const struct ticket_use *use, uint64_t expiry_s,
                       struct input *change)
{
    char ticket[TICKET_MAX + 2];
    char found[CALL_SID_MAX + 1];
    int rc = ticket_make(secrets[input_byte(change) % ARRAY_LEN(secrets)], call_sid, use, expiry_s, ticket);

    assert(rc == 0);
    assert(strspn(ticket, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
           strlen(ticket));
    assert(check(slice_of(ticket), use, expiry_s, found) == 0 && strcmp(found, call_sid) == 0);
    if (expiry_s < UINT64_MAX)
        assert(check(slice_of(ticket), use, expiry_s + 1, found) == -ETIME);
    assert(ticket_check(secrets, 0, slice_of(ticket), use, 0, found) == -EBADMSG);
    check_change(ticket, input_byte(change), (char)input_byte(change), use);
    check_other_uses(ticket, use, change);
}

/* Copies a name as far as it fits, without what hides behind a NUL. */
static void copy(char *to, size_t size, struct slice name)
{
    size_t len = min_u64(name.len, size - 1);

    memcpy(to, name.data, len);
    to[len] = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct slice change_text = input_until(&input, '\n');
    struct slice pod_text = input_until(&input, '\n');
    struct slice sid_text = input_until(&input, '\n');
    struct slice path = input_until(&input, '\n');
    struct slice text = input_rest(&input);
    struct input change = {(const uint8_t *)change_text.data, change_text.len};
    char pod[POD_NAME_MAX + 1], call_sid[CALL_SID_MAX + 1];
    struct ticket_use use = {TICKET_STREAM, pod, path};
    uint64_t expiry_s;

    copy(pod, sizeof(pod), pod_text);
    copy(call_sid, sizeof(call_sid), sid_text);
    use.path.len = min_u64(path.len, TICKET_PATH_MAX);
    check_text(text, &use);
    if (!name_is_call_sid(call_sid, strlen(call_sid)))
        return 0;
    expiry_s = input_byte(&change) % 8 ? NOW_S : UINT64_MAX;
    if (name_is_pod(pod, strlen(pod)))
        check_made(call_sid, &use, expiry_s, &change);
    use = (struct ticket_use){TICKET_HOLD, "", use.path};
    check_made(call_sid, &use, expiry_s, &change);
    return 0;
}
