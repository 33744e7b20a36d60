/*
 * finished_calls.h - remembers calls whose provider has reported their end.
 *
 * A provider never uses a call's name twice. So who asks for a pod for such a call has kept a webhook that
 * somebody else signed, and sends it again: it is given none. Remembers the last OVER_MAX calls of one
 * provider, in this process only; the oldest is forgotten for the newest. Each provider has a list of its
 * own, so that none can make the router forget the calls of another. Loop thread only.
 */
#ifndef API_FINISHED_CALLS_H
#define API_FINISHED_CALLS_H

#include "base/base.h"

enum { FINISHED_CALLS_MAX = 32768 };

struct finished_calls; /* opaque: see finished_calls.c */

int finished_calls_new(struct finished_calls **ret_calls) MUST_CHECK;
struct finished_calls *finished_calls_free(struct finished_calls *finished_calls);

/* Remembers it. Without memory it does not: the call's lease bounds what a replay can do. */
void finished_calls_add(struct finished_calls *finished_calls, const char *call_sid);

bool finished_calls_has(const struct finished_calls *finished_calls, const char *call_sid);

#endif
