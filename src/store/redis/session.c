/*
 * session.c - the state machine of a link: connects, greets, ticks, fails, rests, and changes
 * servers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/random.h"
#include "store/redis/address.h"
#include "store/redis/link_internal.h"
#include "store/redis/reply.h"
#include "store/redis/resp.h"

enum { SESSION_LOG_EVERY_MS = 10000 }; /* while it stays down for the same reason */

/* Why there is no connection: who has to do something about it differs. */
enum session_failure {
    SESSION_UNREACHABLE,
    SESSION_REFUSED, /* it answers, and does not let us in */
};

static void session_connect(struct redis_link *link);
static void session_timed_out(uv_timer_t *timer);

/* Has every server that there is been tried in vain? Before that the next one may do. */
static bool session_tried_all(const struct redis_link *link)
{
    return link->sentinels || link->session.failed_in_a_row >= targets_count(link);
}

static void session_log_down(struct redis_link *link, enum session_failure failure, const char *reason,
                             bool was_up)
{
    static const char *const messages[] = {
        [SESSION_UNREACHABLE] = "redis is not reachable: calls are refused",
        [SESSION_REFUSED] = "redis refuses the router's user or password: calls are refused; check the user "
                            "and password in REDIS_URL, and the users of Redis (ACL)",
    };
    enum log_level level = session_tried_all(link) ? LOG_ERROR : LOG_WARN;

    if (was_up || strcmp(link->session.detail, reason) != 0)
        log_repeat_restart(&link->session.down);
    if (!log_repeat_is_due(&link->session.down, 1, uv_now(link->loop), SESSION_LOG_EVERY_MS, NULL))
        return;
    if (link->settings.channel)
        log_warn("redis cannot be listened to: clients of /api/v1/events miss events until it can",
                 log_str("reason", reason));
    else if (was_up)
        log_warn("redis connection lost: requests are refused until there is a new one",
                 log_str("reason", reason));
    else
        LOG_AT(level, messages[failure], log_str("reason", reason),
               log_num("failures", (int64_t)link->session.failures));
}

static void session_drop_wire(struct redis_link *link)
{
    struct wire *wire = TAKE(link->session.wire);

    requests_forget_scripts(link);
    waiters_forget_sent(link);
    if (wire)
        wire_drop(wire);
    waiters_fail(link, -ENOTCONN);
}

static void session_begin(struct redis_link *link);

static void session_pause_over(uv_timer_t *timer)
{
    struct redis_link *link = timer->data;

    MAGIC_CHECK(link, LINK_MAGIC);
    session_begin(link);
}

static void session_pause(struct redis_link *link, uint64_t pause_ms)
{
    link->session.state = LINK_RESTING;
    uv_timer_start(&link->session.timer, session_pause_over, random_jitter_ms(pause_ms), 0);
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
    link->retry.backoff_ms = link->retry.backoff_ms ? link->retry.backoff_ms * 2 : LINK_BACKOFF_MIN_MS;
    link->retry.backoff_ms = min_u64(link->retry.backoff_ms, max_ms);
    session_pause(link, link->retry.backoff_ms);
}

/*
 * Several servers that are dead in a row are passed quickly: the long pause is one for all of them.
 */
static void session_rest_in_round(struct redis_link *link)
{
    if (!session_has_choice(link)) {
        session_rest(link);
    } else if (link->retry.round_left > 0) {
        link->retry.round_left--;
        session_pause(link, LINK_BACKOFF_MIN_MS);
    } else {
        link->retry.round_left = targets_count(link) - 1;
        session_rest(link);
    }
}

/*
 * Where to go from a connection that failed. One that was good for a while may be so again; else
 * another server may know better, in a cluster each of them.
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
        link->retry.moves = 0;
}

static void session_set_detail(struct redis_link *link, const char *reason)
{
    if (reason != link->session.detail)
        snprintf(link->session.detail, sizeof(link->session.detail), "%s", reason);
}

static void session_fail_by(struct redis_link *link, enum session_failure failure, const char *reason)
{
    bool was_up = link->session.state == LINK_UP || link->session.state == LINK_LEAVING;
    bool was_stable = was_up && uv_now(link->loop) - link->session.up_since_ms >= LINK_STABLE_MS;

    assert(link->session.state != LINK_CLOSING);
    link->session.failures++;
    link->session.failed_in_a_row += !was_up;
    session_log_down(link, failure, reason, was_up);
    session_set_detail(link, reason);
    if (was_stable)
        link->retry.backoff_ms = 0;
    session_next_target(link, was_up, was_stable);
    session_rest_in_round(link);
    session_drop_wire(link);
    requests_fail_parked(link);
    link_wake(link);
}

void session_fail(struct redis_link *link, const char *reason)
{
    session_fail_by(link, SESSION_UNREACHABLE, reason);
}

static void session_leave(struct redis_link *link)
{
    link->session.state = LINK_LEAVING;
    uv_timer_stop(&link->session.timer);
    link_wake(link);
}

void session_move(struct redis_link *link, const struct redis_address *target)
{
    char text[ADDRESS_TEXT_MAX];

    targets_set_cluster(link);
    if (link->session.state != LINK_UP)
        return;
    address_text(target, text, sizeof(text));
    log_info("the keys are on another node of the cluster", log_str("node", text));
    snprintf(link->session.detail, sizeof(link->session.detail), "moving to the node %s", text);
    targets_set(link, target);
    session_leave(link);
}

void session_demoted(struct redis_link *link, const char *reason)
{
    targets_require_master(link);
    if (link->session.state != LINK_UP)
        return;
    log_warn("this redis cannot write: requests are refused until the master is found",
             log_str("reason", reason));
    session_set_detail(link, reason);
    link->session.failures++;
    session_leave(link);
}

void session_cluster_down(struct redis_link *link)
{
    uint64_t now_ms = uv_now(link->loop);

    if (!link->cluster_down.heard_ms || now_ms - link->cluster_down.heard_ms > LINK_STABLE_MS)
        link->cluster_down.since_ms = now_ms;
    link->cluster_down.heard_ms = now_ms;
    if (link->session.state != LINK_UP || !session_has_choice(link) ||
        now_ms - link->cluster_down.since_ms < LINK_CLUSTERDOWN_MS)
        return;
    /*
     * All nodes say so until a replica is promoted; one that is cut off from the others does not
     * stop.
     */
    log_warn("this node says that the cluster is down; asking another one");
    session_set_detail(link, "the cluster is down");
    link->session.failures++;
    targets_next(link);
    session_leave(link);
}

void session_leave_if_idle(struct redis_link *link)
{
    bool is_move = !list_is_empty(&link->requests.parked);

    if (link->session.state != LINK_LEAVING || !wire_is_idle(link->session.wire))
        return;
    if (uv_now(link->loop) - link->session.up_since_ms >= LINK_STABLE_MS) {
        link->retry.backoff_ms = 0;
        link->retry.moves = 0;
    }
    session_rest(link);
    session_drop_wire(link);
    /*
     * Keys in several slots would send the link back and forth for ever. After a few moves in a row
     * it makes pauses like after any other failure, and the requests fail instead of going round.
     */
    if (is_move && ++link->retry.moves <= LINK_MOVES_MAX) {
        uv_timer_stop(&link->session.timer);
        session_connect(link);
        return;
    }
    if (is_move)
        log_warn("the keys seem to be in several slots of the cluster; KEY_PREFIX={voice}: puts them in one");
    requests_fail_parked(link);
}

/*
 * From when the answer is looked at, so that a script's deadline may come too early, but never too
 * late.
 */
void session_set_clock(struct redis_link *link, uint64_t server_ms)
{
    MAGIC_CHECK(link, LINK_MAGIC);
    link->session.clock_ms = (int64_t)server_ms - (int64_t)(uv_hrtime() / 1000000);
}

static bool session_may_be_unknown(const struct greeting *greeting, const char *text)
{
    if (greeting->kind == GREETING_SLOTS || greeting->kind == GREETING_SETTLE)
        return true;
    return greeting->kind != GREETING_AUTH && greeting->kind != GREETING_SELECT &&
           reply_has_code(text, "NOPERM");
}

static void session_refused(struct redis_link *link, enum greeting_kind kind, const char *text)
{
    char reason[LINK_DETAIL_MAX];
    char where[ADDRESS_TEXT_MAX];
    const char *password = link->settings.password;
    int err = reply_errno(text);
    bool lacks_right = reply_has_code(text, "NOPERM");

    address_text(&link->targets.current, where, sizeof(where));
    /* Some servers repeat the arguments of a command that they do not know. */
    if (kind == GREETING_AUTH && password[0] && strstr(text, password))
        text = "AUTH was refused";
    snprintf(reason, sizeof(reason), "%s: %s%.200s", where,
             lacks_right      ? "the user lacks a right: "
             : err == -EACCES ? "user or password is wrong or missing: "
                              : "",
             text);
    /* Neither a wrong password nor a long load is over soon. */
    if (err == -EACCES || kind == GREETING_AUTH)
        link->retry.backoff_ms = LINK_BACKOFF_MAX_MS;
    session_fail_by(link, err == -EACCES || kind == GREETING_AUTH ? SESSION_REFUSED : SESSION_UNREACHABLE,
                    reason);
}

static bool role_is_master(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && reply->element[0]->str &&
           strcmp(reply->element[0]->str, "master") == 0;
}

static void session_nodes_answered(void *arg, int err, const redisReply *reply)
{
    struct redis_link *link = arg;

    MAGIC_CHECK(link, LINK_MAGIC);
    if (err == 0)
        targets_learn(link, reply);
}

/* Nodes are replaced in the course of time, and a good connection may last for months. */
static void session_refresh_nodes(struct redis_link *link)
{
    const struct slice slots[] = {SLICE("CLUSTER"), SLICE("SLOTS")};

    if (!targets_are_due(link))
        return;
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

static void session_refresh(struct redis_link *link)
{
    const struct slice time[] = {SLICE("TIME")};

    session_refresh_nodes(link);
    if (request_internal(link, time, ARRAY_LEN(time), session_told_time, link))
        log_debug("no memory to ask for the server's time");
}

static void session_tick(uv_timer_t *timer)
{
    struct redis_link *link = timer->data;

    MAGIC_CHECK(link, LINK_MAGIC);
    if (link->settings.channel)
        subscription_tick(link);
    else
        session_refresh(link);
    if (link->sentinels && !sentinels_is_asking(link->sentinels))
        sentinels_ask(link->sentinels);
}

static void session_up(struct redis_link *link)
{
    char text[ADDRESS_TEXT_MAX];

    link->session.state = LINK_UP;
    link->session.is_served = false;
    link->session.failed_in_a_row = 0;
    link->retry.round_left = 0;
    link->cluster_down.heard_ms = 0;
    link->session.up_since_ms = uv_now(link->loop);
    link->session.heard_ms = link->session.up_since_ms;
    link->session.detail[0] = '\0';
    address_text(&link->targets.current, text, sizeof(text));
    if (link->settings.channel)
        log_debug("redis is connected for events", log_str("server", text));
    else
        log_info("redis is connected", log_str("server", text));
    uv_timer_start(&link->session.timer, session_tick, LINK_TICK_MS, LINK_TICK_MS);
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

    MAGIC_CHECK(link, LINK_MAGIC);
    /* A wire that is lost or dropped is reported elsewhere. */
    if (err < 0)
        return;
    if (greeting->kind == GREETING_SLOTS)
        targets_learn(link, reply);
    if (reply->type == REDIS_REPLY_ERROR && !session_may_be_unknown(greeting, reply->str)) {
        session_refused(link, greeting->kind, reply->str);
        return;
    }
    /* In a cluster a replica is as good as any: it names the owner of the slot. */
    if (greeting->kind == GREETING_ROLE && reply->type != REDIS_REPLY_ERROR && !link->targets.is_cluster) {
        if (!role_is_master(reply)) {
            snprintf(reason, sizeof(reason), "%s is not a master",
                     address_text(&link->targets.current, where, sizeof(where)));
            session_fail(link, reason);
            return;
        }
        targets_found_master(link);
    }
    /*
     * Without the right to ask for the time, it comes with the first script that Redis finds too
     * late.
     */
    if (greeting->kind == GREETING_TIME && reply->type != REDIS_REPLY_ERROR) {
        if (!reply_time(reply, &server_ms)) {
            session_fail(link, "no answer to TIME that can be read");
            return;
        }
        session_set_clock(link, server_ms);
    }
    if (--link->session.greetings_left == 0)
        session_up(link);
}

static int session_greet(struct redis_link *link, enum greeting_kind kind, const struct slice *args,
                         size_t count)
{
    struct greeting *greeting = &link->session.greetings[kind];
    size_t len = resp_size(args, count);
    char *command = malloc(len + 1);
    int err;

    if (!command)
        return -ENOMEM;
    *resp_write(command, args, count) = '\0';
    greeting->link = link;
    greeting->kind = kind;
    greeting->request.done = session_greeted;
    err = wire_send(link->session.wire, command, len, &greeting->request);
    if (err == 0)
        link->session.greetings_left++;
    free(command);
    return err;
}

/* Ahead of all other requests, so that no pod is given away that has a call which this server does not know.
 */
static int session_greet_settling(struct redis_link *link)
{
    const struct redis_link_settings *settings = &link->settings;
    char life[24];
    struct slice args[] = {SLICE("SET"), {NULL, 0}, SLICE("1"), SLICE("NX"), SLICE("PX"), {life, 0}};

    if (!settings->settle_key || !link->session.has_been_served ||
        address_equals(&link->session.served_by, &link->targets.current))
        return 0;
    args[1] = slice_of(settings->settle_key);
    args[5].len = (size_t)snprintf(life, sizeof(life), "%llu", (unsigned long long)settings->settle_ms);
    return session_greet(link, GREETING_SETTLE, args, ARRAY_LEN(args));
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
    int err = 0;

    link->session.greetings_left = 0;
    if (settings->user[0])
        err = session_greet(link, GREETING_AUTH, user_auth, ARRAY_LEN(user_auth));
    else if (settings->password[0])
        err = session_greet(link, GREETING_AUTH, auth, ARRAY_LEN(auth));
    if (err == 0 && settings->database) {
        struct slice database[] = {SLICE("SELECT"), {number, 0}};

        database[1].len = (size_t)snprintf(number, sizeof(number), "%d", settings->database);
        err = session_greet(link, GREETING_SELECT, database, ARRAY_LEN(database));
    }
    if (err == 0 && !link->sentinels)
        err = session_greet(link, GREETING_SLOTS, slots, ARRAY_LEN(slots));
    if (err == 0 && link->targets.must_be_master)
        err = session_greet(link, GREETING_ROLE, role, ARRAY_LEN(role));
    if (err == 0 && !settings->channel)
        err = session_greet(link, GREETING_TIME, time, ARRAY_LEN(time));
    if (err == 0)
        err = session_greet_settling(link);
    if (err == 0)
        err = session_greet(link, GREETING_PING, ping, ARRAY_LEN(ping));
    return err;
}

static void session_wire_opened(void *arg)
{
    struct redis_link *link = arg;

    MAGIC_CHECK(link, LINK_MAGIC);
    link->session.state = LINK_GREETING;
    uv_timer_start(&link->session.timer, session_timed_out, link->session.patience_ms, 0);
    if (session_greet_all(link))
        session_fail(link, "no memory");
}

static void session_wire_lost(void *arg, const char *reason)
{
    struct redis_link *link = arg;
    char text[LINK_DETAIL_MAX];

    MAGIC_CHECK(link, LINK_MAGIC);
    link->session.wire = NULL;
    /* A port with TLS takes our first words for a broken handshake, and hangs up. */
    if (link->session.state == LINK_GREETING && !link->settings.is_tls && link->targets.current.port) {
        snprintf(text, sizeof(text),
                 "%.160s before its first answer; does this port speak TLS? Then use rediss://", reason);
        reason = text;
    }
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
    bool shakes_hands;

    MAGIC_CHECK(link, LINK_MAGIC);
    shakes_hands = wire_is_shaking_hands(link->session.wire);
    /* One lookup at a time: they share libuv's few threads with others. */
    if (wire_is_resolving(link->session.wire)) {
        uv_timer_start(timer, session_timed_out, link->session.patience_ms, 0);
        return;
    }
    snprintf(reason, sizeof(reason), "%s: no %s within %llu ms%s",
             address_text(&link->targets.current, where, sizeof(where)),
             shakes_hands                             ? "TLS handshake"
             : link->session.state == LINK_CONNECTING ? "connection"
                                                      : "answer",
             (unsigned long long)link->session.patience_ms,
             shakes_hands ? "; does this port speak TLS?" : "");
    session_fail(link, reason);
}

/*
 * A server that does not even refuse costs all of it, each time that MOVED names it: where there
 * are others they are tried earlier. Now and then it gets all the time, for the case that every
 * server needs it.
 */
static uint64_t session_patience(struct redis_link *link)
{
    uint64_t all_ms = link->settings.timeout_ms;

    if (!session_has_choice(link) || random_u32() % 16 == 0)
        return all_ms;
    return max_u64(all_ms / 4, min_u64(all_ms, LINK_CHOICE_PATIENCE_MS));
}

static void session_connect(struct redis_link *link)
{
    const struct wire_hooks hooks = {
        session_wire_opened, session_wire_lost, session_wire_dirty, session_wire_freed, link,
        subscription_heard};

    assert(!link->session.wire);
    link->session.state = LINK_CONNECTING;
    link->session.patience_ms = session_patience(link);
    uv_timer_start(&link->session.timer, session_timed_out, link->session.patience_ms, 0);
    if (wire_open(link->loop, &link->targets.current, link->session.tries++,
                  link->settings.is_tls ? link->settings.tls : NULL, &hooks, &link->session.wire)) {
        session_fail(link, "no memory");
        return;
    }
    link_ref(link);
}

static void session_begin(struct redis_link *link)
{
    if (!link->sentinels) {
        session_connect(link);
        return;
    }
    link->session.state = LINK_ASKING;
    if (!sentinels_is_asking(link->sentinels))
        sentinels_ask(link->sentinels);
}

void session_start(struct redis_link *link)
{
    snprintf(link->session.detail, sizeof(link->session.detail), "not connected yet");
    uv_timer_init(link->loop, &link->session.timer);
    link_add_handle(link, (uv_handle_t *)&link->session.timer);
    session_begin(link);
}

void session_close(struct redis_link *link)
{
    link->session.state = LINK_CLOSING;
    uv_timer_stop(&link->session.timer);
    session_drop_wire(link);
}

void session_heard(struct redis_link *link)
{
    link->session.heard_ms = uv_now(link->loop);
}

void session_served(struct redis_link *link)
{
    if (link->session.is_served)
        return;
    link->session.served_by = link->targets.current;
    link->session.has_been_served = link->session.is_served = true;
}

void session_sentinel_found(void *arg, const struct redis_address *master)
{
    struct redis_link *link = arg;
    char where[ADDRESS_TEXT_MAX];
    char reason[LINK_DETAIL_MAX];

    MAGIC_CHECK(link, LINK_MAGIC);
    if (link->session.state == LINK_ASKING) {
        targets_set(link, master);
        session_connect(link);
    } else if (link->session.state == LINK_UP && !address_equals(master, &link->targets.current)) {
        /* The old master may still answer, but its writes would be lost. */
        snprintf(reason, sizeof(reason), "the sentinels have a new master: %s",
                 address_text(master, where, sizeof(where)));
        session_fail(link, reason);
    }
}

void session_sentinel_failed(void *arg, const char *reason)
{
    struct redis_link *link = arg;

    MAGIC_CHECK(link, LINK_MAGIC);
    /* While the master answers, sentinels may be away. */
    if (link->session.state == LINK_ASKING)
        session_fail(link, reason);
}
