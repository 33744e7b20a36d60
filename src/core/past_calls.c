/*
 * past_calls.c - a ring of the calls that have ended lately.
 */
#include "core/past_calls.h"

#include <stdlib.h>

/* Its texts in one piece: call_sid, pod, pool, merchant, provider. */
struct past_entry {
    struct past_call call;
    char call_sid[];
};

/* The hash is beside the pointer, so that a query touches no entry but those of its call. */
struct past_slot {
    uint32_t hash;
    struct past_entry *entry;
};

/* FNV-1a. Names that collide cost a comparison, and nothing else. */
static uint32_t hash_of(const char *text)
{
    uint32_t hash = UINT32_C(2166136261);

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT32_C(16777619);
    return hash;
}

static struct past_slot *slot_at(const struct past_calls *past, size_t i)
{
    assert(i < past->count);
    return &past->ring[(past->first + i) % PAST_CALLS_MAX];
}

void past_calls_init(struct past_calls *past)
{
    *past = (struct past_calls){0};
}

static void forget_oldest(struct past_calls *past)
{
    struct past_slot *slot = slot_at(past, 0);

    free(slot->entry);
    *slot = (struct past_slot){0};
    past->first = (past->first + 1) % PAST_CALLS_MAX;
    past->count--;
}

void past_calls_release(struct past_calls *past)
{
    while (past->count > 0)
        forget_oldest(past);
    free(past->ring);
    past->ring = NULL;
}

static bool is_too_old(const struct past_entry *entry, uint64_t now_ms)
{
    return entry->call.ended_at_ms + PAST_KEEP_MS <= now_ms;
}

void past_calls_forget_old(struct past_calls *past, uint64_t now_ms)
{
    while (past->count > 0 && is_too_old(slot_at(past, 0)->entry, now_ms))
        forget_oldest(past);
}

/* Copies `text` to *at, behind which the next one goes. */
static const char *put_text(char **at, const char *text, size_t len)
{
    const char *copy = memcpy(*at, text, len + 1);

    *at += len + 1;
    return copy;
}

static struct past_entry *entry_new(const char *call_sid, const struct past_call *call)
{
    size_t sid_len = strlen(call_sid);
    size_t pod_len = strlen(call->pod);
    size_t pool_len = strlen(call->pool);
    size_t merchant_len = strlen(call->merchant_id);
    size_t provider_len = strlen(call->provider);
    struct past_entry *entry =
        malloc(sizeof(*entry) + sid_len + pod_len + pool_len + merchant_len + provider_len + 5);
    char *at;

    if (!entry)
        return NULL;
    entry->call = *call;
    at = entry->call_sid;
    (void)put_text(&at, call_sid, sid_len);
    entry->call.pod = put_text(&at, call->pod, pod_len);
    entry->call.pool = put_text(&at, call->pool, pool_len);
    entry->call.merchant_id = put_text(&at, call->merchant_id, merchant_len);
    entry->call.provider = put_text(&at, call->provider, provider_len);
    return entry;
}

void past_calls_add(struct past_calls *past, const char *call_sid, const struct past_call *call)
{
    struct past_entry *entry;

    assert(call_sid[0] && call->pod[0]);
    assert(call->how < PAST_ENDS && call->renewed_by < RENEWERS);
    if (!past->ring)
        past->ring = calloc(PAST_CALLS_MAX, sizeof(*past->ring));
    entry = past->ring ? entry_new(call_sid, call) : NULL;
    if (!entry)
        return;
    past_calls_forget_old(past, call->ended_at_ms);
    if (past->count == PAST_CALLS_MAX)
        forget_oldest(past);
    past->count++;
    *slot_at(past, past->count - 1) = (struct past_slot){.hash = hash_of(call_sid), .entry = entry};
}

static int copy_call(struct arena *arena, const struct past_call *call, struct past_call *ret_copy)
{
    *ret_copy = *call;
    ret_copy->pod = arena_strdup(arena, call->pod);
    ret_copy->pool = arena_strdup(arena, call->pool);
    ret_copy->merchant_id = arena_strdup(arena, call->merchant_id);
    ret_copy->provider = arena_strdup(arena, call->provider);
    return ret_copy->pod && ret_copy->pool && ret_copy->merchant_id && ret_copy->provider ? 0 : -ENOMEM;
}

int past_calls_find(const struct past_calls *past, const char *call_sid, uint64_t now_ms, struct arena *arena,
                    struct past_call **ret_calls, size_t *ret_count)
{
    const struct past_entry *found[PAST_SHOWN_MAX];
    uint32_t hash = hash_of(call_sid);
    struct past_call *calls;
    size_t count = 0;

    for (size_t i = past->count; i-- > 0 && count < PAST_SHOWN_MAX;) {
        const struct past_slot *slot = slot_at(past, i);

        if (slot->hash == hash && strcmp(slot->entry->call_sid, call_sid) == 0 &&
            !is_too_old(slot->entry, now_ms))
            found[count++] = slot->entry;
    }
    *ret_calls = NULL;
    *ret_count = count;
    if (count == 0)
        return 0;
    calls = arena_alloc(arena, count * sizeof(*calls));
    if (!calls)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        if (copy_call(arena, &found[count - 1 - i]->call, &calls[i]))
            return -ENOMEM;
    }
    *ret_calls = calls;
    return 0;
}

/* Only both ends: the simulator asks after every step. */
const char *past_calls_check(const struct past_calls *past, uint64_t now_ms)
{
    const size_t ends[] = {0, past->count > 1 ? past->count - 2 : 0, past->count > 0 ? past->count - 1 : 0};
    uint64_t before_ms = 0;

    if (past->count > PAST_CALLS_MAX || past->first >= PAST_CALLS_MAX || (past->count > 0 && !past->ring))
        return "more past calls than are kept";
    for (size_t i = 0; past->count > 0 && i < ARRAY_LEN(ends); i++) {
        const struct past_slot *slot = slot_at(past, ends[i]);

        if (!slot->entry || slot->hash != hash_of(slot->entry->call_sid))
            return "a past call cannot be found";
        if (slot->entry->call.ended_at_ms < before_ms || slot->entry->call.ended_at_ms > now_ms)
            return "past calls are not in the order of their ends";
        before_ms = slot->entry->call.ended_at_ms;
    }
    return NULL;
}
