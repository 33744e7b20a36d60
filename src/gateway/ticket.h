/*
 * ticket.h - a signed text that says: this call may connect at this pod's URL, until then.
 *
 * One path segment: base64url without padding of a version byte, the expiry (seconds since 1970, big endian,
 * 8 bytes), 16 bytes of HMAC-SHA256 over version, expiry, call_sid, a NUL and the pod; then the call_sid.
 * No I/O and no clock here.
 */
#ifndef GATEWAY_TICKET_H
#define GATEWAY_TICKET_H

#include "base/base.h"
#include "core/names.h"

enum {
    TICKET_VERSION = 1,
    TICKET_EXPIRY = 8,
    TICKET_MAC = 16,
    TICKET_HEAD = 1 + TICKET_EXPIRY + TICKET_MAC,
    TICKET_BYTES_MAX = TICKET_HEAD + CALL_SID_MAX,
    TICKET_MAX = (TICKET_BYTES_MAX * 4 + 2) / 3, /* characters */
};

/* `call_sid` and `pod` are valid names. 0; -ENOMEM: OpenSSL could not. */
int ticket_make(struct slice secret, const char *call_sid, const char *pod, uint64_t expiry_s,
                char ret_ticket[TICKET_MAX + 1]) MUST_CHECK;

/*
 * 0: *ret_call_sid is the call it names. -EBADMSG: it is none of ours, not for this pod, or was changed;
 * -ETIME: it was good until its expiry. Takes the same time whichever secret fits and wherever it differs.
 */
int ticket_check(const struct slice *secrets, size_t count, struct slice ticket, const char *pod,
                 uint64_t now_s, char ret_call_sid[CALL_SID_MAX + 1]) MUST_CHECK;

#endif
