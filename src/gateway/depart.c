/*
 * depart.c - the router goes, and its calls stay: the store hears that they may come back, and their streams
 * are closed with 1012.
 *
 * The store comes first: a provider that asks how its call goes on must not be told something else. What
 * opens meanwhile departs as well. A stream whose call has ended is left alone: it closes by itself.
 */
#include "base/log.h"
#include "gateway/stream_internal.h"

enum { DEPART_ARENA_MAX = 1024 * 1024 };

static struct stream *stream_of(struct list *link)
{
    return LIST_ENTRY(link, struct stream, link);
}

static bool stream_may_depart(const struct stream *stream)
{
    return stream->phase != STREAM_PARTING && stream->phase != STREAM_CLOSING && !stream->is_ending;
}

/* Closes those that the store has heard of. */
static void depart_part(struct gateway *gateway)
{
    LIST_FOR_EACH (link, &gateway->streams) {
        struct stream *stream = stream_of(link);

        if (stream->departs && stream_may_depart(stream))
            stream_part(stream, STREAM_CUT, WS_CLOSE_RESTART, "the router stops");
    }
}

static void depart_told(void *arg, int err, const struct result *result)
{
    struct gateway *gateway = arg;
    struct departure *departure = &gateway->departure;

    departure->is_asking = false;
    if (err == 0 && result->outcome == OUTCOME_OK)
        log_info("calls may come back: the router stops", log_num("calls", (int64_t)result->depart.count));
    else
        log_warn("the store does not know that calls may come back: their leases keep them",
                 log_str("error", err < 0 ? store_error_text(err) : result->error));
    arena_reset(&departure->arena); /* the result is in it, too */
    depart_part(gateway);
    depart_run(gateway);
    gateway_lost_one(gateway);
}

/* 0: the store is asked. */
static int depart_tell(struct gateway *gateway, const char *const *call_sids, size_t count)
{
    struct departure *departure = &gateway->departure;
    const struct command command = {
        .type = COMMAND_DEPART,
        .depart = {.call_sids = call_sids, .count = count, .carrier = gateway->settings.identity}};
    int err = -ENOMEM;

    if (call_sids)
        err = ask_store(&gateway->asker, &departure->ask, &command, &departure->arena, depart_told, gateway);
    departure->is_asking = err == 0;
    return err;
}

static bool is_to_depart(const struct gateway *gateway, const struct stream *stream)
{
    const struct departure *departure = &gateway->departure;

    if (stream->departs || !stream_may_depart(stream))
        return false;
    return departure->is_for_all || departure->comes_back(stream->provider);
}

void depart_run(struct gateway *gateway)
{
    struct departure *departure = &gateway->departure;
    const char **call_sids;
    size_t count = 0, streams = 0;

    if (!departure->has_begun || departure->is_asking)
        return;
    call_sids = arena_alloc(&departure->arena, SIDS_MAX * sizeof(*call_sids));
    LIST_FOR_EACH (link, &gateway->streams) {
        struct stream *stream = stream_of(link);

        if (count == SIDS_MAX)
            break;
        if (!is_to_depart(gateway, stream))
            continue;
        stream->departs = true;
        streams++;
        /* One that waits has its place in line, and no carrier. */
        if (call_sids && stream->call)
            call_sids[count++] = arena_strdup(&departure->arena, stream->call_sid);
        if (count > 0 && !call_sids[count - 1])
            count--;
    }
    if (streams > 0)
        log_warn("connections cut: the router stops", log_num("connections", (int64_t)streams));
    if (count > 0 && depart_tell(gateway, call_sids, count) == 0)
        return;
    arena_reset(&departure->arena);
    depart_part(gateway);
    if (count == SIDS_MAX)
        depart_soon(gateway); /* there may be more */
}

static void depart_look(uv_timer_t *timer)
{
    depart_run(timer->data);
}

void depart_soon(struct gateway *gateway)
{
    if (gateway->departure.has_begun)
        (void)uv_timer_start(&gateway->departure.timer, depart_look, 0, 0);
}

void depart_init(struct gateway *gateway)
{
    arena_init(&gateway->departure.arena, DEPART_ARENA_MAX);
    (void)uv_timer_init(gateway->loop, &gateway->departure.timer);
    gateway->departure.timer.data = gateway;
}

void gateway_depart(struct gateway *gateway, bool (*comes_back)(const char *provider))
{
    struct departure *departure = &gateway->departure;

    departure->has_begun = true;
    departure->is_for_all |= !comes_back;
    departure->comes_back = comes_back;
    depart_run(gateway);
}

bool gateway_is_departing(const struct gateway *gateway)
{
    return gateway->departure.is_asking;
}
