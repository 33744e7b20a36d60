/*
 * record.h - what changed: the effects that core reports, so that a store can make them durable.
 *
 * A record sets something to an absolute value, so that replaying records gives the same state whatever the
 * rules were that led to them. A snapshot is a sequence of the same records.
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
    RECORD_RENEWED = 8,
    RECORD_OVER = 9,
    RECORD_PLACED = 10,
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
            uint64_t draining_until_ms; /* 0: not draining */
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
        } renewed;
        /* When a call got the pod that it is on, if that is not when it was allocated. */
        struct {
            const char *call_sid;
            uint64_t at_ms;
        } placed;
        /* The recorded end of a call, which RECORD_CALL_GONE has ended. */
        struct {
            const char *call_sid;
            uint64_t why; /* enum call_over */
            uint64_t at_ms;
        } over;
    };
};

/* Borrows the record for the duration of the call. */
typedef void (*record_fn)(void *arg, const struct record *record);

#endif
