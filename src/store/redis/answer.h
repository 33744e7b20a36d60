/*
 * answer.h - reads a script's answer from front to back.
 *
 * The first thing that is not as expected fails the answer, and later reads give nothing: read
 * freely, check once at the end. Texts are copied into the arena.
 */
#ifndef STORE_REDIS_ANSWER_H
#define STORE_REDIS_ANSWER_H

#include <hiredis/hiredis.h>

#include "core/result.h"
#include "store/redis/pod_record.h"
#include "store/redis/redis_internal.h"

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
/* Seconds in a text, as milliseconds; 0 for a text that is no number. */
uint64_t answer_seconds(struct answer *answer);
/* The end of a drain: a time, '' for none, or DRAIN_HAS_NO_END. 0: none; or DRAIN_WITHOUT_END. */
uint64_t answer_drain_end(struct answer *answer, bool *ret_is_surplus);
/* A time in ms; 0 for a text that is no number. */
uint64_t answer_time(struct answer *answer);
/* A cursor of SCAN, copied; true if it is the last one. */
bool answer_cursor(struct answer *answer, char cursor[REDIS_CURSOR_MAX]);

/* `count` ended calls, SCRIPT_ENDED_TEXTS each. */
void answer_ended(struct answer *answer, size_t count, struct ended_array *ended);

/* The address in the record that comes next; "" if the pod is gone. */
const char *answer_address(struct answer *answer);

/*
 * The record of a call, in the order of every script: from the pod to the time of the allocation.
 */
void answer_call_record(struct answer *answer, struct call_info *call);

/* Where a call is: all but its name, from the pod to the address. */
void answer_call(struct answer *answer, struct call_info *call);

/*
 * Why a call got no pod, in the order of scripts/redis/lib/refusal.lua, behind its first number. NULL
 * after a failure.
 */
const struct refusal *answer_refusal(struct answer *answer, bool *ret_unreadable);

/* A waiting call, in the order of scripts/redis/lib/waiting_texts.lua: all but its name. */
void answer_waiting(struct answer *answer, struct waiting_call *call);

/* Behind a refusal: how many pods of each of its pools are free all the same. */
void answer_free_pods(struct answer *answer, const struct refusal *refusal);

/* The end of every decoder: what was read, or why not. */
int answer_end(const struct operation *operation, const struct answer *answer) MUST_CHECK;

/*
 * The answer of release_and_allocate.lua for a released call, behind its first number. `how`: it is to be
 * remembered. PAST_UNDONE: the script has done so.
 */
int released_read(struct operation *operation, struct answer *answer, const char *call_sid,
                  enum past_end how) MUST_CHECK;

#endif
