/*
 * attempts.c - the requests that asked for a call. So one that was answered with an error can be
 * undone without an effect on another that got the pod.
 */
#include <stdlib.h>

#include "core/state.h"

static bool attempts_has(const struct attempts *attempts, uint64_t attempt)
{
    for (unsigned i = 0; i < attempts->count; i++) {
        if ((i == 0 ? attempts->first : attempts->more[i - 1]) == attempt)
            return true;
    }
    return false;
}

void attempts_add(struct attempts *attempts, uint64_t attempt)
{
    assert(attempts->count <= ATTEMPTS_MAX);
    if (attempts->are_lost || (attempt && attempts_has(attempts, attempt)))
        return;
    if (attempts->count > 0 && !attempts->more)
        attempts->more = malloc((ATTEMPTS_MAX - 1) * sizeof(*attempts->more));
    /*
     * An attempt that cannot be stored must not lose its call: from now on no undo ends the call.
     */
    if (!attempt || attempts->count == ATTEMPTS_MAX || (attempts->count > 0 && !attempts->more)) {
        attempts->are_lost = true;
        return;
    }
    if (attempts->count == 0)
        attempts->first = attempt;
    else
        attempts->more[attempts->count - 1] = attempt;
    attempts->count++;
    assert(attempts->count == 1 || attempts->more);
}

bool attempts_remove(struct attempts *attempts, uint64_t attempt)
{
    uint64_t last;

    if (attempts->are_lost || !attempts_has(attempts, attempt))
        return false;
    assert(attempts->count > 0);
    last = attempts->count == 1 ? attempts->first : attempts->more[attempts->count - 2];
    for (unsigned i = 1; i < attempts->count; i++) {
        if (attempts->more[i - 1] == attempt)
            attempts->more[i - 1] = last;
    }
    if (attempts->first == attempt)
        attempts->first = last;
    attempts->count--;
    return true;
}

void attempts_release(struct attempts *attempts)
{
    free(attempts->more);
    *attempts = (struct attempts){0};
}
