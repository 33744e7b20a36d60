/*
 * sentinel.c - asks the sentinels one by one for the master's address.
 */
#include "store/redis/sentinel.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/redis/address.h"
#include "store/redis/reply.h"
#include "store/redis/resp.h"
#include "store/redis/wire.h"

enum {
    SENTINELS_MAGIC = 0x736e746c,
    SENTINEL_TIMEOUT_MAX_MS = 1000, /* for one of them: there are others */
    SENTINEL_COMMAND_MAX = 512,
};

struct sentinels {
    unsigned magic;
    uv_loop_t *loop;
    struct sentinel_hooks hooks;
    struct redis_address all[REDIS_SENTINELS_MAX]; /* the one to ask first stands first */
    size_t count;
    char command[SENTINEL_COMMAND_MAX];
    size_t command_len;
    char *auth; /* the whole command, or NULL: they ask for no password */
    size_t auth_len;
    char *password;
    struct tls_client_context *tls; /* NULL: clear text */
    uint64_t timeout_ms;
    uv_timer_t timer;
    struct wire *wire; /* to `wire_address`, or NULL */
    struct wire_request request;
    struct wire_request auth_request;
    size_t asked; /* of this question */
    unsigned questions;
    bool is_asking;
    bool is_closing;
    bool is_open;
    size_t alive; /* wires and the timer that are still on the loop */
    char reason[WIRE_REASON_MAX];
};

static void sentinels_ask_next(struct sentinels *sentinels);

static void sentinels_rotate(struct sentinels *sentinels)
{
    struct redis_address first = sentinels->all[0];

    memmove(&sentinels->all[0], &sentinels->all[1], (sentinels->count - 1) * sizeof(first));
    sentinels->all[sentinels->count - 1] = first;
}

static void sentinels_drop_wire(struct sentinels *sentinels)
{
    struct wire *wire = TAKE(sentinels->wire);

    sentinels->is_open = false;
    if (wire)
        wire_drop(wire);
}

static void PRINTF_LIKE(2, 3) sentinels_pass(struct sentinels *sentinels, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(sentinels->reason, sizeof(sentinels->reason), format, args);
    va_end(args);
    uv_timer_stop(&sentinels->timer);
    sentinels_drop_wire(sentinels);
    sentinels_rotate(sentinels);
    sentinels_ask_next(sentinels);
}

static void sentinels_timed_out(uv_timer_t *timer)
{
    struct sentinels *sentinels = timer->data;

    MAGIC_CHECK(sentinels, SENTINELS_MAGIC);
    /*
     * The resolver has its own patience, and there is no use in asking it twice at the same time.
     */
    if (sentinels->wire && wire_is_resolving(sentinels->wire)) {
        uv_timer_start(timer, sentinels_timed_out, sentinels->timeout_ms, 0);
        return;
    }
    sentinels_pass(sentinels, "sentinel %s:%u does not answer", sentinels->all[0].host,
                   (unsigned)sentinels->all[0].port);
}

/* Some sentinels repeat the command in their error: the password is not shown. */
static void sentinels_refused(struct sentinels *sentinels, const char *text)
{
    const struct redis_address *asked = &sentinels->all[0];

    if (sentinels->password && strstr(text, sentinels->password))
        text = "AUTH was refused";
    sentinels_pass(sentinels, "sentinel %s:%u: %s%.200s", asked->host, (unsigned)asked->port,
                   reply_errno(text) == -EACCES ? "its user or password is wrong or missing: " : "", text);
}

static void sentinels_authenticated(struct wire_request *request, int err, const redisReply *reply)
{
    struct sentinels *sentinels = CONTAINER_OF(request, struct sentinels, auth_request);

    MAGIC_CHECK(sentinels, SENTINELS_MAGIC);
    /* The question was sent right behind it, and is dropped with the wire. */
    if (err == 0 && reply->type == REDIS_REPLY_ERROR)
        sentinels_refused(sentinels, reply->str);
}

static void sentinels_answered(struct wire_request *request, int err, const redisReply *reply)
{
    struct sentinels *sentinels = CONTAINER_OF(request, struct sentinels, request);
    const struct redis_address *asked;
    struct redis_address master = {0};
    const redisReply *host;
    const redisReply *port;

    MAGIC_CHECK(sentinels, SENTINELS_MAGIC);
    asked = &sentinels->all[0];
    /* A lost wire speaks for itself, one that was dropped had been given up before. */
    if (err < 0)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        sentinels_refused(sentinels, reply->str);
        return;
    }
    host = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 ? reply->element[0] : NULL;
    port = host ? reply->element[1] : NULL;
    if (!host || !host->str || !port->str ||
        !address_set(&master, (struct slice){host->str, host->len}, strtoll(port->str, NULL, 10))) {
        sentinels_pass(sentinels, "sentinel %s:%u does not know a master of that name", asked->host,
                       (unsigned)asked->port);
        return;
    }
    uv_timer_stop(&sentinels->timer);
    sentinels->is_asking = false;
    sentinels->hooks.found(sentinels->hooks.arg, &master);
}

static void sentinels_send(struct sentinels *sentinels)
{
    sentinels->request.done = sentinels_answered;
    if (wire_send(sentinels->wire, sentinels->command, sentinels->command_len, &sentinels->request))
        sentinels_pass(sentinels, "no memory");
}

static void sentinels_wire_opened(void *arg)
{
    struct sentinels *sentinels = arg;

    MAGIC_CHECK(sentinels, SENTINELS_MAGIC);
    sentinels->is_open = true;
    sentinels->auth_request.done = sentinels_authenticated;
    if (sentinels->auth &&
        wire_send(sentinels->wire, sentinels->auth, sentinels->auth_len, &sentinels->auth_request)) {
        sentinels_pass(sentinels, "no memory");
        return;
    }
    if (sentinels->is_asking)
        sentinels_send(sentinels);
}

static void sentinels_wire_lost(void *arg, const char *reason)
{
    struct sentinels *sentinels = arg;

    MAGIC_CHECK(sentinels, SENTINELS_MAGIC);
    sentinels->wire = NULL;
    sentinels->is_open = false;
    if (sentinels->is_asking)
        sentinels_pass(sentinels, "sentinel %s", reason);
}

static void sentinels_wire_dirty(void *arg)
{
    struct sentinels *sentinels = arg;

    MAGIC_CHECK(sentinels, SENTINELS_MAGIC);
    sentinels->hooks.dirty(sentinels->hooks.arg);
}

static void sentinels_free(struct sentinels *sentinels)
{
    free(sentinels->auth);
    free(sentinels->password);
    free(sentinels);
}

static void sentinels_unref(void *arg)
{
    struct sentinels *sentinels = arg;
    struct sentinel_hooks hooks;

    MAGIC_CHECK(sentinels, SENTINELS_MAGIC);
    hooks = sentinels->hooks;
    assert(sentinels->alive > 0);
    if (--sentinels->alive > 0)
        return;
    sentinels_free(sentinels);
    hooks.closed(hooks.arg);
}

static void sentinels_connect(struct sentinels *sentinels)
{
    const struct wire_hooks hooks = {sentinels_wire_opened, sentinels_wire_lost, sentinels_wire_dirty,
                                     sentinels_unref, sentinels};

    if (wire_open(sentinels->loop, &sentinels->all[0], sentinels->questions, sentinels->tls, &hooks,
                  &sentinels->wire)) {
        sentinels_pass(sentinels, "no memory");
        return;
    }
    sentinels->alive++;
}

static void sentinels_ask_next(struct sentinels *sentinels)
{
    if (sentinels->asked == sentinels->count) {
        sentinels->is_asking = false;
        sentinels->hooks.failed(sentinels->hooks.arg, sentinels->reason);
        return;
    }
    sentinels->asked++;
    uv_timer_start(&sentinels->timer, sentinels_timed_out, sentinels->timeout_ms, 0);
    if (sentinels->is_open)
        sentinels_send(sentinels);
    else if (!sentinels->wire)
        sentinels_connect(sentinels);
}

/* From the timer, so that no answer comes inside the question. */
static void sentinels_begin(uv_timer_t *timer)
{
    struct sentinels *sentinels = timer->data;

    MAGIC_CHECK(sentinels, SENTINELS_MAGIC);
    sentinels_ask_next(sentinels);
}

void sentinels_ask(struct sentinels *sentinels)
{
    assert(!sentinels->is_asking && !sentinels->is_closing);
    sentinels->is_asking = true;
    sentinels->asked = 0;
    sentinels->questions++;
    uv_timer_start(&sentinels->timer, sentinels_begin, 0, 0);
}

bool sentinels_is_asking(const struct sentinels *sentinels)
{
    return sentinels->is_asking;
}

void sentinels_distrust(struct sentinels *sentinels)
{
    /* During a question the order changes by itself. */
    if (sentinels->is_asking || sentinels->count < 2)
        return;
    sentinels_drop_wire(sentinels);
    sentinels_rotate(sentinels);
}

void sentinels_flush(struct sentinels *sentinels)
{
    if (sentinels->wire)
        wire_flush(sentinels->wire);
}

static int sentinels_prepare_auth(struct sentinels *sentinels, const struct redis_link_settings *settings)
{
    const struct slice auth[] = {SLICE("AUTH"), slice_of(settings->sentinel_user),
                                 slice_of(settings->sentinel_password)};
    const struct slice only_password[] = {SLICE("AUTH"), slice_of(settings->sentinel_password)};
    const struct slice *args = settings->sentinel_user[0] ? auth : only_password;
    size_t count = settings->sentinel_user[0] ? ARRAY_LEN(auth) : ARRAY_LEN(only_password);

    if (!settings->sentinel_password[0])
        return 0;
    sentinels->auth_len = resp_size(args, count);
    sentinels->auth = malloc(sentinels->auth_len + 1);
    sentinels->password = strdup(settings->sentinel_password);
    if (!sentinels->auth || !sentinels->password)
        return -ENOMEM;
    *resp_write(sentinels->auth, args, count) = '\0';
    return 0;
}

int sentinels_new(uv_loop_t *loop, const struct redis_link_settings *settings,
                  const struct sentinel_hooks *hooks, struct sentinels **ret_sentinels)
{
    struct sentinels *sentinels = calloc(1, sizeof(*sentinels));
    const struct slice args[] = {SLICE("SENTINEL"), SLICE("get-master-addr-by-name"),
                                 slice_of(settings->master_name)};

    if (!sentinels)
        return -ENOMEM;
    assert(settings->sentinel_count > 0 && settings->sentinel_count <= REDIS_SENTINELS_MAX);
    sentinels->magic = SENTINELS_MAGIC;
    sentinels->loop = loop;
    sentinels->hooks = *hooks;
    sentinels->count = settings->sentinel_count;
    sentinels->tls = settings->is_tls && !settings->sentinels_are_clear ? settings->tls : NULL;
    memcpy(sentinels->all, settings->sentinels, sentinels->count * sizeof(sentinels->all[0]));
    sentinels->timeout_ms = min_u64(settings->timeout_ms, SENTINEL_TIMEOUT_MAX_MS);
    sentinels->command_len = resp_size(args, ARRAY_LEN(args));
    assert(sentinels->command_len < sizeof(sentinels->command));
    resp_write(sentinels->command, args, ARRAY_LEN(args));
    if (sentinels_prepare_auth(sentinels, settings)) {
        sentinels_free(sentinels);
        return -ENOMEM;
    }
    list_init(&sentinels->request.link);
    list_init(&sentinels->auth_request.link);
    uv_timer_init(loop, &sentinels->timer);
    sentinels->timer.data = sentinels;
    sentinels->alive = 1;
    *ret_sentinels = sentinels;
    return 0;
}

static void sentinels_timer_closed(uv_handle_t *handle)
{
    sentinels_unref(handle->data);
}

void sentinels_close(struct sentinels *sentinels)
{
    assert(!sentinels->is_closing);
    sentinels->is_closing = true;
    sentinels->is_asking = false;
    sentinels_drop_wire(sentinels);
    uv_close((uv_handle_t *)&sentinels->timer, sentinels_timer_closed);
}
