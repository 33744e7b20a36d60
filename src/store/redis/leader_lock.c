/*
 * leader_lock.c - takes, renews and gives back the leader's lock in Redis, on a timer.
 */
#include "store/redis/leader_lock.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/redis/leader_script.h"
#include "store/redis/script_interface.h"

enum {
    LEADER_LOCK_MAGIC = 0x6c6f636b,
    LEADER_NAME_MAX = 255,
    LEADER_NUMBER_MAX = 24,
    LEADER_CONNECT_LOOK_MS = 100, /* between looks at a link that is down: asking it costs nothing */
};

struct redis_leader_lock {
    unsigned magic;
    struct redis_leader_lock_settings settings;
    struct redis_link *link;
    uv_timer_t timer;
    char name[LEADER_NAME_MAX + 1]; /* of the leader, as far as we know */
    uint64_t fence;                 /* while we lead */
    bool is_leader;
    bool is_asking; /* an answer is under way */
    bool is_stopping;
    uint64_t asked_at_ms;    /* elapsed; when the question under way was sent */
    uint64_t renewed_at_ms;  /* elapsed; when the question was sent that last confirmed us */
    uint64_t followed_at_ms; /* elapsed; when another one was last seen to lead; 0: never */
    void (*stopped)(void *arg);
    void *stopped_arg;
};

bool redis_leader_lock_leads(const struct redis_leader_lock *leader)
{
    return leader->is_leader && !leader->is_stopping &&
           clock_elapsed_ms() - leader->renewed_at_ms < leader->settings.renew_deadline_ms;
}

uint64_t redis_leader_lock_fence(const struct redis_leader_lock *leader)
{
    return leader->fence;
}

static void leader_tell(struct redis_leader_lock *leader, bool is_leader, const char *name)
{
    if (leader->is_leader == is_leader && strcmp(leader->name, name) == 0)
        return;
    leader->is_leader = is_leader;
    snprintf(leader->name, sizeof(leader->name), "%s", name);
    log_info(is_leader ? "this router leads" : "this router follows", log_str("leader", leader->name),
             log_str("identity", leader->settings.identity));
    if (!leader->is_stopping)
        leader->settings.on_change(leader->settings.on_change_arg, is_leader, leader->name);
}

static void leader_closed(uv_handle_t *handle)
{
    struct redis_leader_lock *leader = handle->data;
    void (*stopped)(void *arg);
    void *arg;

    MAGIC_CHECK(leader, LEADER_LOCK_MAGIC);
    stopped = leader->stopped;
    arg = leader->stopped_arg;
    free(leader);
    stopped(arg);
}

static void leader_close(struct redis_leader_lock *leader)
{
    MAGIC_CHECK(leader, LEADER_LOCK_MAGIC);
    uv_close((uv_handle_t *)&leader->timer, leader_closed);
}

/* Sends the script; `what` is SCRIPT_LEADER_TAKE, _WAIT or _GIVE. */
static int leader_ask(struct redis_leader_lock *leader, const char *what, redis_reply_fn done)
{
    char duration[LEADER_NUMBER_MAX];
    const char *const texts[] = {
        [SCRIPT_LEADER_ARG_NAME - SCRIPT_COMMON_ARGS] = leader->settings.identity,
        [SCRIPT_LEADER_ARG_LOCK_MS - SCRIPT_COMMON_ARGS] = duration,
        [SCRIPT_LEADER_ARG_WHAT - SCRIPT_COMMON_ARGS] = what,
    };

    snprintf(duration, sizeof(duration), "%llu", (unsigned long long)leader->settings.duration_ms);
    return leader_script_call(leader->link, SCRIPT_LEADER, leader->settings.key_prefix, SCRIPT_KEY_LEADER,
                              texts, done, leader);
}

static void leader_given(void *arg, int err UNUSED, const redisReply *reply UNUSED)
{
    leader_close(arg);
}

static void leader_give_up(struct redis_leader_lock *leader)
{
    bool was_leader = leader->is_leader;

    leader->is_leader = false;
    if (!was_leader || leader_ask(leader, SCRIPT_LEADER_GIVE, leader_given) < 0)
        leader_close(leader);
}

/* The lock was not confirmed for too long: another router may be about to lead. */
static void leader_check_deadline(struct redis_leader_lock *leader)
{
    if (leader->is_leader && !redis_leader_lock_leads(leader)) {
        log_warn(
            "the leader's lock could not be renewed in time: another router may lead now, and calls go on");
        leader_tell(leader, false, "");
    }
}

static void leader_answered(void *arg, int err, const redisReply *reply)
{
    struct redis_leader_lock *leader = arg;
    bool is_shaped = err == 0 && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                     reply->element[0]->type == REDIS_REPLY_STRING &&
                     reply->element[1]->type == REDIS_REPLY_STRING;

    MAGIC_CHECK(leader, LEADER_LOCK_MAGIC);
    leader->is_asking = false;
    if (leader->is_stopping) {
        leader_give_up(leader);
        return;
    }
    if (!is_shaped) {
        leader_check_deadline(leader);
        return;
    }
    if (strcmp(reply->element[0]->str, leader->settings.identity) == 0) {
        /*
         * From when it was asked, not from when the answer came: the lock runs from somewhere in
         * between.
         */
        leader->renewed_at_ms = leader->asked_at_ms;
        leader->fence = strtoull(reply->element[1]->str, NULL, 10);
        leader_tell(leader, true, leader->settings.identity);
        leader_check_deadline(leader);
    } else {
        if (reply->element[0]->len > 0)
            leader->followed_at_ms = clock_elapsed_ms();
        leader_tell(leader, false, reply->element[0]->str);
    }
}

/*
 * The leader remembers which pods were heartbeating, and holds those back after the store has lost
 * everything. So a wiped store is left to the former leader, for as long as a silent leader is
 * waited for.
 */
static const char *leader_question(const struct redis_leader_lock *leader)
{
    return !leader->is_leader && leader->followed_at_ms &&
                   clock_elapsed_ms() - leader->followed_at_ms < leader->settings.duration_ms
               ? SCRIPT_LEADER_WAIT
               : SCRIPT_LEADER_TAKE;
}

static void leader_due(uv_timer_t *timer)
{
    struct redis_leader_lock *leader = timer->data;

    MAGIC_CHECK(leader, LEADER_LOCK_MAGIC);
    leader_check_deadline(leader);
    if (!leader->is_asking) {
        leader->asked_at_ms = clock_elapsed_ms();
        leader->is_asking = leader_ask(leader, leader_question(leader), leader_answered) == 0;
    }
    uv_timer_start(timer, leader_due,
                   leader->is_asking ? leader->settings.retry_ms
                                     : min_u64(leader->settings.retry_ms, LEADER_CONNECT_LOOK_MS),
                   0);
}

int redis_leader_lock_new(uv_loop_t *loop, const struct redis_leader_lock_settings *settings,
                          struct redis_link *link, struct redis_leader_lock **ret_leader)
{
    struct redis_leader_lock *leader = calloc(1, sizeof(*leader));

    if (!leader)
        return -ENOMEM;
    leader->magic = LEADER_LOCK_MAGIC;
    leader->settings = *settings;
    leader->link = link;
    uv_timer_init(loop, &leader->timer);
    leader->timer.data = leader;
    uv_timer_start(&leader->timer, leader_due, 0, 0);
    *ret_leader = leader;
    return 0;
}

void redis_leader_lock_stop(struct redis_leader_lock *leader, void (*stopped)(void *arg), void *arg)
{
    leader->is_stopping = true;
    leader->stopped = stopped;
    leader->stopped_arg = arg;
    uv_timer_stop(&leader->timer);
    if (!leader->is_asking)
        leader_give_up(leader);
}
