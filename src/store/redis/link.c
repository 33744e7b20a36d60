/*
 * link.c - makes and closes a link, runs its turn, and encodes the requests of its callers.
 *
 * Connecting is in session.c, the life of a request in request.c.
 */
#include "store/redis/link.h"

#include <stdlib.h>

#include "store/redis/link_internal.h"
#include "store/redis/resp.h"

enum {
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

void link_ref(struct redis_link *link)
{
    link->closing.alive++;
}

void link_unref(struct redis_link *link)
{
    void (*closed)(void *arg);
    void *arg;

    MAGIC_CHECK(link, LINK_MAGIC);
    closed = link->closing.closed;
    arg = link->closing.closed_arg;
    assert(link->closing.alive > 0);
    if (--link->closing.alive > 0)
        return;
    assert(link->requests.count == 0);
    link_free(link);
    if (closed)
        closed(arg);
}

/*
 * An idle handle keeps the loop from waiting; the turn is in the prepare handle, right before it
 * would wait.
 */
static void link_idle(uv_idle_t *idle UNUSED)
{
}

void link_wake(struct redis_link *link)
{
    MAGIC_CHECK(link, LINK_MAGIC);
    if (!uv_is_closing((uv_handle_t *)&link->turn.idle))
        uv_idle_start(&link->turn.idle, link_idle);
}

static void link_handle_closed(uv_handle_t *handle)
{
    link_unref(handle->data);
}

void link_add_handle(struct redis_link *link, uv_handle_t *handle)
{
    handle->data = link;
    link_ref(link);
}

void link_close_handle(uv_handle_t *handle)
{
    uv_close(handle, link_handle_closed);
}

static void link_close_handles(struct redis_link *link)
{
    link_close_handle((uv_handle_t *)&link->session.timer);
    link_close_handle((uv_handle_t *)&link->requests.overdue);
    link_close_handle((uv_handle_t *)&link->turn.prepare);
    link_close_handle((uv_handle_t *)&link->turn.idle);
}

static void link_tell_change(struct redis_link *link)
{
    bool is_up = link->session.state == LINK_UP;

    if (link->session.state == LINK_CLOSING || link->turn.is_told_up == is_up)
        return;
    link->turn.is_told_up = is_up;
    if (link->settings.on_change)
        link->settings.on_change(link->settings.on_change_arg, is_up);
}

/*
 * Once per turn of the loop, after everything that could send. Prepare handles that were started
 * later than this one run before it, so that what they send goes out in the same turn.
 */
static void link_turn(uv_prepare_t *prepare)
{
    struct redis_link *link = prepare->data;

    MAGIC_CHECK(link, LINK_MAGIC);
    if (!uv_is_active((uv_handle_t *)&link->turn.idle))
        return;
    uv_idle_stop(&link->turn.idle);
    link_tell_change(link);
    requests_deliver(link);
    waiters_deliver(link);
    if (link->settings.on_turn && link->session.state != LINK_CLOSING)
        link->settings.on_turn(link->settings.on_turn_arg);
    waiters_send(link);
    session_leave_if_idle(link);
    if (link->session.wire)
        wire_flush(link->session.wire);
    if (link->sentinels)
        sentinels_flush(link->sentinels);
    if (link->session.state == LINK_CLOSING && list_is_empty(&link->requests.finished) &&
        list_is_empty(&link->waits.finished))
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
    if (settings->is_tls && !settings->tls)
        return -EINVAL;
    if (settings->sentinel_count > REDIS_SENTINELS_MAX ||
        strlen(link->settings.master_name) > LINK_MASTER_NAME_MAX || settings->timeout_ms == 0)
        return -EINVAL;
    return 0;
}

static void link_start_turn(struct redis_link *link)
{
    uv_prepare_init(link->loop, &link->turn.prepare);
    link_add_handle(link, (uv_handle_t *)&link->turn.prepare);
    uv_idle_init(link->loop, &link->turn.idle);
    link_add_handle(link, (uv_handle_t *)&link->turn.idle);
    uv_prepare_start(&link->turn.prepare, link_turn);
}

int redis_link_new(uv_loop_t *loop, const struct redis_link_settings *settings, struct redis_link **ret_link)
{
    const struct sentinel_hooks hooks = {session_sentinel_found, session_sentinel_failed,
                                         link_sentinels_dirty, link_sentinels_closed, NULL};
    struct sentinel_hooks own_hooks = hooks;
    struct redis_link *link = calloc(1, sizeof(*link));
    int err;

    if (!link)
        return -ENOMEM;
    link->magic = LINK_MAGIC;
    own_hooks.arg = link;
    err = link_copy_settings(link, settings);
    if (err == 0 && settings->sentinel_count > 0)
        err = sentinels_new(loop, &link->settings, &own_hooks, &link->sentinels);
    if (err < 0) {
        link_free(link);
        return err;
    }
    link->loop = loop;
    if (link->sentinels)
        link_ref(link);
    targets_init(link);
    requests_init(link);
    waiters_init(link);
    link_start_turn(link);
    session_start(link);
    *ret_link = link;
    return 0;
}

void redis_link_flush(struct redis_link *link)
{
    if (link->session.wire)
        wire_flush(link->session.wire);
}

void redis_link_wake(struct redis_link *link)
{
    link_wake(link);
}

bool redis_link_is_up(const struct redis_link *link)
{
    return link->session.state == LINK_UP;
}

uint64_t redis_link_up_ms(const struct redis_link *link)
{
    return link->session.state == LINK_UP ? uv_now(link->loop) - link->session.up_since_ms : 0;
}

const char *redis_link_detail(const struct redis_link *link)
{
    return link->session.detail;
}

uint64_t redis_link_failures(const struct redis_link *link)
{
    return link->session.failures;
}

int redis_link_call(struct redis_link *link, const struct redis_script *script, const char *key,
                    const struct slice *args, size_t count, redis_reply_fn done, void *arg)
{
    return redis_link_call_until(link, script, key, args, count, UINT64_MAX, done, arg);
}

int redis_link_call_until(struct redis_link *link, const struct redis_script *script, const char *key,
                          const struct slice *args, size_t count, uint64_t deadline_ms, redis_reply_fn done,
                          void *arg)
{
    const struct slice head[LINK_CALL_HEAD] = {
        SLICE("EVALSHA"), {script->sha, sizeof(script->sha) - 1}, SLICE("1"), slice_of(key)};
    struct request *request;
    static const char no_deadline[LINK_DEADLINE_DIGITS] = {'0'};
    size_t total = LINK_CALL_HEAD + count + (script->has_deadline ? 1 : 0);
    size_t len = resp_head_size(total);
    char *at;
    int err;

    assert(done && total <= REDIS_ARGS_MAX);
    for (size_t i = 0; i < LINK_CALL_HEAD; i++)
        len += resp_arg_size(head[i].len);
    for (size_t i = 0; i < count; i++)
        len += resp_arg_size(args[i].len);
    if (script->has_deadline)
        len += resp_arg_size(LINK_DEADLINE_DIGITS);
    err = request_new(link, len, done, arg, &request);
    if (err < 0)
        return err;
    request->script = script;
    request->deadline_ms = min_u64(deadline_ms, request->overdue_ms);
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
    int err;

    /*
     * All keys are in one slot, whose node the link follows: it does not have to look at the key.
     */
    assert(done && count > 0 && count <= REDIS_ARGS_MAX && key_index < count);
    err = request_new(link, resp_size(args, count), done, arg, &request);
    if (err < 0)
        return err;
    resp_write(request->command, args, count);
    return request_send(request);
}

int redis_link_report(struct redis_link *link, const char *text)
{
    return request_report(link, text);
}

void redis_link_close(struct redis_link *link, void (*closed)(void *arg), void *arg)
{
    assert(link->session.state != LINK_CLOSING);
    link->closing.closed = closed;
    link->closing.closed_arg = arg;
    session_close(link);
    requests_close(link);
    if (link->sentinels)
        sentinels_close(TAKE(link->sentinels));
    link_wake(link);
}
