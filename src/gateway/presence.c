/*
 * presence.c - the timer that tells the store that this router is alive, and the retries.
 */
#include "gateway/presence.h"

#include "base/log.h"

enum {
    PRESENCE_MAGIC = 0x70726573,
    PRESENCE_ARENA_MAX = 64 * 1024,
    PRESENCE_INTERVAL_MS = CARRIER_TTL_MS / 3,
    PRESENCE_RETRY_MS = 1000,
    PRESENCE_FIRST_RETRY_MS = 50, /* until the store is connected */
};

static void presence_closed(uv_handle_t *handle)
{
    struct presence *presence = handle->data;

    MAGIC_CHECK(presence, PRESENCE_MAGIC);
    arena_release(&presence->arena);
    presence->magic = 0;
    presence->stopped(presence->stopped_arg);
}

static void presence_close(struct presence *presence)
{
    uv_close((uv_handle_t *)&presence->timer, presence_closed);
}

static void presence_left(void *arg, int err, const struct result *result UNUSED)
{
    struct presence *presence = arg;

    MAGIC_CHECK(presence, PRESENCE_MAGIC);
    if (err < 0 && presence->is_known)
        log_warn("the store does not know that this router has stopped: for a while it is taken for a "
                 "carrier of the calls that it had",
                 log_str("error", store_error_text(err)));
    presence_close(presence);
}

static void presence_leave(struct presence *presence)
{
    const struct command command = {.type = COMMAND_PRESENT,
                                    .present = {.carrier = presence->carrier, .is_leaving = true}};
    int err;

    (void)uv_timer_stop(&presence->timer);
    arena_reset(&presence->arena);
    err = ask_store(presence->asker, &presence->ask, &command, &presence->arena, presence_left, presence);
    if (err < 0)
        presence_left(presence, err, NULL);
}

static void presence_say(uv_timer_t *timer)
{
    presence_renew(timer->data);
}

static void presence_await(struct presence *presence, uint64_t delay_ms)
{
    (void)uv_timer_start(&presence->timer, presence_say, delay_ms, 0);
}

static void presence_failed(struct presence *presence, const char *error)
{
    if (!presence->is_failing)
        log_warn("the store does not hear that this router is alive: if that lasts, others may release the "
                 "calls that it carries",
                 log_str("error", error), log_num("after_ms", CARRIER_TTL_MS));
    presence->is_failing = true;
    presence_await(presence, PRESENCE_RETRY_MS);
}

static void presence_said(void *arg, int err, const struct result *result)
{
    struct presence *presence = arg;

    MAGIC_CHECK(presence, PRESENCE_MAGIC);
    presence->is_asking = false;
    if (presence->is_leaving) {
        presence_leave(presence);
        return;
    }
    if (err < 0 || result->outcome != OUTCOME_OK) {
        presence_failed(presence, err < 0 ? store_error_text(err) : result->error);
        return;
    }
    presence->others = result->present.others;
    presence->is_failing = false;
    presence->is_known = true;
    presence_await(presence, PRESENCE_INTERVAL_MS);
}

void presence_renew(struct presence *presence)
{
    const struct command command = {.type = COMMAND_PRESENT, .present = {.carrier = presence->carrier}};
    int err;

    if (presence->is_asking || presence->is_leaving)
        return;
    arena_reset(&presence->arena);
    err = ask_store(presence->asker, &presence->ask, &command, &presence->arena, presence_said, presence);
    presence->is_asking = err == 0;
    /* Not connected, as at the start: the store itself says so in the log. */
    if (err < 0)
        presence_await(presence, presence->is_known ? PRESENCE_RETRY_MS : PRESENCE_FIRST_RETRY_MS);
}

void presence_start(struct presence *presence, uv_loop_t *loop, const char *carrier,
                    const struct asker *asker)
{
    *presence = (struct presence){.magic = PRESENCE_MAGIC, .carrier = carrier, .asker = asker};
    arena_init(&presence->arena, PRESENCE_ARENA_MAX);
    (void)uv_timer_init(loop, &presence->timer);
    presence->timer.data = presence;
    presence_await(presence, 0);
}

bool presence_is_asking(const struct presence *presence)
{
    return presence->is_asking;
}

uint64_t presence_others(const struct presence *presence)
{
    return presence->others;
}

void presence_stop(struct presence *presence, void (*stopped)(void *arg), void *arg)
{
    assert(!presence->is_leaving);
    presence->is_leaving = true;
    presence->stopped = stopped;
    presence->stopped_arg = arg;
    if (!presence->is_asking)
        presence_leave(presence);
}
