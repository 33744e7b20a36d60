/*
 * wait.c - WAIT, one for all callers that wait.
 *
 * Redis delays all that a connection sends after WAIT until WAIT is answered. So there is one at a
 * time, with a short timeout, and it counts for all callers that asked before it was sent. While a
 * replica is away it is sent again until the callers' time is over; other requests pass in between.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/link_internal.h"

static void waiter_finish(struct redis_link *link, struct waiter *waiter, int err)
{
    list_remove(&waiter->link);
    list_append(&link->waits.finished, &waiter->link);
    waiter->err = err;
    link_wake(link);
}

static void waiter_answer(struct redis_link *link, struct waiter *waiter, int err, const redisReply *reply)
{
    struct waiter copy = *waiter;

    list_remove(&waiter->link);
    free(waiter);
    requests_discharge(link, 0);
    copy.done(copy.arg, err, err ? NULL : reply);
}

void waiters_init(struct redis_link *link)
{
    list_init(&link->waits.waiting);
    list_init(&link->waits.finished);
}

void waiters_forget_sent(struct redis_link *link)
{
    link->waits.is_sent = false;
}

void waiters_fail(struct redis_link *link, int err)
{
    MAGIC_CHECK(link, LINK_MAGIC);
    LIST_FOR_EACH (at, &link->waits.waiting) {
        waiter_finish(link, LIST_ENTRY(at, struct waiter, link), err);
    }
}

void waiters_deliver(struct redis_link *link)
{
    static const redisReply none = {.type = REDIS_REPLY_INTEGER};

    while (!list_is_empty(&link->waits.finished)) {
        struct waiter *waiter = LIST_ENTRY(link->waits.finished.next, struct waiter, link);

        waiter_answer(link, waiter, waiter->err, &none);
    }
}

/*
 * Not while a request from before it is without an answer: that one stands behind this WAIT,
 * because it came later or because it had to be sent again when its script was not there.
 */
static bool waiter_is_covered(const struct redis_link *link, const struct waiter *waiter)
{
    const struct request *oldest = LIST_ENTRY(link->requests.by_age.next, struct request, by_age);

    if (waiter->mark_key)
        return false;
    return list_is_empty(&link->requests.by_age) || oldest->number > waiter->number;
}

static void waiters_answered(void *arg, int err, const redisReply *reply)
{
    struct redis_link *link = arg;
    bool is_enough;
    uint64_t now_ms;
    struct list sent;

    MAGIC_CHECK(link, LINK_MAGIC);
    is_enough = !err && reply->type == REDIS_REPLY_INTEGER && reply->integer >= link->settings.wait_replicas;
    now_ms = uv_now(link->loop);
    link->waits.is_sent = false;
    list_init(&sent);
    /*
     * Their callbacks may ask anew or close the link: they are taken out before the first one is
     * called.
     */
    LIST_FOR_EACH (at, &link->waits.waiting) {
        struct waiter *waiter = LIST_ENTRY(at, struct waiter, link);

        if (err < 0)
            waiter->err = err;
        else if (!is_enough || !waiter_is_covered(link, waiter))
            waiter->err = now_ms >= waiter->deadline_ms ? -ETIMEDOUT : 0;
        if (waiter->err || (is_enough && waiter_is_covered(link, waiter))) {
            list_remove(at);
            list_append(&sent, at);
        }
    }
    link_wake(link);
    while (!list_is_empty(&sent)) {
        struct waiter *waiter = LIST_ENTRY(sent.next, struct waiter, link);

        waiter_answer(link, waiter, waiter->err, reply);
    }
}

/* A mark that could not be written leaves nothing that WAIT could wait for. */
static void waiters_marked(void *arg, int err, const redisReply *reply UNUSED)
{
    if (err < 0)
        waiters_fail(arg, err);
}

/*
 * Redis 7.2 and later, and Valkey, remember for each connection where its own last write stands
 * among all writes, and WAIT waits for that place; before 7.2 it was the place of its last command
 * of any kind. A connection that has only read would get the answer at once that all replicas have
 * it. One mark is enough for all that wait now.
 */
static int waiters_mark(struct redis_link *link)
{
    const char *key = NULL;

    LIST_FOR_EACH (at, &link->waits.waiting) {
        struct waiter *waiter = LIST_ENTRY(at, struct waiter, link);

        key = waiter->mark_key ? waiter->mark_key : key;
        waiter->mark_key = NULL;
    }
    if (!key)
        return 0;
    return request_internal(
        link, (struct slice[]){SLICE("SET"), slice_of(key), SLICE("1"), SLICE("EX"), SLICE("60")}, 5,
        waiters_marked, link);
}

void waiters_send(struct redis_link *link)
{
    char replicas[16];
    char slice_ms[24];
    struct slice args[] = {SLICE("WAIT"), {replicas, 0}, {slice_ms, 0}};
    uint64_t ms = max_u64(1, min_u64(LINK_WAIT_SLICE_MS, link->settings.timeout_ms / 2));
    int err;

    if (link->waits.is_sent || list_is_empty(&link->waits.waiting) || link->session.state != LINK_UP)
        return;
    args[1].len = (size_t)snprintf(replicas, sizeof(replicas), "%d", link->settings.wait_replicas);
    args[2].len = (size_t)snprintf(slice_ms, sizeof(slice_ms), "%llu", (unsigned long long)ms);
    err = waiters_mark(link);
    if (err == 0)
        err = request_internal(link, args, ARRAY_LEN(args), waiters_answered, link);
    if (err < 0) {
        waiters_fail(link, err == -ENOTCONN ? -ENOTCONN : -EIO);
        return;
    }
    link->waits.is_sent = true;
}

int redis_link_wait(struct redis_link *link, const char *mark_key, redis_reply_fn done, void *arg)
{
    bool is_needed = link->settings.wait_replicas > 0;
    struct waiter *waiter;
    int err;

    assert(done);
    if (link->session.state != LINK_UP)
        return -ENOTCONN;
    err = requests_admit(link, 0);
    if (err < 0)
        return err;
    waiter = calloc(1, sizeof(*waiter));
    if (!waiter) {
        requests_discharge(link, 0);
        return -ENOMEM;
    }
    waiter->done = done;
    waiter->arg = arg;
    waiter->mark_key = is_needed ? mark_key : NULL;
    waiter->number = link->requests.numbered;
    waiter->deadline_ms = uv_now(link->loop) + link->settings.timeout_ms;
    list_append(is_needed ? &link->waits.waiting : &link->waits.finished, &waiter->link);
    link_wake(link);
    return 0;
}
