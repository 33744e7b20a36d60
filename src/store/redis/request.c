/*
 * request.c - one request of a link: sends it, loads missing scripts, follows MOVED, and fails it
 * when it is late.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/redis/address.h"
#include "store/redis/cluster.h"
#include "store/redis/link_internal.h"
#include "store/redis/reply.h"
#include "store/redis/resp.h"
#include "store/store.h"

enum {
    REQUEST_LOG_EVERY_MS = 1000,
    REQUEST_GRACE_MS = 2, /* after a stall of the process: answers may be there, unread */
};

void requests_init(struct redis_link *link)
{
    list_init(&link->requests.by_age);
    list_init(&link->requests.parked);
    list_init(&link->requests.finished);
    uv_timer_init(link->loop, &link->requests.overdue);
    link_add_handle(link, (uv_handle_t *)&link->requests.overdue);
}

int requests_admit(struct redis_link *link, size_t bytes)
{
    if (link->requests.count >= REDIS_WAITING_MAX || bytes > LINK_BYTES_MAX - link->requests.bytes)
        return -EBUSY;
    link->requests.count++;
    link->requests.bytes += bytes;
    return 0;
}

void requests_discharge(struct redis_link *link, size_t bytes)
{
    assert(link->requests.count > 0 && link->requests.bytes >= bytes);
    link->requests.count--;
    link->requests.bytes -= bytes;
}

void requests_forget_scripts(struct redis_link *link)
{
    link->requests.load_count = 0;
}

static void request_free(struct request *request)
{
    struct redis_link *link = request->link;

    list_remove(&request->by_age);
    list_remove(&request->wire.link);
    if (!request->is_internal)
        requests_discharge(link, request->len);
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
    list_append(&link->requests.finished, &request->wire.link);
    request->place = REQUEST_FINISHED;
    request->err = err;
    link_wake(link);
}

void requests_deliver(struct redis_link *link)
{
    while (!list_is_empty(&link->requests.finished)) {
        struct request *request = LIST_ENTRY(link->requests.finished.next, struct request, wire.link);

        request_answer(request, request->err, NULL);
    }
}

static void request_log_error(struct redis_link *link, int err, const char *text)
{
    size_t count;

    if (log_repeat_is_due(&link->requests.errors, 1, uv_now(link->loop), REQUEST_LOG_EVERY_MS, &count))
        log_error("redis reports an error", log_str("text", text),
                  log_str("meaning", err == -EIO ? NULL : store_error_text(err)),
                  log_num("not_logged", (int64_t)count - 1));
}

/* NULL: it was not sent on this connection. */
static struct script_load *load_find(struct redis_link *link, const struct redis_script *script)
{
    for (size_t i = 0; i < link->requests.load_count; i++) {
        if (link->requests.loads[i].script == script)
            return &link->requests.loads[i];
    }
    return NULL;
}

static struct script_load *load_of(struct redis_link *link, const struct redis_script *script)
{
    struct script_load *load = load_find(link, script);

    if (load || link->requests.load_count == LINK_LOADS_MAX)
        return load;
    link->requests.loads[link->requests.load_count] = (struct script_load){.script = script};
    return &link->requests.loads[link->requests.load_count++];
}

static void request_loaded(void *arg, int err, const redisReply *reply UNUSED)
{
    struct script_load *load = arg;

    load->is_under_way = false;
    load->err = err;
}

/*
 * The call of the script goes out right behind: the connection keeps the order, so that there is no need to
 * wait. A NOSCRIPT that comes before the answer to the load was caused before it: no second load.
 */
static int request_load_script(struct redis_link *link, const struct redis_script *script)
{
    const struct slice args[] = {SLICE("SCRIPT"), SLICE("LOAD"), {script->text, script->text_len}};
    struct script_load *load = load_of(link, script);
    int err;

    if (!load)
        return -EBUSY;
    if (load->is_under_way)
        return 0;
    err = request_internal(link, args, ARRAY_LEN(args), request_loaded, load);
    if (err == 0)
        load->is_under_way = true;
    return err;
}

/*
 * The first call on a connection takes the script with it, whether the server has it or not. A call that is
 * answered with NOSCRIPT and repeated comes behind all that was sent meanwhile: the move of a call behind
 * the release by its old agent, or the renewal of a call behind its move. If the script cannot be sent now,
 * NOSCRIPT is the answer, and it is sent then.
 */
static void request_bring_script(struct request *request)
{
    struct redis_link *link = request->link;

    if (request->script && !load_find(link, request->script))
        (void)request_load_script(link, request->script);
}

/*
 * By the clock of the server that it is sent to, which is another one after MOVED. The argument is
 * the last of the command: its digits, and two bytes that end it.
 */
static void request_set_deadline(struct request *request)
{
    int64_t deadline_ms = (int64_t)request->deadline_ms + request->link->session.clock_ms;
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
    int err;

    if (link->session.wire)
        request_bring_script(request);
    request_set_deadline(request);
    err = link->session.wire ? wire_send(link->session.wire, request->command, request->len, &request->wire)
                             : -ENOTCONN;

    if (err == 0)
        request->place = REQUEST_ON_WIRE;
    return err;
}

/* True: it is under way again. */
static bool request_recall(struct request *request)
{
    struct redis_link *link = request->link;
    int err;

    if (!request->script || request->is_recalled)
        return false;
    request->is_recalled = true;
    err = request_load_script(link, request->script);
    if (err == 0)
        err = request_place_on_wire(request);
    if (err < 0)
        request_finish(request, err == -ENOTCONN ? -ENOTCONN : -EIO);
    return true;
}

/*
 * True: it is under way again. Nothing was changed, and we still wait for the answer: the server's
 * clock has jumped.
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

    if (!reply_moved_to(text, link->targets.current.host, &node))
        return false;
    session_move(link, &node);
    if (request->is_internal || request->is_moved || link->session.state != LINK_LEAVING)
        return false;
    request->is_moved = true;
    request->is_recalled = false;
    request->place = REQUEST_PARKED;
    list_append(&link->requests.parked, &request->wire.link);
    return true;
}

int request_report(struct redis_link *link, const char *text)
{
    int err = reply_errno(text);

    /* STALE is no fault: the caller asks again with the new tiers. */
    if (err != -ESTALE)
        request_log_error(link, err, text);
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
        const struct script_load *load = load_find(link, request->script);

        /* It could not be loaded; the reason was logged then. */
        if (load && load->err)
            return load->err;
    }
    return request_report(link, text);
}

static void request_replied(struct wire_request *wire_request, int err, const redisReply *reply)
{
    struct request *request = CONTAINER_OF(wire_request, struct request, wire);
    struct redis_link *link;

    MAGIC_CHECK(request, REQUEST_MAGIC);
    link = request->link;
    if (err < 0) {
        /* A request of the link itself ends with the connection. */
        if (request->is_internal)
            request_free(request);
        else
            request_finish(request, request->err ? request->err : err);
        return;
    }
    session_heard(link);
    if (link->session.state == LINK_LEAVING)
        link_wake(link);
    if (reply->type != REDIS_REPLY_ERROR) {
        if (request->script)
            session_served(link);
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
        .magic = REQUEST_MAGIC,
        .wire.done = request_replied,
        .link = link,
        .done = done,
        .arg = arg,
        .overdue_ms = uv_now(link->loop) + link->settings.timeout_ms,
        .len = len,
    };
    request->deadline_ms = request->overdue_ms;
    list_init(&request->wire.link);
    request->command[len] = '\0';
    list_init(&request->by_age);
    return request;
}

int request_new(struct redis_link *link, size_t len, redis_reply_fn done, void *arg,
                struct request **ret_request)
{
    struct request *request;
    int err;

    if (link->session.state != LINK_UP)
        return -ENOTCONN;
    err = requests_admit(link, len);
    if (err < 0)
        return err;
    request = request_alloc(link, len, done, arg);
    if (!request) {
        requests_discharge(link, len);
        return -ENOMEM;
    }
    *ret_request = request;
    return 0;
}

static void requests_overdue(uv_timer_t *timer);

int request_send(struct request *request)
{
    struct redis_link *link = request->link;
    int err = request_place_on_wire(request);

    if (err < 0) {
        request_free(request);
        return err;
    }
    request->number = ++link->requests.numbered;
    list_append(&link->requests.by_age, &request->by_age);
    if (!uv_is_active((uv_handle_t *)&link->requests.overdue))
        uv_timer_start(&link->requests.overdue, requests_overdue, link->settings.timeout_ms, 0);
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
    LIST_FOR_EACH (at, &link->requests.parked) {
        struct request *request = LIST_ENTRY(at, struct request, wire.link);

        list_remove(at);
        if (request_place_on_wire(request))
            request_finish(request, -ENOTCONN);
    }
}

void requests_fail_parked(struct redis_link *link)
{
    LIST_FOR_EACH (at, &link->requests.parked) {
        request_finish(LIST_ENTRY(at, struct request, wire.link), -ENOTCONN);
    }
}

/* Those on the wire fail together with it; says whether there are any. */
static bool requests_expire(struct redis_link *link)
{
    uint64_t now_ms = uv_now(link->loop);
    bool is_on_wire = false;

    LIST_FOR_EACH (at, &link->requests.by_age) {
        struct request *request = LIST_ENTRY(at, struct request, by_age);

        if (request->overdue_ms > now_ms)
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

static void requests_overdue(uv_timer_t *timer)
{
    struct redis_link *link = timer->data;
    const struct request *oldest;
    char where[ADDRESS_TEXT_MAX];
    char reason[LINK_DETAIL_MAX];

    MAGIC_CHECK(link, LINK_MAGIC);
    oldest = LIST_ENTRY(link->requests.by_age.next, struct request, by_age);
    if (list_is_empty(&link->requests.by_age) || link->session.state == LINK_CLOSING)
        return;
    if (oldest->overdue_ms > uv_now(link->loop)) {
        link->requests.is_late = false;
        uv_timer_start(timer, requests_overdue, oldest->overdue_ms - uv_now(link->loop), 0);
        return;
    }
    /*
     * Timers run before sockets are read: if it was this process that was held up, look there
     * first.
     */
    if (!link->requests.is_late) {
        link->requests.is_late = true;
        uv_timer_start(timer, requests_overdue, REQUEST_GRACE_MS, 0);
        return;
    }
    link->requests.is_late = false;
    if (requests_expire(link)) {
        snprintf(reason, sizeof(reason), "%s: no answer within %llu ms",
                 address_text(&link->targets.current, where, sizeof(where)),
                 (unsigned long long)link->settings.timeout_ms);
        session_fail(link, reason);
    }
    if (!list_is_empty(&link->requests.by_age) && !uv_is_active((uv_handle_t *)timer))
        uv_timer_start(timer, requests_overdue, REQUEST_GRACE_MS, 0);
}

void requests_close(struct redis_link *link)
{
    uv_timer_stop(&link->requests.overdue);
    requests_fail_parked(link);
}
