/*
 * pool_history.c - a ring of samples for each pool, indexed by the number of the slot.
 */
#include "api/pool_history.h"

#include <stdlib.h>

/* A sample is valid if its slot is the one that is looked for: an old one needs no clearing. */
struct sample {
    uint32_t stamp; /* the slot and 1; 0: never written */
    uint32_t calls;
    uint32_t free;
    uint32_t capacity;
};

struct track {
    char *name;
    uint64_t last; /* the newest slot */
    struct sample samples[HISTORY_SLOTS];
};

struct refused {
    uint32_t stamp;
    uint32_t count;
};

struct pool_history {
    uint64_t started_ms;
    size_t count;
    size_t left_out; /* pools of the last status that found no room */
    struct track *tracks[HISTORY_POOLS_MAX];
    struct refused refused[HISTORY_SLOTS];
};

static uint32_t stamp_of(uint64_t slot)
{
    return (uint32_t)slot + 1;
}

static uint64_t slot_at(const struct pool_history *history, uint64_t now_ms)
{
    assert(now_ms >= history->started_ms);
    return (now_ms - history->started_ms) / HISTORY_INTERVAL_MS;
}

static uint64_t first_slot(uint64_t last)
{
    return last < HISTORY_SLOTS ? 0 : last + 1 - HISTORY_SLOTS;
}

int pool_history_new(uint64_t now_ms, struct pool_history **ret_history)
{
    struct pool_history *history = calloc(1, sizeof(*history));

    if (!history)
        return -ENOMEM;
    history->started_ms = now_ms;
    *ret_history = history;
    return 0;
}

static void track_free(struct track *track)
{
    free(track->name);
    free(track);
}

struct pool_history *pool_history_free(struct pool_history *history)
{
    if (!history)
        return NULL;
    for (size_t i = 0; i < history->count; i++)
        track_free(history->tracks[i]);
    free(history);
    return NULL;
}

/* Pools that were removed an hour ago. */
static void drop_old(struct pool_history *history, uint64_t slot)
{
    size_t kept = 0;

    for (size_t i = 0; i < history->count; i++) {
        if (history->tracks[i]->last < first_slot(slot))
            track_free(history->tracks[i]);
        else
            history->tracks[kept++] = history->tracks[i];
    }
    history->count = kept;
}

static struct track *track_new(const char *name)
{
    struct track *track = calloc(1, sizeof(*track));

    if (!track)
        return NULL;
    track->name = strdup(name);
    if (!track->name) {
        free(track);
        return NULL;
    }
    return track;
}

/* NULL: there is no room for a new one. */
static struct track *track_of(struct pool_history *history, const char *name)
{
    struct track *track;

    for (size_t i = 0; i < history->count; i++) {
        if (strcmp(history->tracks[i]->name, name) == 0)
            return history->tracks[i];
    }
    if (history->count == HISTORY_POOLS_MAX)
        return NULL;
    track = track_new(name);
    if (track)
        history->tracks[history->count++] = track;
    return track;
}

static uint32_t clipped(uint64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

void pool_history_take(struct pool_history *history, uint64_t now_ms, const struct result *status)
{
    uint64_t slot = slot_at(history, now_ms);

    drop_old(history, slot);
    history->left_out = 0;
    for (size_t i = 0; i < status->status.tier_count; i++) {
        const struct tier_status *tier = &status->status.tiers[i];
        struct track *track = track_of(history, tier->name);

        if (!track) {
            history->left_out++;
            continue;
        }
        track->last = slot;
        track->samples[slot % HISTORY_SLOTS] = (struct sample){
            .stamp = stamp_of(slot),
            .calls = clipped(tier->calls),
            .free = clipped(tier->free),
            .capacity = clipped(tier->capacity),
        };
    }
}

void pool_history_refused(struct pool_history *history, uint64_t now_ms)
{
    uint64_t slot = slot_at(history, now_ms);
    struct refused *refused = &history->refused[slot % HISTORY_SLOTS];

    if (refused->stamp != stamp_of(slot))
        *refused = (struct refused){.stamp = stamp_of(slot)};
    if (refused->count < UINT32_MAX)
        refused->count++;
}

static void put_numbers(const struct track *track, const char *key, size_t member, uint64_t last,
                        struct json_writer *json)
{
    json_key(json, key);
    json_array_begin(json);
    for (uint64_t slot = first_slot(last); slot <= last; slot++) {
        const struct sample *sample = &track->samples[slot % HISTORY_SLOTS];
        uint32_t number;

        if (sample->stamp != stamp_of(slot)) {
            json_null(json);
            continue;
        }
        memcpy(&number, (const char *)sample + member, sizeof(number));
        json_u64(json, number);
    }
    json_array_end(json);
}

static void put_track(const struct track *track, uint64_t last, struct json_writer *json)
{
    json_key(json, track->name);
    json_object_begin(json);
    put_numbers(track, "calls", offsetof(struct sample, calls), last, json);
    put_numbers(track, "free", offsetof(struct sample, free), last, json);
    put_numbers(track, "capacity", offsetof(struct sample, capacity), last, json);
    json_object_end(json);
}

static void put_refused(const struct pool_history *history, uint64_t last, struct json_writer *json)
{
    json_key(json, "refused");
    json_array_begin(json);
    for (uint64_t slot = first_slot(last); slot <= last; slot++) {
        const struct refused *refused = &history->refused[slot % HISTORY_SLOTS];

        json_u64(json, refused->stamp == stamp_of(slot) ? refused->count : 0);
    }
    json_array_end(json);
}

void pool_history_write(const struct pool_history *history, uint64_t now_ms, uint64_t wall_ms,
                        struct json_writer *json)
{
    uint64_t last = slot_at(history, now_ms);
    uint64_t age_ms = now_ms - history->started_ms - first_slot(last) * HISTORY_INTERVAL_MS;

    json_put_time(json, "from", wall_ms - min_u64(age_ms, wall_ms));
    json_put_u64(json, "interval_seconds", HISTORY_INTERVAL_MS / 1000);
    put_refused(history, last, json);
    json_key(json, "pools");
    json_object_begin(json);
    for (size_t i = 0; i < history->count; i++) {
        if (history->tracks[i]->last >= first_slot(last))
            put_track(history->tracks[i], last, json);
    }
    json_object_end(json);
    json_put_u64(json, "pools_left_out", history->left_out);
}
