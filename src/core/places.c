/*
 * places.c - waiting calls in their order: a sorted array, so that a call's position is a binary search.
 */
#include <stdlib.h>

#include "core/state.h"

enum { PLACES_FIRST = 16 };

int places_compare(int64_t place_a, const char *sid_a, int64_t place_b, const char *sid_b)
{
    if (place_a != place_b)
        return place_a < place_b ? -1 : 1;
    return strcmp(sid_a, sid_b);
}

int places_reserve(struct places *places, size_t more)
{
    size_t room = places->room ? places->room : PLACES_FIRST;
    struct waiter **waiters;

    if (places->count + more <= places->room)
        return 0;
    while (room < places->count + more)
        room *= 2;
    waiters = realloc(places->waiters, room * sizeof(struct waiter *));
    if (!waiters)
        return -ENOMEM;
    places->waiters = waiters;
    places->room = room;
    return 0;
}

size_t places_before(const struct places *places, int64_t place, const char *call_sid)
{
    size_t low = 0;
    size_t high = places->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct waiter *waiter = places->waiters[middle];

        if (places_compare(waiter->place, waiter->call_sid, place, call_sid) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void places_add(struct places *places, struct waiter *waiter)
{
    size_t at = places_before(places, waiter->place, waiter->call_sid);

    assert(places->count < places->room);
    assert(at == places->count || strcmp(places->waiters[at]->call_sid, waiter->call_sid) != 0);
    memmove(&places->waiters[at + 1], &places->waiters[at], (places->count - at) * sizeof(struct waiter *));
    places->waiters[at] = waiter;
    places->count++;
}

void places_remove(struct places *places, const struct waiter *waiter)
{
    size_t at = places_before(places, waiter->place, waiter->call_sid);

    assert(at < places->count && places->waiters[at] == waiter);
    places->count--;
    memmove(&places->waiters[at], &places->waiters[at + 1], (places->count - at) * sizeof(struct waiter *));
}

void places_release(struct places *places)
{
    assert(places->count == 0);
    free(places->waiters);
    *places = (struct places){0};
}
