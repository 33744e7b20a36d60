/*
 * ticket.h - a signed text: it allows one call to use one URL of one pod, until its expiry.
 *
 * One path segment: base64url without padding of a version byte, the expiry (seconds since 1970, big endian,
 * 8 bytes), 16 bytes of HMAC-SHA256, and the call_sid. The MAC is over version, expiry, the purpose (1 byte),
 * call_sid, a NUL, the pod, a NUL and the path. Purpose, pod and path are not in the ticket: whoever checks
 * it knows them. The path is what the pod is asked for, to the letter, percent signs and all, without the
 * query: providers drop and add queries.
 *
 * Version 1, of routers before this one, signs neither purpose nor path. Nobody makes such tickets any more,
 * and none can be made from others. They are still accepted, for streams, because a call must be able to come
 * back to a router that was updated in the meantime; the last of them is worthless CALL_MAX_DURATION after
 * the last old router has stopped.
 *
 * No I/O and no clock here.
 */
#ifndef GATEWAY_TICKET_H
#define GATEWAY_TICKET_H

#include "base/base.h"
#include "core/names.h"

enum {
    TICKET_VERSION = 2,
    TICKET_OLD_VERSION = 1,
    TICKET_EXPIRY = 8,
    TICKET_MAC = 16,
    TICKET_HEAD = 1 + TICKET_EXPIRY + TICKET_MAC,
    TICKET_BYTES_MAX = TICKET_HEAD + CALL_SID_MAX,
    TICKET_MAX = (TICKET_BYTES_MAX * 4 + 2) / 3, /* characters */
    TICKET_PATH_MAX = 8192,                      /* no request can have a longer one */
};

enum ticket_purpose {
    TICKET_STREAM = 1, /* a connection to the pod */
    TICKET_HOLD = 2,   /* a connection of a call that has no pod yet */
};

/* What a ticket is good for. Borrowed. */
struct ticket_use {
    enum ticket_purpose purpose;
    const char *pod; /* "" for TICKET_HOLD */
    struct slice path;
};

/*
 * `call_sid` and the pod are valid names. 0; -ENAMETOOLONG: the path is longer than TICKET_PATH_MAX; -ENOMEM:
 * OpenSSL could not.
 */
int ticket_make(struct slice secret, const char *call_sid, const struct ticket_use *use, uint64_t expiry_s,
                char ret_ticket[TICKET_MAX + 1]) MUST_CHECK;

/*
 * 0: *ret_call_sid is the call it names. -EBADMSG: it is none of ours, not for this use, or was changed;
 * -ETIME: it was good until its expiry. Takes the same time whichever secret fits and wherever it differs.
 */
int ticket_check(const struct slice *secrets, size_t count, struct slice ticket, const struct ticket_use *use,
                 uint64_t now_s, char ret_call_sid[CALL_SID_MAX + 1]) MUST_CHECK;

#endif
