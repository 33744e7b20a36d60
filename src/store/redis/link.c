/*
 * link.c - makes and closes a link, runs its turn, and encodes the requests of its callers.
 *
 * Connecting is in session.c, the life of a request in request.c.
 */
#include "store/redis/link.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/redis/link_internal.h"
#include "store/redis/resp.h"

enum {
    LINK_HANDLES = 4,
    LINK_CALL_HEAD = 4, /* EVALSHA sha 1 key */
    LINK_MASTER_NAME_MAX = 256,
};

static void link_free(struct redis_link *link)
{
    char *texts[] = {(char *)(uintptr_t)link->settings.user, (char *)(uintptr_t)link->settings.password,
                     (char *)(uintptr_t)link->settings.master_name,
                     (char *)(uintptr_t)link->settings.sentinel_user,
                     (char *)(uintptr_t)link->settings.sentinel_password};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        free(texts[i]);
    free(link);
}

void link_unref(struct redis_link *link)
{
    void (*closed)(void *arg) = link->closed;
    void *arg = link->closed_arg;

    assert(link->alive > 0);
    if (--link->alive > 0)
        return;
    assert(link->waiting == 0);
    link_free(link);
    if (closed)
        closed(arg);
}

/* An idle handle keeps the loop from waiting; the turn is in the prepare handle, right before it would wait.
 */
static void link_idle(uv_idle_t *idle UNUSED)
{
}

void link_wake(struct redis_link *link)
{
    if (!uv_is_closing((uv_handle_t *)&link->idle))
        uv_idle_start(&link->idle, link_idle);
}

static void link_handle_closed(uv_handle_t *handle)
{
    link_unref(handle->data);
}

static void link_close_handles(struct redis_link *link)
{
    uv_close((uv_handle_t *)&link->phase, link_handle_closed);
    uv_close((uv_handle_t *)&link->overdue, link_handle_closed);
    uv_close((uv_handle_t *)&link->prepare, link_handle_closed);
    uv_close((uv_handle_t *)&link->idle, link_handle_closed);
}

static void link_tell_change(struct redis_link *link)
{
    bool is_up = link->state == LINK_UP;

    if (link->state == LINK_CLOSING || link->is_told_up == is_up)
        return;
    link->is_told_up = is_up;
    if (link->settings.on_change)
        link->settings.on_change(link->settings.on_change_arg, is_up);
}

/*
 * Once per turn of the loop, after everything that could send. Prepare handles that were started later than
 * this one run before it, so that what they send goes out in the same turn.
 */
static void link_turn(uv_prepare_t *prepare)
{
    struct redis_link *link = prepare->data;

    if (!uv_is_active((uv_handle_t *)&link->idle))
        return;
    uv_idle_stop(&link->idle);
    link_tell_change(link);
    requests_deliver(link);
    waiters_deliver(link);
    if (link->settings.on_turn && link->state != LINK_CLOSING)
        link->settings.on_turn(link->settings.on_turn_arg);
    waiters_send(link);
    session_leave_if_idle(link);
    if (link->wire)
        wire_flush(link->wire);
    if (link->sentinels)
        sentinels_flush(link->sentinels);
    if (link->state == LINK_CLOSING && list_is_empty(&link->finished) &&
        list_is_empty(&link->waiters_finished))
        link_close_handles(link);
}

static void link_sentinels_dirty(void *arg)
{
    link_wake(arg);
}

static void link_sentinels_closed(void *arg)
{
    link_unref(arg);
}

/* Before anything is on the loop, so that a failure leaves nothing behind. */
static int link_copy_settings(struct redis_link *link, const struct redis_link_settings *settings)
{
    link->settings = *settings;
    link->settings.user = strdup(settings->user ? settings->user : "");
    link->settings.password = strdup(settings->password ? settings->password : "");
    link->settings.master_name = strdup(settings->master_name ? settings->master_name : "");
    link->settings.sentinel_user = strdup(settings->sentinel_user ? settings->sentinel_user : "");
    link->settings.sentinel_password = strdup(settings->sentinel_password ? settings->sentinel_password : "");
    if (!link->settings.user || !link->settings.password || !link->settings.master_name ||
        !link->settings.sentinel_user || !link->settings.sentinel_password)
        return -ENOMEM;
    if (settings->server_count > REDIS_SERVERS_MAX ||
        (settings->server_count == 0 && settings->sentinel_count == 0))
        return -EINVAL;
    if (settings->sentinel_count > REDIS_SENTINELS_MAX ||
        strlen(link->settings.master_name) > LINK_MASTER_NAME_MAX || settings->timeout_ms == 0)
        return -EINVAL;
    return 0;
}

static void link_start(struct redis_link *link, uv_loop_t *loop)
{
    uv_timer_init(loop, &link->phase);
    uv_timer_init(loop, &link->overdue);
    uv_prepare_init(loop, &link->prepare);
    uv_idle_init(loop, &link->idle);
    link->phase.data = link;
    link->overdue.data = link;
    link->prepare.data = link;
    link->idle.data = link;
    link->alive += LINK_HANDLES;
    uv_prepare_start(&link->prepare, link_turn);
    session_begin(link);
}

int redis_link_new(uv_loop_t *loop, const struct redis_link_settings *settings, struct redis_link **ret_link)
{
    const struct sentinel_hooks hooks = {session_sentinel_found, session_sentinel_failed,
                                         link_sentinels_dirty, link_sentinels_closed, NULL};
    struct sentinel_hooks own_hooks = hooks;
    struct redis_link *link = calloc(1, sizeof(*link));
    int rc;

    if (!link)
        return -ENOMEM;
    own_hooks.arg = link;
    rc = link_copy_settings(link, settings);
    if (rc == 0 && settings->sentinel_count > 0)
        rc = sentinels_new(loop, &link->settings, &own_hooks, &link->sentinels);
    if (rc) {
        link_free(link);
        return rc;
    }
    link->loop = loop;
    link->target = settings->servers[0];
    link->must_be_master = targets_need_master(link);
    link->alive = link->sentinels ? 1 : 0;
    link->jitter = uv_hrtime() ^ (uint64_t)(uintptr_t)link ^ ((uint64_t)uv_os_getpid() << 32) ^ 1;
    list_init(&link->by_age);
    list_init(&link->parked);
    list_init(&link->finished);
    list_init(&link->waiters);
    list_init(&link->waiters_finished);
    snprintf(link->detail, sizeof(link->detail), "not connected yet");
    link_start(link, loop);
    *ret_link = link;
    return 0;
}

void redis_link_wake(struct redis_link *link)
{
    link_wake(link);
}

bool redis_link_is_up(const struct redis_link *link)
{
    return link->state == LINK_UP;
}

uint64_t redis_link_up_ms(const struct redis_link *link)
{
    return link->state == LINK_UP ? uv_now(link->loop) - link->up_since_ms : 0;
}

const char *redis_link_detail(const struct redis_link *link)
{
    return link->detail;
}

uint64_t redis_link_failures(const struct redis_link *link)
{
    return link->failures;
}

int redis_link_call(struct redis_link *link, const struct redis_script *script, const char *key,
                    const struct slice *args, size_t count, redis_reply_fn done, void *arg)
{
    const struct slice head[LINK_CALL_HEAD] = {
        SLICE("EVALSHA"), {script->sha, sizeof(script->sha) - 1}, SLICE("1"), slice_of(key)};
    struct request *request;
    static const char no_deadline[LINK_DEADLINE_DIGITS] = {'0'};
    size_t total = LINK_CALL_HEAD + count + (script->has_deadline ? 1 : 0);
    size_t len = resp_head_size(total);
    char *at;
    int rc;

    assert(done && total <= REDIS_ARGS_MAX);
    for (size_t i = 0; i < LINK_CALL_HEAD; i++)
        len += resp_arg_size(head[i].len);
    for (size_t i = 0; i < count; i++)
        len += resp_arg_size(args[i].len);
    if (script->has_deadline)
        len += resp_arg_size(LINK_DEADLINE_DIGITS);
    rc = request_new(link, len, done, arg, &request);
    if (rc)
        return rc;
    request->script = script;
    at = resp_head(request->command, total);
    for (size_t i = 0; i < LINK_CALL_HEAD; i++)
        at = resp_arg(at, head[i]);
    for (size_t i = 0; i < count; i++)
        at = resp_arg(at, args[i]);
    if (script->has_deadline)
        at = resp_arg(at, (struct slice){no_deadline, LINK_DEADLINE_DIGITS}); /* set when it is sent */
    assert(at == request->command + len);
    return request_send(request);
}

int redis_link_command(struct redis_link *link, const struct slice *args, size_t count, size_t key_index,
                       redis_reply_fn done, void *arg)
{
    struct request *request;
    int rc;

    /* All keys are in one slot, whose node the link follows: it does not have to look at the key. */
    assert(done && count > 0 && count <= REDIS_ARGS_MAX && key_index < count);
    rc = request_new(link, resp_size(args, count), done, arg, &request);
    if (rc)
        return rc;
    resp_write(request->command, args, count);
    return request_send(request);
}

int redis_link_report(struct redis_link *link, const char *text)
{
    return request_report(link, text);
}

void redis_link_close(struct redis_link *link, void (*closed)(void *arg), void *arg)
{
    assert(link->state != LINK_CLOSING);
    link->state = LINK_CLOSING;
    link->closed = closed;
    link->closed_arg = arg;
    uv_timer_stop(&link->phase);
    uv_timer_stop(&link->overdue);
    session_drop_wire(link);
    requests_fail_parked(link);
    if (link->sentinels)
        sentinels_close(TAKE(link->sentinels));
    link_wake(link);
}
