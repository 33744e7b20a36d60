/*
 * lease.c - the state machine of the leader election: renews, takes, loses and releases a Lease.
 */
#include "k8s/lease.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "k8s/lease_object.h"
#include "k8s/status_object.h"

enum {
    LEASE_LEADER_MAX = 255, /* of a holder's name, as we tell it */
    LEASE_PATH_MAX = 1024,
    LEASE_RELEASE_MS = 2000, /* for all of giving it up */
    LEASE_RELEASE_TRIES = 3,
};

/* The request under way. One try to get or to keep the lease is one to three of them. */
enum lease_step {
    LEASE_RENEW,  /* PUT of what we wrote last: nearly always enough while we lead */
    LEASE_LOOK,   /* GET */
    LEASE_CREATE, /* POST */
    LEASE_TAKE,   /* PUT of what we looked at */
    LEASE_RELEASE_LOOK,
    LEASE_RELEASE,
};

static const struct lease_step_info {
    const char *verb; /* as RBAC has it */
    enum k8s_method method;
    bool is_write;
} lease_steps[] = {
    [LEASE_RENEW] = {"update", K8S_PUT, true},      [LEASE_LOOK] = {"get", K8S_GET, false},
    [LEASE_CREATE] = {"create", K8S_POST, true},    [LEASE_TAKE] = {"update", K8S_PUT, true},
    [LEASE_RELEASE_LOOK] = {"get", K8S_GET, false}, [LEASE_RELEASE] = {"update", K8S_PUT, true},
};

/* What the last failure was; 0 throughout: there was none. Told once, until it changes. */
struct lease_trouble {
    const char *verb;
    int err;
    int status;
};

/* Times are elapsed ones. */
enum { LEASE_MAGIC = 0x6c656173 };

struct k8s_lease {
    unsigned magic;
    struct k8s_lease_settings settings;
    struct k8s_client *client;
    uv_timer_t timer;

    struct lease_object *seen; /* the newest we know, with its version; NULL: none */
    uint64_t seen_at_ms;       /* when its record, not its version, was first seen */
    bool has_renewed;
    uint64_t renewed_at_ms; /* when the request was sent that last confirmed us */
    bool may_hold;          /* we wrote our name, and nobody has told us yet that another one is there */

    struct k8s_request *request; /* under way, or NULL */
    enum lease_step step;
    uint64_t sent_at_ms; /* the request under way */
    uint64_t try_at_ms;  /* the try that it belongs to */
    uint64_t next_try_at_ms;
    struct lease_trouble trouble;

    char leader[LEASE_LEADER_MAX + 1]; /* what we told last */
    bool is_leader;

    bool is_stopping;
    unsigned release_tries;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

static void lease_answered(void *arg, const struct k8s_answer *answer);
static void lease_due(uv_timer_t *timer);

static bool lease_is_us(const struct k8s_lease *lease, const struct lease_object *object)
{
    return object && strcmp(lease_object_record(object)->holder, lease->settings.identity) == 0;
}

/* A holder that names no duration gets ours. */
static uint64_t lease_seen_until_ms(const struct k8s_lease *lease)
{
    uint32_t duration_s = lease_object_record(lease->seen)->duration_s;

    return lease->seen_at_ms + (duration_s ? duration_s * UINT64_C(1000) : lease->settings.duration_ms);
}

/* Did somebody else have it at `now_ms`, as far as we can tell? */
static bool lease_is_others(const struct k8s_lease *lease, uint64_t now_ms)
{
    return lease->seen && lease_object_record(lease->seen)->holder[0] && !lease_is_us(lease, lease->seen) &&
           lease_seen_until_ms(lease) > now_ms;
}

static uint64_t lease_deadline_ms(const struct k8s_lease *lease)
{
    return lease->renewed_at_ms + lease->settings.renew_deadline_ms;
}

static bool lease_is_held(const struct k8s_lease *lease, uint64_t now_ms)
{
    return lease->has_renewed && lease_is_us(lease, lease->seen) && now_ms < lease_deadline_ms(lease);
}

bool k8s_lease_leads(const struct k8s_lease *lease)
{
    return lease->is_leader && !lease->is_stopping && lease_is_held(lease, clock_elapsed_ms());
}

/* Says what has changed. Must come last: whoever hears it may stop us. */
static void lease_tell(struct k8s_lease *lease)
{
    uint64_t now_ms = clock_elapsed_ms();
    bool is_leader = lease_is_held(lease, now_ms);
    const char *holder =
        is_leader || lease_is_others(lease, now_ms) ? lease_object_record(lease->seen)->holder : "";
    char leader[sizeof(lease->leader)];

    if (lease->is_stopping)
        return;
    snprintf(leader, sizeof(leader), "%s", holder);
    if (lease->is_leader == is_leader && strcmp(lease->leader, leader) == 0)
        return;
    if (lease->is_leader && !is_leader && lease_is_us(lease, lease->seen))
        log_warn(
            "the leader's lease could not be renewed in time: another router may lead now, and calls go on",
            log_str("lease", lease->settings.name));
    lease->is_leader = is_leader;
    memcpy(lease->leader, leader, sizeof(leader));
    log_info(is_leader ? "this router leads" : "this router follows", log_str("leader", lease->leader),
             log_str("identity", lease->settings.identity));
    lease->settings.on_change(lease->settings.on_change_arg, is_leader, lease->leader);
}

/* The timer fires when the next try is due, or when time alone changes what we have told. */
static void lease_arm(struct k8s_lease *lease)
{
    uint64_t now_ms = clock_elapsed_ms();
    uint64_t at_ms = lease->request ? UINT64_MAX : lease->next_try_at_ms;

    if (lease->is_stopping)
        return;
    if (lease_is_held(lease, now_ms))
        at_ms = min_u64(at_ms, lease_deadline_ms(lease));
    else if (lease_is_others(lease, now_ms))
        at_ms = min_u64(at_ms, lease_seen_until_ms(lease));
    if (at_ms == UINT64_MAX)
        uv_timer_stop(&lease->timer);
    else
        uv_timer_start(&lease->timer, lease_due, at_ms > now_ms ? at_ms - now_ms : 0, 0);
}

/*
 * The followers spread, so that they do not fight over a lease that has become free. They look a little more
 * often than client-go's, which wait for 1 to 2.2 retry periods: one that is given up is taken within one.
 */
static uint64_t lease_pause_ms(const struct k8s_lease *lease)
{
    if (lease_is_held(lease, clock_elapsed_ms()))
        return lease->settings.retry_ms;
    return random_jitter_ms(lease->settings.retry_ms);
}

/*
 * One try has ended, well or not. A follower does not sleep through the moment at which the lease runs out:
 * each of them has seen it at another time, so they need not be spread there.
 */
static void lease_rest(struct k8s_lease *lease, uint64_t at_least_ms)
{
    uint64_t now_ms = clock_elapsed_ms();
    uint64_t least_ms = min_u64(at_least_ms, lease->settings.duration_ms);

    lease->next_try_at_ms = now_ms + max_u64(lease_pause_ms(lease), least_ms);
    if (lease_is_others(lease, now_ms))
        lease->next_try_at_ms =
            min_u64(lease->next_try_at_ms, max_u64(lease_seen_until_ms(lease), now_ms + least_ms));
    lease_arm(lease);
    lease_tell(lease);
}

static void lease_works(struct k8s_lease *lease)
{
    if (lease->trouble.verb)
        log_info("the leader election works again", log_str("lease", lease->settings.name));
    lease->trouble = (struct lease_trouble){0};
}

static void lease_log_trouble(const struct k8s_lease *lease, enum log_level level, const char *message,
                              const struct k8s_answer *answer)
{
    struct k8s_status status = {0};

    if (answer->err == 0)
        k8s_status_parse(answer->body, &status);
    LOG_AT(level, message, log_str("verb", lease->trouble.verb),
           log_str("resource", "leases.coordination.k8s.io"),
           log_str("namespace", lease->settings.namespace_name), log_str("lease", lease->settings.name),
           log_num("status", lease->trouble.status),
           log_str("error", answer->err && answer->error ? answer->error : status.message));
}

/* The try under way has failed, for a reason that somebody may have to do something about. */
static void lease_fail(struct k8s_lease *lease, const struct k8s_answer *answer)
{
    struct lease_trouble trouble = {
        .verb = lease_steps[lease->step].verb,
        .err = answer->err,
        .status = answer->err ? 0 : answer->status,
    };
    bool is_new = trouble.verb != lease->trouble.verb || trouble.err != lease->trouble.err ||
                  trouble.status != lease->trouble.status;

    lease->trouble = trouble;
    if (is_new && trouble.status == 403)
        lease_log_trouble(lease, LOG_ERROR, "this router cannot lead: its role lacks a verb on leases",
                          answer);
    else if (is_new && trouble.status == 401)
        lease_log_trouble(lease, LOG_ERROR, "this router cannot lead: the API server does not know it",
                          answer);
    else if (is_new && trouble.status == 404)
        lease_log_trouble(lease, LOG_ERROR, "this router cannot lead: there is no such namespace", answer);
    else if (is_new)
        lease_log_trouble(lease, LOG_WARN, "the leader election's request failed", answer);
    lease_rest(lease, answer->retry_after_ms);
}

static void lease_fail_here(struct k8s_lease *lease, int err, const char *error)
{
    lease_fail(lease, &(struct k8s_answer){.err = err, .error = error});
}

static void lease_path(const struct k8s_lease *lease, bool is_collection, char path[LEASE_PATH_MAX])
{
    int len = snprintf(path, LEASE_PATH_MAX, "/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s",
                       lease->settings.namespace_name, is_collection ? "" : "/",
                       is_collection ? "" : lease->settings.name);

    assert(len > 0 && len < LEASE_PATH_MAX); /* both are DNS names */
}

static int lease_send(struct k8s_lease *lease, enum lease_step step, struct slice body)
{
    char path[LEASE_PATH_MAX];
    struct k8s_request_spec spec = {
        .method = lease_steps[step].method,
        .path = path,
        .body = body,
        /* Half of the deadline, so that one answer that got lost does not cost us the lease. */
        .timeout_ms = lease->is_stopping ? LEASE_RELEASE_MS : lease->settings.renew_deadline_ms / 2,
        .body_max = LEASE_OBJECT_MAX,
    };

    assert(!lease->request);
    lease_path(lease, step == LEASE_CREATE, path);
    lease->step = step;
    lease->sent_at_ms = clock_elapsed_ms();
    if (lease_steps[step].is_write)
        lease->may_hold = true;
    return k8s_client_send(lease->client, &spec, lease_answered, lease, &lease->request);
}

/* What to write in place of `old`; NULL: there is none yet. */
static struct lease_record lease_new_record(const struct k8s_lease *lease, enum lease_step step,
                                            const struct lease_record *old, const char *now)
{
    struct lease_record record = {
        .holder = lease->settings.identity,
        .duration_s = (uint32_t)((lease->settings.duration_ms + 999) / 1000),
        .transitions = old ? old->transitions : 0,
        .acquired_time = now,
        .renewed_time = now,
    };

    if (step == LEASE_RELEASE) {
        record.holder = "";
        record.duration_s = 1; /* nobody waits for a lease that nobody holds, but 0 is not allowed */
    } else if (old && strcmp(old->holder, record.holder) == 0) {
        if (lease_time_is_valid(old->acquired_time))
            record.acquired_time = old->acquired_time;
    } else if (old && record.transitions < INT32_MAX) {
        record.transitions++;
    }
    return record;
}

static int lease_write(struct k8s_lease *lease, enum lease_step step)
{
    const struct lease_object *object = step == LEASE_CREATE ? NULL : lease->seen;
    struct lease_record record;
    char now[LEASE_TIME_MAX];
    struct strbuf body;
    int err;

    lease_time_format(clock_wall_ms(), now);
    strbuf_init(&body, NULL, 2 * LEASE_OBJECT_MAX);
    record = lease_new_record(lease, step, object ? lease_object_record(object) : NULL, now);
    if (object)
        lease_object_write(&body, object, &record);
    else
        lease_object_write_new(&body, lease->settings.namespace_name, lease->settings.name, &record);
    err = strbuf_failed(&body) ? -ENOMEM : lease_send(lease, step, strbuf_slice(&body));
    strbuf_release(&body);
    return err;
}

static void lease_next(struct k8s_lease *lease, enum lease_step step)
{
    int err = lease_steps[step].is_write ? lease_write(lease, step) : lease_send(lease, step, SLICE(""));

    if (err < 0)
        lease_fail_here(lease, err, "the request could not be sent");
}

/*
 * Remembers an object. What counts is when its record changed: a version that grew because somebody put a
 * label on it says nothing about the holder being alive.
 */
static void lease_observe(struct k8s_lease *lease, struct lease_object *object, uint64_t at_ms)
{
    if (!lease->seen || !lease_record_equals(lease_object_record(lease->seen), lease_object_record(object)))
        lease->seen_at_ms = at_ms;
    lease_object_free(lease->seen);
    lease->seen = object;
    if (!lease_is_us(lease, object)) {
        lease->may_hold = false;
        lease->has_renewed = false;
    }
}

/* Our write was taken. It counts from when it was sent: others may have read it at any time since then. */
static void lease_written(struct k8s_lease *lease, const struct k8s_answer *answer)
{
    struct lease_object *object;
    int err = lease_object_parse(answer->body, &object);

    if (err < 0) {
        lease->seen = lease_object_free(lease->seen); /* its version is not the newest any more */
        lease_fail_here(lease, err, "the answer is not a Lease");
        return;
    }
    lease_observe(lease, object, lease->sent_at_ms);
    if (lease_is_us(lease, object)) {
        lease->has_renewed = true;
        lease->renewed_at_ms = lease->sent_at_ms;
    }
    lease_works(lease);
    /* An answer that came too late confirms nobody: another one may have written since. */
    if (lease->settings.on_written && lease_is_held(lease, clock_elapsed_ms()))
        lease->settings.on_written(lease->settings.on_written_arg);
    lease_rest(lease, 0);
}

/*
 * Another one's record counts from when its answer came, and is compared with when the try began: both make
 * us wait a little longer than we might have to.
 */
static void lease_looked(struct k8s_lease *lease, const struct k8s_answer *answer)
{
    struct lease_object *object;
    int err = lease_object_parse(answer->body, &object);

    if (err < 0) {
        lease_fail_here(lease, err, "the answer is not a Lease");
        return;
    }
    lease_observe(lease, object, clock_elapsed_ms());
    if (lease_is_others(lease, lease->try_at_ms)) {
        lease_works(lease);
        if (lease->settings.on_others)
            lease->settings.on_others(lease->settings.on_others_arg, lease_object_record(object)->holder);
        lease_rest(lease, 0);
    } else {
        lease_next(lease, LEASE_TAKE);
    }
}

static void lease_tried(struct k8s_lease *lease, const struct k8s_answer *answer)
{
    int status = answer->err ? 0 : answer->status;
    bool is_done = status == 200 || status == 201;

    if (lease->step == LEASE_LOOK && status == 404) {
        lease->seen = lease_object_free(lease->seen);
        lease_next(lease, LEASE_CREATE);
    } else if (lease->step == LEASE_LOOK && is_done) {
        lease_looked(lease, answer);
    } else if (lease->step != LEASE_LOOK && is_done) {
        lease_written(lease, answer);
    } else if (lease->step == LEASE_RENEW && status != 429) {
        lease_next(lease, LEASE_LOOK);
    } else if (status == 409 || (status == 404 && lease->step == LEASE_TAKE)) {
        lease_works(lease); /* somebody was faster, or has removed it: the next look tells */
        lease_rest(lease, 0);
    } else {
        lease_fail(lease, answer);
    }
}

static void lease_try(struct k8s_lease *lease)
{
    uint64_t now_ms = clock_elapsed_ms();

    lease->try_at_ms = now_ms;
    lease_next(lease, lease_is_us(lease, lease->seen) && lease_seen_until_ms(lease) > now_ms ? LEASE_RENEW
                                                                                             : LEASE_LOOK);
}

static void lease_closed(uv_handle_t *handle)
{
    struct k8s_lease *lease = handle->data;
    void (*stopped)(void *arg) = lease->stopped;
    void *arg = lease->stopped_arg;

    MAGIC_CHECK(lease, LEASE_MAGIC);
    lease_object_free(lease->seen);
    lease->magic = 0;
    free(lease);
    stopped(arg);
}

static void lease_close(struct k8s_lease *lease)
{
    if (lease->request)
        k8s_request_cancel(TAKE(lease->request));
    uv_close((uv_handle_t *)&lease->timer, lease_closed);
}

static void lease_keep(struct k8s_lease *lease, const char *why)
{
    log_warn("the lease could not be given up: the next leader has to wait for it to run out",
             log_str("lease", lease->settings.name), log_str("error", why));
    lease_close(lease);
}

static void lease_release(struct k8s_lease *lease)
{
    if (!lease->may_hold)
        lease_close(lease);
    else if (lease->release_tries++ >= LEASE_RELEASE_TRIES)
        lease_keep(lease, "others keep changing it");
    else if (lease_send(lease, LEASE_RELEASE_LOOK, SLICE("")) < 0)
        lease_keep(lease, "the request could not be sent");
}

static void lease_release_looked(struct k8s_lease *lease, const struct k8s_answer *answer)
{
    struct lease_object *object;

    if (answer->err == 0 && answer->status == 404) {
        lease_close(lease);
        return;
    }
    if (answer->err || answer->status != 200 || lease_object_parse(answer->body, &object) < 0) {
        lease_keep(lease, answer->err && answer->error ? answer->error : "it could not be read");
        return;
    }
    lease_observe(lease, object, clock_elapsed_ms());
    if (!lease_is_us(lease, object))
        lease_close(lease);
    else if (lease_write(lease, LEASE_RELEASE) < 0)
        lease_keep(lease, "the request could not be sent");
}

static void lease_release_answered(struct k8s_lease *lease, const struct k8s_answer *answer)
{
    int status = answer->err ? 0 : answer->status;

    if (lease->step == LEASE_RELEASE_LOOK) {
        lease_release_looked(lease, answer);
    } else if (lease->step == LEASE_RELEASE && status == 200) {
        log_info("the lease was given up", log_str("lease", lease->settings.name));
        lease_close(lease);
    } else if (lease->step == LEASE_RELEASE && status != 409) {
        lease_keep(lease, answer->err && answer->error ? answer->error : "it could not be written");
    } else {
        /* A conflict, or the answer to what was under way when we were told to stop: look anew. */
        lease_release(lease);
    }
}

static void lease_answered(void *arg, const struct k8s_answer *answer)
{
    struct k8s_lease *lease = arg;

    MAGIC_CHECK(lease, LEASE_MAGIC);
    lease->request = NULL;
    if (lease->is_stopping)
        lease_release_answered(lease, answer);
    else
        lease_tried(lease, answer);
}

static void lease_due(uv_timer_t *timer)
{
    struct k8s_lease *lease = timer->data;

    MAGIC_CHECK(lease, LEASE_MAGIC);
    if (lease->is_stopping) {
        lease_keep(lease, "the API server does not answer");
        return;
    }
    if (!lease->request && clock_elapsed_ms() >= lease->next_try_at_ms)
        lease_try(lease);
    lease_arm(lease);
    lease_tell(lease);
}

int k8s_lease_new(uv_loop_t *loop, const struct k8s_lease_settings *settings, struct k8s_client *client,
                  struct k8s_lease **ret_lease)
{
    struct k8s_lease *lease;

    assert(settings->identity[0] && settings->on_change);
    assert(settings->retry_ms > 0 && settings->retry_ms < settings->renew_deadline_ms);
    assert(settings->renew_deadline_ms < settings->duration_ms && settings->duration_ms <= INT32_MAX);
    lease = calloc(1, sizeof(*lease));
    if (!lease)
        return -ENOMEM;
    lease->magic = LEASE_MAGIC;
    lease->settings = *settings;
    lease->client = client;
    uv_timer_init(loop, &lease->timer);
    lease->timer.data = lease;
    uv_timer_start(&lease->timer, lease_due, 0, 0);
    *ret_lease = lease;
    return 0;
}

void k8s_lease_stop(struct k8s_lease *lease, void (*stopped)(void *arg), void *arg)
{
    assert(!lease->is_stopping);
    lease->is_stopping = true;
    lease->stopped = stopped;
    lease->stopped_arg = arg;
    uv_timer_start(&lease->timer, lease_due, LEASE_RELEASE_MS, 0);
    /* What is being written may still arrive after us if it is cut off: its answer is worth waiting for. */
    if (lease->request && lease_steps[lease->step].is_write)
        return;
    if (lease->request)
        k8s_request_cancel(TAKE(lease->request));
    lease_release(lease);
}
