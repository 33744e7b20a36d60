/*
 * fuzz_ticket.c - tickets: none is accepted that was not made.
 *
 * An input is how much of a change, a pod, a call, and a text, with LF between them. The text itself counts
 * only if it is, to the letter, the ticket that the key would make. A ticket made for the names is accepted,
 * for its pod only, until its expiry only, and not once anything of it was changed.
 */
#include "fuzz.h"
#include "gateway/ticket.h"

enum {
    NOW_S = 1700000000,
};

static const struct slice secrets[] = {
    {"0123456789abcdef0123456789abcdef", 32},
    {"another key, which is the older one", 35},
};

static int check(struct slice ticket, const char *pod, uint64_t now_s, char call_sid[CALL_SID_MAX + 1])
{
    return ticket_check(secrets, ARRAY_LEN(secrets), ticket, pod, now_s, call_sid);
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

static void check_text(struct slice text, const char *pod)
{
    char call_sid[CALL_SID_MAX + 1] = "untouched";
    char made[TICKET_MAX + 1];
    bool is_made = false;
    int rc = check(text, pod, 0, call_sid);

    if (rc) {
        assert(rc == -EBADMSG && strcmp(call_sid, "untouched") == 0);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++) {
        rc = ticket_make(secrets[i], call_sid, pod, expiry_of(text), made);
        assert(rc == 0);
        is_made = is_made || (strlen(made) == text.len && memcmp(made, text.data, text.len) == 0);
    }
    assert(is_made);
}

static void check_change(char *ticket, size_t at, char with, const char *pod)
{
    char call_sid[CALL_SID_MAX + 1];
    size_t len = strlen(ticket);
    char was = ticket[at % len];

    ticket[at % len] = with;
    if (with != was)
        assert(check((struct slice){ticket, len}, pod, 0, call_sid) == -EBADMSG);
    ticket[at % len] = was;
    /* Shorter and longer. */
    assert(check((struct slice){ticket, at % len}, pod, 0, call_sid) == -EBADMSG);
    ticket[len] = with;
    assert(check((struct slice){ticket, len + 1}, pod, 0, call_sid) == -EBADMSG);
    ticket[len] = '\0';
}

static void check_made(const char *call_sid, const char *pod, uint64_t expiry_s, struct input *change)
{
    char ticket[TICKET_MAX + 2];
    char other[POD_NAME_MAX + 2];
    char found[CALL_SID_MAX + 1];
    size_t len = strlen(pod);
    int rc = ticket_make(secrets[input_byte(change) % ARRAY_LEN(secrets)], call_sid, pod, expiry_s, ticket);

    assert(rc == 0);
    assert(strspn(ticket, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") ==
           strlen(ticket));
    assert(check(slice_of(ticket), pod, expiry_s, found) == 0 && strcmp(found, call_sid) == 0);
    if (expiry_s < UINT64_MAX)
        assert(check(slice_of(ticket), pod, expiry_s + 1, found) == -ETIME);
    assert(ticket_check(secrets, 0, slice_of(ticket), pod, 0, found) == -EBADMSG);
    memcpy(other, pod, len + 1);
    other[len - 1] = other[len - 1] == 'x' ? 'y' : 'x';
    assert(check(slice_of(ticket), other, 0, found) == -EBADMSG);
    check_change(ticket, input_byte(change), (char)input_byte(change), pod);
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
    struct slice text = input_rest(&input);
    struct input change = {(const uint8_t *)change_text.data, change_text.len};
    char pod[POD_NAME_MAX + 1], call_sid[CALL_SID_MAX + 1];

    copy(pod, sizeof(pod), pod_text);
    copy(call_sid, sizeof(call_sid), sid_text);
    check_text(text, pod);
    if (name_is_pod(pod, strlen(pod)) && name_is_call_sid(call_sid, strlen(call_sid)))
        check_made(call_sid, pod, input_byte(&change) % 8 ? NOW_S : UINT64_MAX, &change);
    return 0;
}
