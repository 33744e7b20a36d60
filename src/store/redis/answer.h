/*
 * answer.h - reads a script's answer from front to back.
 *
 * The first thing that is not as expected fails the answer, and later reads give nothing: read freely, check
 * once at the end. Texts are copied into the arena.
 */
#ifndef STORE_REDIS_ANSWER_H
#define STORE_REDIS_ANSWER_H

#include <hiredis/hiredis.h>

#include "core/command.h"

struct answer {
    const redisReply *reply;
    size_t at;
    struct arena *arena;
    int err; /* 0, -EIO or -ENOMEM */
};

/* A reply that is no array fails at once. */
void answer_init(struct answer *answer, const redisReply *reply, struct arena *arena);

static inline size_t answer_left(const struct answer *answer)
{
    return answer->err ? 0 : answer->reply->elements - answer->at;
}

/* "" after a failure, never NULL. */
const char *answer_text(struct answer *answer);
/* The text where it lies; valid as long as the reply. */
struct slice answer_slice(struct answer *answer);
/* An integer, or a text of digits. */
uint64_t answer_u64(struct answer *answer);
/* Seconds in a text, as milliseconds; with an odd text of somebody else's, 0. */
uint64_t answer_seconds(struct answer *answer);
/* A cursor of SCAN, copied; true if it is the last one. */
bool answer_cursor(struct answer *answer, char cursor[24]);

/* Borrows what the call points to. 0 or -ENOMEM. */
int ended_add(struct ended_array *ended, struct arena *arena, const struct ended_call *call) MUST_CHECK;

/* `count` ended calls, five texts each. */
void answer_ended(struct answer *answer, size_t count, struct ended_array *ended);

/* What is known of a pod, from its field in the hash `pods`. */
struct pod_record {
    struct slice tier;
    struct slice source;
    struct slice incarnation;
    struct slice address;
    uint64_t held_until_ms;
    bool is_ready;
    bool is_terminating;
    bool is_pinned;
};

/* 0 or -EIO. The slices point into `text`. */
int pod_record_read(struct slice text, struct pod_record *ret_record) MUST_CHECK;
int pod_record_source(const struct pod_record *record, enum pod_source *ret_source) MUST_CHECK;

/* The address in the record that comes next; "" if the pod is gone. */
const char *answer_address(struct answer *answer);

/* What the record of a call says, as every script tells it: from the pod to when it was allocated. */
void answer_call_record(struct answer *answer, struct call_info *call);

/* Where a call is: all but its name, from the pod to the address. */
void answer_call(struct answer *answer, struct call_info *call);

#endif
