/*
 * fence.c - claims the leader's fence number in Redis after a write of the Lease, and notes other
 * holders.
 */
#include "store/redis/fence.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/redis/leader_script.h"
#include "store/redis/script_interface.h"
#include "store/store.h"

enum {
    FENCE_MAGIC = 0x66656e63,
    FENCE_NUMBER_MAX = 24,
    FENCE_CONNECT_LOOK_MS = 100, /* between looks at a link that is down: asking it costs nothing */
};

struct redis_fence {
    unsigned magic;
    struct redis_fence_settings settings;
    struct redis_link *link;
    uv_timer_t timer;
    uint64_t number;
    uint64_t claimed_at_ms; /* elapsed; when we were last told to claim */
    bool is_due;            /* a claim has not been sent yet */
    bool is_asking;         /* an answer is under way */
    bool is_seeing;         /* the same, of redis_fence_see */
    bool is_forgotten;      /* the answer under way counts no more */
    bool has_complained;
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

uint64_t redis_fence_number(const struct redis_fence *fence)
{
    return fence->number;
}

static void fence_closed(uv_handle_t *handle)
{
    struct redis_fence *fence = handle->data;
    void (*stopped)(void *arg);
    void *arg;

    MAGIC_CHECK(fence, FENCE_MAGIC);
    stopped = fence->stopped;
    arg = fence->stopped_arg;
    free(fence);
    stopped(arg);
}

/* Once nothing is under way any more. */
static void fence_close(struct redis_fence *fence)
{
    if (fence->is_asking || fence->is_seeing)
        return;
    uv_close((uv_handle_t *)&fence->timer, fence_closed);
}

/*
 * A leader that has its number goes on with it: whether it still counts is asked at each of its
 * steps.
 */
static void fence_fail(struct redis_fence *fence, int err)
{
    if (fence->number || fence->has_complained)
        return;
    fence->has_complained = true;
    log_warn(
        "the leader has no fence number in Redis yet: until it has one, changes of pods are not followed; "
        "it is tried again with the next renewal of the lease",
        log_str("error", store_error_text(err)));
}

static void fence_set(struct redis_fence *fence, uint64_t number)
{
    if (fence->number == number)
        return;
    log_info("the leader has a new fence number", log_num("fence", (int64_t)number));
    fence->number = number;
    fence->has_complained = false;
    fence->settings.on_change(fence->settings.on_change_arg);
}

static void fence_send(struct redis_fence *fence);

static void fence_answered(void *arg, int err, const redisReply *reply)
{
    struct redis_fence *fence = arg;
    bool counts;
    uint64_t number = 0;

    MAGIC_CHECK(fence, FENCE_MAGIC);
    counts = !fence->is_forgotten;
    fence->is_asking = false;
    fence->is_forgotten = false;
    if (fence->is_stopping) {
        fence_close(fence);
        return;
    }
    if (err == 0 && reply->type == REDIS_REPLY_STRING)
        number = strtoull(reply->str, NULL, 10);
    if (counts && number)
        fence_set(fence, number);
    else if (counts)
        fence_fail(fence, err ? err : -EPROTO);
    if (fence->is_due)
        fence_send(fence);
}

static int fence_ask(struct redis_fence *fence)
{
    char number[FENCE_NUMBER_MAX] = "", duration[FENCE_NUMBER_MAX];
    const char *const texts[] = {
        [SCRIPT_CLAIM_FENCE_ARG_FENCE - SCRIPT_COMMON_ARGS] = number,
        [SCRIPT_CLAIM_FENCE_ARG_LEADER - SCRIPT_COMMON_ARGS] = fence->settings.identity,
        [SCRIPT_CLAIM_FENCE_ARG_LEASE_MS - SCRIPT_COMMON_ARGS] = duration,
    };

    if (fence->number)
        snprintf(number, sizeof(number), "%llu", (unsigned long long)fence->number);
    snprintf(duration, sizeof(duration), "%llu", (unsigned long long)fence->settings.duration_ms);
    return leader_script_call(fence->link, SCRIPT_CLAIM_FENCE, fence->settings.key_prefix,
                              SCRIPT_KEY_LEADER_FENCE, texts, fence_answered, fence);
}

static void fence_due(uv_timer_t *timer)
{
    struct redis_fence *fence = timer->data;

    MAGIC_CHECK(fence, FENCE_MAGIC);
    fence_send(fence);
}

/*
 * A claim is good only near the write of the Lease that it follows. It waits a little for a
 * connection, as at the start of a process, and not longer: the next write brings the next claim.
 */
static void fence_send(struct redis_fence *fence)
{
    bool is_late = clock_elapsed_ms() - fence->claimed_at_ms >= fence->settings.patience_ms;
    int err = is_late ? -ETIMEDOUT : fence_ask(fence);

    fence->is_asking = err == 0;
    fence->is_due = err < 0 && !is_late;
    if (fence->is_due)
        uv_timer_start(&fence->timer, fence_due, FENCE_CONNECT_LOOK_MS, 0);
    else if (err < 0)
        fence_fail(fence, err);
}

void redis_fence_claim(struct redis_fence *fence)
{
    assert(!fence->is_stopping);
    fence->claimed_at_ms = clock_elapsed_ms();
    uv_timer_stop(&fence->timer);
    if (fence->is_asking)
        fence->is_due = true;
    else
        fence_send(fence);
}

static void fence_seen(void *arg, int err UNUSED, const redisReply *reply UNUSED)
{
    struct redis_fence *fence = arg;

    MAGIC_CHECK(fence, FENCE_MAGIC);
    fence->is_seeing = false;
    if (fence->is_stopping)
        fence_close(fence);
}

/* Nothing depends on any one of these: the next look at the Lease brings the next. */
void redis_fence_see(struct redis_fence *fence, const char *leader)
{
    char duration[FENCE_NUMBER_MAX];
    const char *const texts[] = {
        [SCRIPT_LEADER_ARG_NAME - SCRIPT_COMMON_ARGS] = leader,
        [SCRIPT_LEADER_ARG_LOCK_MS - SCRIPT_COMMON_ARGS] = duration,
        [SCRIPT_LEADER_ARG_WHAT - SCRIPT_COMMON_ARGS] = SCRIPT_LEADER_SEE,
    };

    assert(!fence->is_stopping);
    if (fence->is_seeing)
        return;
    snprintf(duration, sizeof(duration), "%llu", (unsigned long long)fence->settings.duration_ms);
    fence->is_seeing = leader_script_call(fence->link, SCRIPT_LEADER, fence->settings.key_prefix,
                                          SCRIPT_KEY_LEADER, texts, fence_seen, fence) == 0;
}

void redis_fence_forget(struct redis_fence *fence)
{
    fence->number = 0;
    fence->has_complained = false;
    fence->is_forgotten = fence->is_asking;
    fence->is_due = false;
    uv_timer_stop(&fence->timer);
}

int redis_fence_new(uv_loop_t *loop, const struct redis_fence_settings *settings, struct redis_link *link,
                    struct redis_fence **ret_fence)
{
    struct redis_fence *fence = calloc(1, sizeof(*fence));

    assert(settings->on_change);
    if (!fence)
        return -ENOMEM;
    fence->magic = FENCE_MAGIC;
    fence->settings = *settings;
    fence->link = link;
    uv_timer_init(loop, &fence->timer);
    fence->timer.data = fence;
    *ret_fence = fence;
    return 0;
}

void redis_fence_stop(struct redis_fence *fence, void (*stopped)(void *arg), void *arg)
{
    redis_fence_forget(fence);
    fence->is_stopping = true;
    fence->stopped = stopped;
    fence->stopped_arg = arg;
    fence_close(fence);
}
