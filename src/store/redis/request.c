/*
 * request.c - one request of a link: sends it, loads missing scripts, follows MOVED, and fails it
 * when it is late.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/redis/link_internal.h"
#include "store/redis/reply.h"
#include "store/redis/resp.h"

enum {
    REQUEST_LOG_EVERY_MS = 1000,
    REQUEST_GRACE_MS = 2, /* after a stall of the process: answers may be there, unread */
};

static void request_free(struct request *request)
{
    struct redis_link *link = request->link;

    list_remove(&request->by_age);
    list_remove(&request->wire.link);
    if (!request->is_internal) {
        assert(link->waiting > 0 && link->waiting_bytes >= request->len);
        link->waiting--;
        link->waiting_bytes -= request->len;
    }
    free(request);
}

/* Frees it first: `done` may do anything, also close the link. */
static void request_answer(struct request *request, int err, const redisReply *reply)
{
    redis_reply_fn done = request->done;
    void *arg = request->arg;

    request_free(request);
    done(arg, err, reply);
}

void request_finish(struct request *request, int err)
{
    struct redis_link *link = request->link;

    list_remove(&request->by_age);
    list_remove(&request->wire.link);
    list_append(&link->finished, &request->wire.link);
    request->place = REQUEST_FINISHED;
    request->err = err;
    link_wake(link);
}

void requests_deliver(struct redis_link *link)
{
    while (!list_is_empty(&link->finished)) {
        struct request *request = LIST_ENTRY(link->finished.next, struct request, wire.link);

        request_answer(request, request->err, NULL);
    }
}

static void request_log_error(struct redis_link *link, const char *text)
{
    uint64_t now_ms = uv_now(link->loop);

    if (link->error_logged_ms && now_ms - link->error_logged_ms < REQUEST_LOG_EVERY_MS) {
        link->errors_unlogged++;
        return;
    }
    log_error("redis reports an error", log_str("text", text),
              log_num("not_logged", (int64_t)link->errors_unlogged));
    link->error_logged_ms = now_ms;
    link->errors_unlogged = 0;
}

static struct script_load *load_of(struct redis_link *link, const struct redis_script *script)
{
    for (size_t i = 0; i < link->load_count; i++) {
        if (link->loads[i].script == script)
            return &link->loads[i];
    }
    if (link->load_count == LINK_LOADS_MAX)
        return NULL;
    link->loads[link->load_count] = (struct script_load){.script = script};
    return &link->loads[link->load_count++];
}

static void request_loaded(void *arg, int err, const redisReply *reply UNUSED)
{
    struct script_load *load = arg;

    load->is_under_way = false;
    load->err = err;
}

/*
 * Loads the script and calls it again right behind: the connection keeps the order, so that there is no need
 * to wait. A NOSCRIPT that comes before the answer to the load was caused before it: no second load.
 */
static int request_load_script(struct redis_link *link, const struct redis_script *script)
{
    const struct slice args[] = {SLICE("SCRIPT"), SLICE("LOAD"), {script->text, script->text_len}};
    struct script_load *load = load_of(link, script);
    int rc;

    if (!load)
        return -EBUSY;
    if (load->is_under_way)
        return 0;
    rc = request_internal(link, args, ARRAY_LEN(args), request_loaded, load);
    if (rc == 0)
        load->is_under_way = true;
    return rc;
}

/*
 * By the clock of the server that it is sent to, which is another one after MOVED. The argument is the last
 * of the command: its digits, and two bytes that end it.
 */
static void request_set_deadline(struct request *request)
{
    int64_t deadline_ms = (int64_t)request->deadline_ms + request->link->clock_ms;
    uint64_t left = deadline_ms > 0 ? (uint64_t)deadline_ms : 0;
    char *end = request->command + request->len - 2;

    if (!request->script || !request->script->has_deadline)
        return;
    for (unsigned i = 1; i <= LINK_DEADLINE_DIGITS; i++, left /= 10)
        end[-(ptrdiff_t)i] = (char)('0' + left % 10);
}

static int request_place_on_wire(struct request *request)
{
    struct redis_link *link = request->link;
    int rc;

    request_set_deadline(request);
    rc = link->wire ? wire_send(link->wire, request->command, request->len, &request->wire) : -ENOTCONN;

    if (rc == 0)
        request->place = REQUEST_ON_WIRE;
    return rc;
}

/* True: it is under way again. */
static bool request_recall(struct request *request)
{
    struct redis_link *link = request->link;
    int rc;

    if (!request->script || request->is_recalled)
        return false;
    request->is_recalled = true;
    rc = request_load_script(link, request->script);
    if (rc == 0)
        rc = request_place_on_wire(request);
    if (rc)
        request_finish(request, rc == -ENOTCONN ? -ENOTCONN : -EIO);
    return true;
}

/*
 * True: it is under way again. Nothing was changed, and we still wait for the answer: the server's clock has
 * jumped.
 */
static bool request_redate(struct request *request, const char *text)
{
    struct redis_link *link = request->link;
    uint64_t server_ms;

    if (!reply_late_at(text, &server_ms))
        return false;
    session_set_clock(link, server_ms);
    if (request->is_redated || request->deadline_ms <= uv_now(link->loop))
        return false;
    request->is_redated = true;
    return request_place_on_wire(request) == 0;
}

/* True: it waits for the node that has the slot. */
static bool request_follow(struct request *request, const char *text)
{
    struct redis_link *link = request->link;
    struct redis_address node;

    if (!reply_moved_to(text, link->target.host, &node))
        return false;
    session_move(link, &node);
    if (request->is_internal || request->is_moved || link->state != LINK_LEAVING)
        return false;
    request->is_moved = true;
    request->is_recalled = false;
    request->place = REQUEST_PARKED;
    list_append(&link->parked, &request->wire.link);
    return true;
}

int request_report(struct redis_link *link, const char *text)
{
    int err = reply_errno(text);

    /* STALE is nobody's fault: it is asked again with the tiers as they are now. */
    if (err != -ESTALE)
        request_log_error(link, text);
    if (err == -EROFS)
        session_demoted(link, text);
    if (reply_has_code(text, "CLUSTERDOWN"))
        session_cluster_down(link);
    return err;
}

static int request_error(struct request *request, const char *text)
{
    struct redis_link *link = request->link;

    if (reply_has_code(text, "NOSCRIPT") && request->script) {
        const struct script_load *load = load_of(link, request->script);

        /* It was loaded in vain, and why was logged then. */
        if (load && load->err)
            return load->err;
    }
    return request_report(link, text);
}

static void request_replied(struct wire_request *wire_request, int err, const redisReply *reply)
{
    struct request *request = CONTAINER_OF(wire_request, struct request, wire);
    struct redis_link *link = request->link;

    if (err) {
        /* What the link itself wanted to know died with the connection. */
        if (request->is_internal)
            request_free(request);
        else
            request_finish(request, request->err ? request->err : err);
        return;
    }
    link->heard_ms = uv_now(link->loop);
    if (link->state == LINK_LEAVING)
        link_wake(link);
    if (reply->type != REDIS_REPLY_ERROR) {
        request_answer(request, 0, reply);
        return;
    }
    if (reply_has_code(reply->str, "NOSCRIPT") && request_recall(request))
        return;
    if (request_follow(request, reply->str) || request_redate(request, reply->str))
        return;
    request_answer(request, request_error(request, reply->str), NULL);
}

static struct request *request_alloc(struct redis_link *link, size_t len, redis_reply_fn done, void *arg)
{
    struct request *request = malloc(sizeof(*request) + len + 1);

    if (!request)
        return NULL;
    *request = (struct request){
        .wire.done = request_replied,
        .link = link,
        .done = done,
        .arg = arg,
        .deadline_ms = uv_now(link->loop) + link->settings.timeout_ms,
        .len = len,
    };
    list_init(&request->wire.link);
    request->command[len] = '\0';
    list_init(&request->by_age);
    return request;
}

int request_new(struct redis_link *link, size_t len, redis_reply_fn done, void *arg,
                struct request **ret_request)
{
    struct request *request;

    if (link->state != LINK_UP)
        return -ENOTCONN;
    if (link->waiting >= REDIS_WAITING_MAX || len > LINK_BYTES_MAX - link->waiting_bytes)
        return -EBUSY;
    request = request_alloc(link, len, done, arg);
    if (!request)
        return -ENOMEM;
    link->waiting++;
    link->waiting_bytes += len;
    *ret_request = request;
    return 0;
}

int request_send(struct request *request)
{
    struct redis_link *link = request->link;
    int rc = request_place_on_wire(request);

    if (rc) {
        request_free(request);
        return rc;
    }
    request->number = ++link->numbered;
    list_append(&link->by_age, &request->by_age);
    if (!uv_is_active((uv_handle_t *)&link->overdue))
        uv_timer_start(&link->overdue, requests_overdue, link->settings.timeout_ms, 0);
    return 0;
}

int request_internal(struct redis_link *link, const struct slice *args, size_t count, redis_reply_fn done,
                     void *arg)
{
    struct request *request = request_alloc(link, resp_size(args, count), done, arg);

    if (!request)
        return -ENOMEM;
    request->is_internal = true;
    resp_write(request->command, args, count);
    return request_send(request);
}

void requests_resend_parked(struct redis_link *link)
{
    LIST_FOR_EACH (at, &link->parked) {
        struct request *request = LIST_ENTRY(at, struct request, wire.link);

        list_remove(at);
        if (request_place_on_wire(request))
            request_finish(request, -ENOTCONN);
    }
}

void requests_fail_parked(struct redis_link *link)
{
    LIST_FOR_EACH (at, &link->parked) {
        request_finish(LIST_ENTRY(at, struct request, wire.link), -ENOTCONN);
    }
}

/* Those on the wire fail together with it; says whether there are any. */
static bool requests_expire(struct redis_link *link)
{
    uint64_t now_ms = uv_now(link->loop);
    bool is_on_wire = false;

    LIST_FOR_EACH (at, &link->by_age) {
        struct request *request = LIST_ENTRY(at, struct request, by_age);

        if (request->deadline_ms > now_ms)
            break;
        if (request->place == REQUEST_PARKED) {
            request_finish(request, -ETIMEDOUT);
        } else {
            request->err = -ETIMEDOUT;
            is_on_wire = true;
        }
    }
    return is_on_wire;
}

void requests_overdue(uv_timer_t *timer)
{
    struct redis_link *link = timer->data;
    const struct request *oldest = LIST_ENTRY(link->by_age.next, struct request, by_age);
    char where[ADDRESS_TEXT_MAX];
    char reason[LINK_DETAIL_MAX];

    if (list_is_empty(&link->by_age) || link->state == LINK_CLOSING)
        return;
    if (oldest->deadline_ms > uv_now(link->loop)) {
        link->is_late = false;
        uv_timer_start(timer, requests_overdue, oldest->deadline_ms - uv_now(link->loop), 0);
        return;
    }
    /* Timers run before sockets are read: if it was this process that was held up, look there first. */
    if (!link->is_late) {
        link->is_late = true;
        uv_timer_start(timer, requests_overdue, REQUEST_GRACE_MS, 0);
        return;
    }
    link->is_late = false;
    if (requests_expire(link)) {
        snprintf(reason, sizeof(reason), "%s: no answer within %llu ms",
                 address_text(&link->target, where, sizeof(where)),
                 (unsigned long long)link->settings.timeout_ms);
        session_fail(link, reason);
    }
    if (!list_is_empty(&link->by_age) && !uv_is_active((uv_handle_t *)timer))
        uv_timer_start(timer, requests_overdue, REQUEST_GRACE_MS, 0);
}
