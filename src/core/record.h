/*
 * record.h - the changes that core reports, so that a store can make them durable.
 *
 * A record sets an absolute value. So replaying records gives the same state, also after a rule has
 * changed. A snapshot is a sequence of the same records.
 */
#ifndef CORE_RECORD_H
#define CORE_RECORD_H

#include "core/command.h"

/* The numbers are on disk: never reuse one. */
enum record_type {
    RECORD_TIERS = 1,
    RECORD_MERCHANT = 2,
    RECORD_MERCHANT_GONE = 3,
    RECORD_POD = 4,
    RECORD_POD_GONE = 5,
    RECORD_CALL = 6,
    RECORD_CALL_GONE = 7,
    RECORD_RENEWED = 8, /* written while it was not noted who renews, and for such calls */
    RECORD_TOMBSTONE = 9,
    RECORD_PLACED = 10,
    RECORD_VERSION = 11,
    RECORD_RENEWED_BY = 12, /* a granted call is taken by it, and by RECORD_RENEWED */
    /* In place of what was known of the waiting call. Behind RECORD_GRANTED: how the call has waited. */
    RECORD_WAITING = 13,
    RECORD_WAITING_GONE = 14,
    RECORD_GRANTED = 15,   /* behind the RECORD_CALL of a call that has waited and is not taken yet */
    RECORD_CONNECTED = 16, /* the call has had an open connection: it resumes */
};

enum {
    /* The flags of RECORD_WAITING. */
    RECORD_IS_RESCUED = 1,
    RECORD_WAS_RENEWED = 2,
    RECORD_WAITING_FLAGS = RECORD_IS_RESCUED | RECORD_WAS_RENEWED,
    /* The labels of a chain, with a space behind each. */
    WAITING_POOLS_MAX = CHAIN_MAX * (POOL_LABEL_MAX + 1),
};

struct record {
    enum record_type type;
    union {
        struct {
            const char *text;
        } tiers;
        struct {
            const char *id;
            const char *text; /* unused by RECORD_MERCHANT_GONE */
        } merchant;
        struct {
            const char *name; /* the only member that RECORD_POD_GONE uses */
            const char *address;
            const char *incarnation;
            const char *tier;
            enum pod_source source;
            bool is_ready;
            bool is_terminating;
            bool is_pinned;
            bool is_surplus;            /* the drain is that of COMMAND_SCALE */
            uint64_t draining_until_ms; /* 0: not draining; or DRAIN_WITHOUT_END */
            uint64_t held_until_ms;     /* 0: not held back */
        } pod;
        struct {
            const char *call_sid; /* the only member that RECORD_CALL_GONE uses */
            const char *pod;
            const char *pool;
            const char *merchant_id;
            const char *provider;
            uint64_t allocated_at_ms;
            uint64_t expires_at_ms;
        } call;
        struct {
            const char *call_sid;
            uint64_t expires_at_ms;
            uint64_t at_ms; /* RECORD_RENEWED has neither this nor `by` */
            uint64_t by;    /* enum renewer */
        } renewed;
        /* When a call got the pod that it is on, if that is not when it was allocated. */
        struct {
            const char *call_sid;
            uint64_t at_ms;
        } placed;
        /* A call that waits. Its holder and the last time that it was heard are not in records. */
        struct {
            const char *call_sid; /* the only member that RECORD_WAITING_GONE uses */
            const char *merchant_id;
            const char *provider;
            const char *pools; /* labels, with spaces between them */
            uint64_t since_ms;
            uint64_t until_ms;
            uint64_t priority;
            uint64_t ahead_ms; /* its place is since_ms less this */
            uint64_t flags;
        } waiting;
        struct {
            const char *call_sid;
            uint64_t since_ms; /* it has waited since then */
        } granted;
        struct {
            const char *call_sid;
        } connected;
        /* A version of a configuration: see core/history.h. */
        struct {
            const char *merchant_id; /* "": of the tiers */
            const char *by;
            const char *text; /* "": it was removed */
            uint64_t number;
            uint64_t at_ms;
        } version;
        /* The recorded end of a call, which RECORD_CALL_GONE has ended. */
        struct {
            const char *call_sid;
            uint64_t why; /* enum finish_reason */
            uint64_t at_ms;
        } tombstone;
    };
};

/* Borrows the record for the duration of the call. */
typedef void (*record_fn)(void *arg, const struct record *record);

#endif
