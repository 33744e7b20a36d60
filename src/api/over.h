/*
 * over.h - calls of which their provider has said that they are over.
 *
 * A provider never uses a call's name twice. So who asks for a pod for such a call has kept a webhook that
 * somebody else signed, and sends it again: it is given none. Remembers the last OVER_MAX calls of one
 * provider, in this process only; the oldest is forgotten for the newest. Each provider has a list of its
 * own, so that none can make the router forget the calls of another. Loop thread only.
 */
#ifndef API_OVER_H
#define API_OVER_H

#include "base/base.h"

enum { OVER_MAX = 32768 };

struct over; /* opaque: see over.c */

int over_new(struct over **ret_over) MUST_CHECK;
struct over *over_free(struct over *over);

/* Remembers it. Without memory it does not: the call's lease bounds what a replay can do. */
void over_add(struct over *over, const char *call_sid);

bool over_has(const struct over *over, const char *call_sid);

#endif
