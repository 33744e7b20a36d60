/*
 * allocate_waits.c - when requests that are kept open ask the store again: a map of their calls, and a heap
 * of their times.
 */
#include "api/allocate_waits.h"

#include <stdlib.h>

#include "base/clock.h"

enum {
    WAITS_ASK_MS = 5000,   /* how often each asks; well within WAIT_SILENT_MS */
    WAITS_RETRY_MS = 1000, /* the same while the store cannot answer */
    WAITS_LOOK_MS = 1000,  /* how often each looks whether its client is still there */
    WAITS_WOKEN_MAX = 100, /* at once; the others in the next turn of the loop */
};

struct allocate_waits {
    uv_loop_t *loop;
    uv_timer_t timer; /* made for the first one who waits */
    struct map by_sid;
    struct heap by_time;
    bool has_timer;
    bool is_stopped;
};

int allocate_waits_new(uv_loop_t *loop, struct allocate_waits **ret_waits)
{
    struct allocate_waits *waits = calloc(1, sizeof(*waits));

    if (!waits)
        return -ENOMEM;
    waits->loop = loop;
    waits->is_stopped = !loop;
    map_init(&waits->by_sid);
    heap_init(&waits->by_time);
    *ret_waits = waits;
    return 0;
}

struct allocate_waits *allocate_waits_free(struct allocate_waits *waits)
{
    if (!waits)
        return NULL;
    assert(waits->by_sid.count == 0 && waits->by_time.count == 0);
    map_release(&waits->by_sid);
    heap_release(&waits->by_time);
    free(waits);
    return NULL;
}

static enum allocate_wake waits_reason(const struct allocate_wait *wait, uint64_t now_ms)
{
    if (!wait->is_added)
        return WAKE_NOW; /* replaced: see allocate_waits_add */
    if (wait->is_told || wait->is_ending || now_ms >= wait->until_ms || now_ms >= wait->ask_at_ms)
        return WAKE_ASK;
    return WAKE_LOOK;
}

static void waits_set_timer(struct allocate_waits *waits);

static void waits_due(uv_timer_t *timer)
{
    struct allocate_waits *waits = timer->data;
    uint64_t now_ms = clock_elapsed_ms();

    for (size_t left = WAITS_WOKEN_MAX; left > 0; left--) {
        struct heap_node *first = heap_first(&waits->by_time);
        struct allocate_wait *wait;
        enum allocate_wake why;

        if (!first || first->at > now_ms)
            break;
        wait = CONTAINER_OF(first, struct allocate_wait, due);
        why = waits_reason(wait, now_ms);
        heap_remove(&waits->by_time, first);
        wait->is_told = false;
        wait->wake(wait, why);
    }
    waits_set_timer(waits);
}

static void waits_set_timer(struct allocate_waits *waits)
{
    struct heap_node *first = heap_first(&waits->by_time);
    uint64_t now_ms = clock_elapsed_ms();

    if (!first || waits->is_stopped)
        return;
    if (!waits->has_timer) {
        waits->has_timer = true;
        uv_timer_init(waits->loop, &waits->timer);
        waits->timer.data = waits;
    }
    /* The loop's own time may be older than ours by the length of this turn. */
    uv_update_time(waits->loop);
    uv_timer_start(&waits->timer, waits_due, first->at > now_ms ? first->at - now_ms : 0, 0);
}

static void waits_set(struct allocate_waits *waits, struct allocate_wait *wait, uint64_t at_ms)
{
    heap_set(&waits->by_time, &wait->due, at_ms);
    waits_set_timer(waits);
}

void allocate_waits_add(struct allocate_waits *waits, struct allocate_wait *wait, const char *call_sid)
{
    size_t len = strlen(call_sid);
    struct map_node *node;

    assert(!wait->is_added);
    if (waits->is_stopped || map_reserve(&waits->by_sid) < 0 ||
        heap_reserve(&waits->by_time, waits->by_sid.count + waits->by_time.count + 1) < 0)
        return; /* those that were replaced may still be in the heap, but not in the map */
    node = map_get(&waits->by_sid, call_sid, len);
    if (node) {
        struct allocate_wait *older = CONTAINER_OF(node, struct allocate_wait, node);

        map_remove(&waits->by_sid, node);
        older->is_added = false;
        if (older->due.place > 0)
            waits_set(waits, older, 0);
    }
    map_put(&waits->by_sid, &wait->node, call_sid, len);
    wait->is_added = true;
}

void allocate_waits_sleep_on(struct allocate_waits *waits, struct allocate_wait *wait)
{
    uint64_t look_at_ms = clock_elapsed_ms() + WAITS_LOOK_MS;

    assert(wait->is_added && wait->due.place == 0);
    waits_set(waits, wait, wait->is_told ? 0 : min_u64(look_at_ms, min_u64(wait->ask_at_ms, wait->until_ms)));
}

static bool waits_sleep(struct allocate_waits *waits, struct allocate_wait *wait, uint64_t pause_ms)
{
    uint64_t now_ms = clock_elapsed_ms();

    if (!wait->is_added || wait->is_ending || waits->is_stopped || now_ms >= wait->until_ms)
        return false;
    wait->ask_at_ms = now_ms + pause_ms;
    allocate_waits_sleep_on(waits, wait);
    return true;
}

bool allocate_waits_sleep(struct allocate_waits *waits, struct allocate_wait *wait)
{
    return waits_sleep(waits, wait, WAITS_ASK_MS);
}

bool allocate_waits_retry(struct allocate_waits *waits, struct allocate_wait *wait)
{
    return waits_sleep(waits, wait, WAITS_RETRY_MS);
}

void allocate_waits_remove(struct allocate_waits *waits, struct allocate_wait *wait)
{
    heap_remove(&waits->by_time, &wait->due);
    if (wait->is_added)
        map_remove(&waits->by_sid, &wait->node);
    wait->is_added = false;
}

void allocate_waits_call_changed(struct allocate_waits *waits, const char *call_sid)
{
    struct map_node *node = map_get(&waits->by_sid, call_sid, strlen(call_sid));
    struct allocate_wait *wait = node ? CONTAINER_OF(node, struct allocate_wait, node) : NULL;

    if (!wait)
        return;
    wait->is_told = true;
    if (wait->due.place > 0)
        waits_set(waits, wait, 0);
}

void allocate_waits_send_away(struct allocate_waits *waits)
{
    MAP_FOR_EACH (node, &waits->by_sid) {
        struct allocate_wait *wait = CONTAINER_OF(node, struct allocate_wait, node);

        wait->is_ending = true;
        if (wait->due.place > 0)
            heap_set(&waits->by_time, &wait->due, 0);
    }
    waits_set_timer(waits);
}

void allocate_waits_stop(struct allocate_waits *waits)
{
    struct heap_node *first;

    if (waits->is_stopped)
        return;
    allocate_waits_send_away(waits);
    waits->is_stopped = true;
    if (waits->has_timer)
        uv_close((uv_handle_t *)&waits->timer, NULL);
    while ((first = heap_first(&waits->by_time))) {
        struct allocate_wait *wait = CONTAINER_OF(first, struct allocate_wait, due);

        heap_remove(&waits->by_time, first);
        wait->wake(wait, wait->is_added ? WAKE_ASK : WAKE_NOW);
    }
}
