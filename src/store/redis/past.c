/*
 * past.c - remembers released calls in Redis, for their stories.
 *
 * The list calls:ended has the calls that have ended lately (scripts/redis/lib/past.lua). A script that
 * ends calls adds them there itself. Releases are frequent, and a script would pay much for it. So the
 * answer of a release says what is to be remembered, and all releases of a tenth of a second are added
 * together by one plain command. Until then another router does not know the end of the call, and it is
 * lost if this process dies; nothing but stories depends on it.
 */
#include <stdio.h>

#include "store/redis/redis_internal.h"

enum { PAST_FLUSH_MS = 100 };

/* The list is cut when it is too long by SCRIPT_PAST_SLACK calls, as in lib/past.lua. */
static bool is_too_long(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer > 2 * (PAST_CALLS_MAX + SCRIPT_PAST_SLACK);
}

static void past_answered(void *arg, int err, const redisReply *reply);

static void past_cut(struct redis_store *store)
{
    char first[REDIS_NUMBER_MAX];
    struct slice args[] = {SLICE("LTRIM"), slice_of(store->keys.ended), SLICE(""), SLICE("-1")};

    snprintf(first, sizeof(first), "%d", -2 * PAST_CALLS_MAX);
    args[2] = slice_of(first);
    if (redis_link_command(store->link, args, ARRAY_LEN(args), 1, past_answered, store) == 0)
        store->past.under_way++;
}

/* An error does not matter: the calls have ended all the same. */
static void past_answered(void *arg, int err, const redisReply *reply)
{
    struct redis_store *store = arg;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    assert(store->past.under_way > 0);
    store->past.under_way--;
    if (err == 0 && is_too_long(reply) && !store->closing.is_begun)
        past_cut(store);
    redis_close_if_idle(store);
}

void past_flush(struct redis_store *store)
{
    struct slice args[2 + ARRAY_LEN(store->past.ends)] = {SLICE("RPUSH"), slice_of(store->keys.ended)};
    size_t start = 0;

    if (store->past.count == 0)
        return;
    for (size_t i = 0; i < store->past.count; i++) {
        args[2 + i] = (struct slice){store->past.texts.data + start, store->past.ends[i] - start};
        start = store->past.ends[i];
    }
    assert(start == store->past.texts.len);
    if (redis_link_command(store->link, args, 2 + store->past.count, 1, past_answered, store) == 0)
        store->past.under_way++;
    store->past.count = 0;
    strbuf_reset(&store->past.texts);
    (void)uv_timer_stop(&store->past.timer);
}

static void past_due(uv_timer_t *timer)
{
    struct redis_store *store = timer->data;

    MAGIC_CHECK(store, REDIS_STORE_MAGIC);
    past_flush(store);
}

static void append_line(struct strbuf *buf, const char *text)
{
    strbuf_append_char(buf, '\n');
    strbuf_append_str(buf, text);
}

void past_note(struct redis_store *store, const struct call_info *call, enum finish_reason how,
               const struct past_note *note)
{
    struct strbuf *texts = &store->past.texts;
    size_t before = texts->len;

    assert(store->past.count + 2 <= ARRAY_LEN(store->past.ends));
    strbuf_append_str(texts, call->call_sid);
    store->past.ends[store->past.count] = texts->len;
    strbuf_append_str(texts, finish_reason_name(how));
    append_line(texts, note->at);
    append_line(texts, call->pod);
    append_line(texts, call->pool);
    append_line(texts, call->merchant_id);
    append_line(texts, call->provider);
    strbuf_append_char(texts, '\n');
    strbuf_append_u64(texts, call->allocated_at_ms / 1000);
    append_line(texts, note->renewed);
    if (strbuf_failed(texts)) {
        /* This one is not remembered. */
        texts->failed = false;
        texts->len = before;
        past_flush(store);
        return;
    }
    store->past.ends[store->past.count + 1] = texts->len;
    store->past.count += 2;
    if (store->past.count == ARRAY_LEN(store->past.ends))
        past_flush(store);
    else if (store->past.count == 2)
        (void)uv_timer_start(&store->past.timer, past_due, PAST_FLUSH_MS, 0);
}

void past_start(struct redis_store *store, uv_loop_t *loop)
{
    strbuf_init(&store->past.texts, NULL, PAST_TEXTS_MAX);
    redis_open_timer(store, loop, &store->past.timer);
}

void past_release(struct redis_store *store)
{
    strbuf_release(&store->past.texts);
}
