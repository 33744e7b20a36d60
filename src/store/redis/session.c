/*
 * session.c - the state machine of a link: connects, greets, ticks, fails, rests, and changes
 * servers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/redis/link_internal.h"
#include "store/redis/reply.h"
#include "store/redis/resp.h"

enum { SESSION_LOG_EVERY_MS = 10000 }; /* while it stays down for the same reason */

static void session_connect(struct redis_link *link);
static void session_timed_out(uv_timer_t *timer);

/* xorshift64: nothing depends on it but that routers do not come back all at once. */
static uint64_t session_random(struct redis_link *link)
{
    link->jitter ^= link->jitter << 13;
    link->jitter ^= link->jitter >> 7;
    link->jitter ^= link->jitter << 17;
    return link->jitter;
}

static void session_log_down(struct redis_link *link, const char *reason, bool was_up)
{
    uint64_t now_ms = uv_now(link->loop);

    if (!was_up && strcmp(link->detail, reason) == 0 && now_ms - link->down_logged_ms < SESSION_LOG_EVERY_MS)
        return;
    link->down_logged_ms = now_ms;
    if (was_up)
        log_warn("redis connection lost", log_str("reason", reason));
    else
        log_warn("redis is not reachable", log_str("reason", reason),
                 log_num("failures", (int64_t)link->failures));
}

void session_drop_wire(struct redis_link *link)
{
    struct wire *wire = TAKE(link->wire);

    link->load_count = 0;
    link->is_waiting = false;
    if (wire)
        wire_drop(wire);
    waiters_fail(link, -ENOTCONN);
}

static void session_pause_over(uv_timer_t *timer)
{
    session_begin(timer->data);
}

/* With jitter: between half of it and all. */
static void session_pause(struct redis_link *link, uint64_t pause_ms)
{
    uint64_t half_ms = pause_ms / 2;

    link->state = LINK_RESTING;
    uv_timer_start(&link->phase, session_pause_over, half_ms + session_random(link) % (half_ms + 1), 0);
}

static bool session_has_choice(const struct redis_link *link)
{
    return !link->sentinels && targets_count(link) > 1;
}

static void session_rest(struct redis_link *link)
{
    uint64_t max_ms = link->sentinels ? LINK_BACKOFF_SENTINEL_MAX_MS : LINK_BACKOFF_MAX_MS;

    if (session_has_choice(link))
        max_ms = LINK_BACKOFF_CHOICE_MAX_MS;
    link->backoff_ms = link->backoff_ms ? link->backoff_ms * 2 : LINK_BACKOFF_MIN_MS;
    link->backoff_ms = min_u64(link->backoff_ms, max_ms);
    session_pause(link, link->backoff_ms);
}

/* Several servers that are dead in a row are passed quickly: the long pause is one for all of them. */
static void session_rest_in_round(struct redis_link *link)
{
    if (!session_has_choice(link)) {
        session_rest(link);
    } else if (link->round_left > 0) {
        link->round_left--;
        session_pause(link, LINK_BACKOFF_MIN_MS);
    } else {
        link->round_left = targets_count(link) - 1;
        session_rest(link);
    }
}

/*
 * Where to go from a connection that failed. One that was good for a while may be so again; else another
 * server may know better, in a cluster each of them.
 */
static void session_next_target(struct redis_link *link, bool was_up, bool was_stable)
{
    if (link->sentinels) {
        if (!was_up)
            sentinels_distrust(link->sentinels);
    } else if (!was_stable) {
        targets_next(link);
    }
    /* The nodes did not send the link back and forth: one of them is away. */
    if (!was_up || was_stable)
        link->moves = 0;
}

static void session_set_detail(struct redis_link *link, const char *reason)
{
    if (reason != link->detail)
        snprintf(link->detail, sizeof(link->detail), "%s", reason);
}

void session_fail(struct redis_link *link, const char *reason)
{
    bool was_up = link->state == LINK_UP || link->state == LINK_LEAVING;
    bool was_stable = was_up && uv_now(link->loop) - link->up_since_ms >= LINK_STABLE_MS;

    assert(link->state != LINK_CLOSING);
    link->failures++;
    session_log_down(link, reason, was_up);
    session_set_detail(link, reason);
    if (was_stable)
        link->backoff_ms = 0;
    session_next_target(link, was_up, was_stable);
    session_rest_in_round(link);
    session_drop_wire(link);
    requests_fail_parked(link);
    link_wake(link);
}

static void session_leave(struct redis_link *link)
{
    link->state = LINK_LEAVING;
    uv_timer_stop(&link->phase);
    link_wake(link);
}

void session_move(struct redis_link *link, const struct redis_address *target)
{
    char text[ADDRESS_TEXT_MAX];

    link->is_cluster = true;
    if (link->state != LINK_UP)
        return;
    address_text(target, text, sizeof(text));
    log_info("the keys are on another node of the cluster", log_str("node", text));
    snprintf(link->detail, sizeof(link->detail), "moving to the node %s", text);
    link->target = *target;
    session_leave(link);
}

void session_demoted(struct redis_link *link, const char *reason)
{
    link->must_be_master = true;
    if (link->state != LINK_UP)
        return;
    log_warn("this redis cannot write; looking for the master", log_str("reason", reason));
    session_set_detail(link, reason);
    link->failures++;
    session_leave(link);
}

void session_cluster_down(struct redis_link *link)
{
    uint64_t now_ms = uv_now(link->loop);

    if (!link->clusterdown_heard_ms || now_ms - link->clusterdown_heard_ms > LINK_STABLE_MS)
        link->clusterdown_since_ms = now_ms;
    link->clusterdown_heard_ms = now_ms;
    if (link->state != LINK_UP || !session_has_choice(link) ||
        now_ms - link->clusterdown_since_ms < LINK_CLUSTERDOWN_MS)
        return;
    /* All nodes say so until a replica is promoted; one that is cut off from the others does not stop. */
    log_warn("this node says that the cluster is down; asking another one");
    session_set_detail(link, "the cluster is down");
    link->failures++;
    targets_next(link);
    session_leave(link);
}

void session_leave_if_idle(struct redis_link *link)
{
    bool is_move = !list_is_empty(&link->parked);

    if (link->state != LINK_LEAVING || !wire_is_idle(link->wire))
        return;
    if (uv_now(link->loop) - link->up_since_ms >= LINK_STABLE_MS) {
        link->backoff_ms = 0;
        link->moves = 0;
    }
    session_rest(link);
    session_drop_wire(link);
    /*
     * Keys in several slots would send the link back and forth for ever. After a few moves in a row it
     * makes pauses like after any other failure, and the requests fail instead of going round.
     */
    if (is_move && ++link->moves <= LINK_MOVES_MAX) {
        uv_timer_stop(&link->phase);
        session_connect(link);
        return;
    }
    if (is_move)
        log_warn("the keys seem to be in several slots of the cluster; KEY_PREFIX={voice}: puts them in one");
    requests_fail_parked(link);
}

/* From when the answer is looked at, so that a script's deadline may come too early, but never too late. */
void session_set_clock(struct redis_link *link, uint64_t server_ms)
{
    link->clock_ms = (int64_t)server_ms - (int64_t)(uv_hrtime() / 1000000);
}

static bool session_may_be_unknown(const struct greeting *greeting, const char *text)
{
    if (greeting->kind == GREETING_SLOTS)
        return true;
    return greeting->kind != GREETING_AUTH && greeting->kind != GREETING_SELECT &&
           reply_has_code(text, "NOPERM");
}

static void session_refused(struct redis_link *link, enum greeting_kind kind, const char *text)
{
    char reason[LINK_DETAIL_MAX];
    char where[ADDRESS_TEXT_MAX];
    const char *password = link->settings.password;

    address_text(&link->target, where, sizeof(where));
    /* An old or odd server repeats the arguments of what it does not know. */
    if (kind == GREETING_AUTH && password[0] && strstr(text, password))
        text = "AUTH was refused";
    snprintf(reason, sizeof(reason), "%s: %s%.200s", where,
             reply_errno(text) == -EACCES ? "user or password is wrong or missing: " : "", text);
    /* Neither a wrong password nor a long load is over soon. */
    if (reply_errno(text) == -EACCES || kind == GREETING_AUTH)
        link->backoff_ms = LINK_BACKOFF_MAX_MS;
    session_fail(link, reason);
}

static bool role_is_master(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && reply->element[0]->str &&
           strcmp(reply->element[0]->str, "master") == 0;
}

static void session_nodes_answered(void *arg, int err, const redisReply *reply)
{
    if (err == 0)
        targets_learn(arg, reply);
}

/* Nodes are replaced in the course of time, and a good connection may last for months. */
static void session_refresh_nodes(struct redis_link *link)
{
    const struct slice slots[] = {SLICE("CLUSTER"), SLICE("SLOTS")};

    if (link->node_count == 0 || uv_now(link->loop) - link->nodes_asked_ms < LINK_NODES_EVERY_MS)
        return;
    link->nodes_asked_ms = uv_now(link->loop);
    if (request_internal(link, slots, ARRAY_LEN(slots), session_nodes_answered, link))
        log_debug("no memory to ask for the nodes of the cluster");
}

/* Any answer says that it lives; without one the deadline does its work. */
static void session_told_time(void *arg, int err, const redisReply *reply)
{
    uint64_t server_ms;

    if (err == 0 && reply_time(reply, &server_ms))
        session_set_clock(arg, server_ms);
}

static void session_tick(uv_timer_t *timer)
{
    struct redis_link *link = timer->data;
    const struct slice time[] = {SLICE("TIME")};

    if (!link->settings.channel)
        session_refresh_nodes(link);
    if (link->settings.channel)
        subscription_tick(link);
    else if (request_internal(link, time, 1, session_told_time, link))
        log_debug("no memory to ask for the server's time");
    if (link->sentinels && !sentinels_is_asking(link->sentinels))
        sentinels_ask(link->sentinels);
}

static void session_up(struct redis_link *link)
{
    char text[ADDRESS_TEXT_MAX];

    link->state = LINK_UP;
    link->round_left = 0;
    link->clusterdown_heard_ms = 0;
    link->up_since_ms = uv_now(link->loop);
    link->heard_ms = link->up_since_ms;
    link->detail[0] = '\0';
    address_text(&link->target, text, sizeof(text));
    if (link->settings.channel)
        log_debug("redis is connected for events", log_str("server", text));
    else
        log_info("redis is connected", log_str("server", text));
    uv_timer_start(&link->phase, session_tick, LINK_TICK_MS, LINK_TICK_MS);
    requests_resend_parked(link);
    if (link->settings.channel)
        subscription_start(link);
    link_wake(link);
}

static void session_greeted(struct wire_request *request, int err, const redisReply *reply)
{
    struct greeting *greeting = CONTAINER_OF(request, struct greeting, request);
    struct redis_link *link = greeting->link;
    char where[ADDRESS_TEXT_MAX];
    char reason[LINK_DETAIL_MAX];
    uint64_t server_ms;

    /* When the wire is lost or dropped, whoever does it says so. */
    if (err)
        return;
    if (greeting->kind == GREETING_SLOTS)
        targets_learn(link, reply);
    if (reply->type == REDIS_REPLY_ERROR && !session_may_be_unknown(greeting, reply->str)) {
        session_refused(link, greeting->kind, reply->str);
        return;
    }
    /* In a cluster a replica is as good as any: it names the owner of the slot. */
    if (greeting->kind == GREETING_ROLE && reply->type != REDIS_REPLY_ERROR && !link->is_cluster) {
        if (!role_is_master(reply)) {
            snprintf(reason, sizeof(reason), "%s is not a master",
                     address_text(&link->target, where, sizeof(where)));
            session_fail(link, reason);
            return;
        }
        link->must_be_master = targets_need_master(link);
    }
    /* Without the right to ask for it, the first script that comes too late says what time it is. */
    if (greeting->kind == GREETING_TIME && reply->type != REDIS_REPLY_ERROR) {
        if (!reply_time(reply, &server_ms)) {
            session_fail(link, "no answer to TIME that can be read");
            return;
        }
        session_set_clock(link, server_ms);
    }
    if (--link->greetings_left == 0)
        session_up(link);
}

static int session_greet(struct redis_link *link, enum greeting_kind kind, const struct slice *args,
                         size_t count)
{
    struct greeting *greeting = &link->greetings[kind];
    size_t len = resp_size(args, count);
    char *command = malloc(len + 1);
    int rc;

    if (!command)
        return -ENOMEM;
    *resp_write(command, args, count) = '\0';
    greeting->link = link;
    greeting->kind = kind;
    greeting->request.done = session_greeted;
    rc = wire_send(link->wire, command, len, &greeting->request);
    if (rc == 0)
        link->greetings_left++;
    free(command);
    return rc;
}

static int session_greet_all(struct redis_link *link)
{
    const struct redis_link_settings *settings = &link->settings;
    const struct slice user_auth[] = {SLICE("AUTH"), slice_of(settings->user), slice_of(settings->password)};
    const struct slice auth[] = {SLICE("AUTH"), slice_of(settings->password)};
    const struct slice slots[] = {SLICE("CLUSTER"), SLICE("SLOTS")};
    const struct slice role[] = {SLICE("ROLE")};
    const struct slice time[] = {SLICE("TIME")};
    const struct slice ping[] = {SLICE("PING")};
    char number[16];
    int rc = 0;

    link->greetings_left = 0;
    if (settings->user[0])
        rc = session_greet(link, GREETING_AUTH, user_auth, ARRAY_LEN(user_auth));
    else if (settings->password[0])
        rc = session_greet(link, GREETING_AUTH, auth, ARRAY_LEN(auth));
    if (rc == 0 && settings->database) {
        struct slice database[] = {SLICE("SELECT"), {number, 0}};

        database[1].len = (size_t)snprintf(number, sizeof(number), "%d", settings->database);
        rc = session_greet(link, GREETING_SELECT, database, ARRAY_LEN(database));
    }
    if (rc == 0 && !link->sentinels)
        rc = session_greet(link, GREETING_SLOTS, slots, ARRAY_LEN(slots));
    if (rc == 0 && link->must_be_master)
        rc = session_greet(link, GREETING_ROLE, role, ARRAY_LEN(role));
    if (rc == 0 && !settings->channel)
        rc = session_greet(link, GREETING_TIME, time, ARRAY_LEN(time));
    if (rc == 0)
        rc = session_greet(link, GREETING_PING, ping, ARRAY_LEN(ping));
    return rc;
}

static void session_wire_opened(void *arg)
{
    struct redis_link *link = arg;

    link->state = LINK_GREETING;
    uv_timer_start(&link->phase, session_timed_out, link->patience_ms, 0);
    if (session_greet_all(link))
        session_fail(link, "no memory");
}

static void session_wire_lost(void *arg, const char *reason)
{
    struct redis_link *link = arg;

    link->wire = NULL;
    session_fail(link, reason);
}

static void session_wire_dirty(void *arg)
{
    link_wake(arg);
}

static void session_wire_freed(void *arg)
{
    link_unref(arg);
}

static void session_timed_out(uv_timer_t *timer)
{
    struct redis_link *link = timer->data;
    char where[ADDRESS_TEXT_MAX];
    char reason[LINK_DETAIL_MAX];

    /* One lookup at a time: they share libuv's few threads with others. */
    if (wire_is_resolving(link->wire)) {
        uv_timer_start(timer, session_timed_out, link->patience_ms, 0);
        return;
    }
    snprintf(reason, sizeof(reason), "%s: no %s within %llu ms",
             address_text(&link->target, where, sizeof(where)),
             link->state == LINK_CONNECTING ? "connection" : "answer", (unsigned long long)link->patience_ms);
    session_fail(link, reason);
}

/*
 * A server that does not even refuse costs all of it, each time that MOVED names it: where there are others
 * they are tried earlier. Now and then it gets all the time, for the case that every server needs it.
 */
static uint64_t session_patience(struct redis_link *link)
{
    uint64_t all_ms = link->settings.timeout_ms;

    if (!session_has_choice(link) || session_random(link) % 16 == 0)
        return all_ms;
    return max_u64(all_ms / 4, min_u64(all_ms, LINK_CHOICE_PATIENCE_MS));
}

static void session_connect(struct redis_link *link)
{
    const struct wire_hooks hooks = {
        session_wire_opened, session_wire_lost, session_wire_dirty, session_wire_freed, link,
        subscription_heard};

    assert(!link->wire);
    link->state = LINK_CONNECTING;
    link->patience_ms = session_patience(link);
    uv_timer_start(&link->phase, session_timed_out, link->patience_ms, 0);
    if (wire_open(link->loop, &link->target, link->tries++, &hooks, &link->wire)) {
        session_fail(link, "no memory");
        return;
    }
    link->alive++;
}

void session_begin(struct redis_link *link)
{
    if (!link->sentinels) {
        session_connect(link);
        return;
    }
    link->state = LINK_ASKING;
    if (!sentinels_is_asking(link->sentinels))
        sentinels_ask(link->sentinels);
}

void session_sentinel_found(void *arg, const struct redis_address *master)
{
    struct redis_link *link = arg;
    char where[ADDRESS_TEXT_MAX];
    char reason[LINK_DETAIL_MAX];

    if (link->state == LINK_ASKING) {
        link->target = *master;
        session_connect(link);
    } else if (link->state == LINK_UP && !address_equals(master, &link->target)) {
        /* The old master may still answer: what it is told now would be lost. */
        snprintf(reason, sizeof(reason), "the sentinels have a new master: %s",
                 address_text(master, where, sizeof(where)));
        session_fail(link, reason);
    }
}

void session_sentinel_failed(void *arg, const char *reason)
{
    struct redis_link *link = arg;

    /* While the master answers, sentinels may be away. */
    if (link->state == LINK_ASKING)
        session_fail(link, reason);
}
