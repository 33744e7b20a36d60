/*
 * presence.h - reports to the store that this router is alive, and learns how many others are.
 *
 * Says it at the start and every third of CARRIER_TTL_MS, whether or not a call is carried: a router that is
 * silent for longer is taken for dead, and what it carried for closed. The last word is that it leaves.
 * Inside the module only.
 */
#ifndef GATEWAY_PRESENCE_H
#define GATEWAY_PRESENCE_H

#include "gateway/ask.h"

struct presence {
    unsigned magic;
    const struct asker *asker;
    const char *carrier;
    uv_timer_t timer;
    struct ask ask;
    struct arena arena;
    uint64_t others;
    bool is_asking;
    bool is_known;   /* to the store */
    bool is_failing; /* said once, until it works again */
    bool is_leaving;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

/* `carrier` is this router, see core/command.h; it and `asker` are borrowed. */
void presence_start(struct presence *presence, uv_loop_t *loop, const char *carrier,
                    const struct asker *asker);

/* Says it now, to hear now how many others there are. */
void presence_renew(struct presence *presence);

/* Has the store still to answer? */
bool presence_is_asking(const struct presence *presence);

/* Other routers that were alive when the store answered last; 0 before it has. */
uint64_t presence_others(const struct presence *presence);

/* Says that the router leaves, as far as the store can be reached; then calls `stopped`, later. */
void presence_stop(struct presence *presence, void (*stopped)(void *arg), void *arg);

#endif
