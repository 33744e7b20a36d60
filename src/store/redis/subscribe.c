/*
 * subscribe.c - a link that subscribes to a channel, and checks that the subscription is alive.
 */
#include "store/redis/link_internal.h"

#include "base/log.h"
#include "store/redis/address.h"

/* Puts the server in front, and keeps the others for when it dies. */
static void settings_begin_with(struct redis_link_settings *settings, const struct redis_address *server)
{
    size_t at = 0;

    while (at < settings->server_count && !address_equals(&settings->servers[at], server))
        at++;
    if (at == REDIS_SERVERS_MAX)
        at--;
    else if (at == settings->server_count)
        settings->server_count++;
    settings->servers[at] = settings->servers[0];
    settings->servers[0] = *server;
}

int redis_link_subscribe(const struct redis_link *link, const char *channel, redis_message_fn on_message,
                         void *arg, struct redis_link **ret_link)
{
    struct redis_link_settings settings = link->settings;
    int err;

    assert(channel && on_message);
    settings.on_change = NULL;
    settings.on_turn = NULL;
    settings.settle_key = NULL;
    settings.channel = channel;
    settings.on_message = on_message;
    settings.on_message_arg = arg;
    /*
     * In a cluster a message that is published on one node reaches all of them: any node will do.
     */
    settings_begin_with(&settings, &link->targets.current);
    err = redis_link_new(link->loop, &settings, ret_link);
    if (err < 0)
        return err;
    targets_copy(*ret_link, link);
    return 0;
}

void subscription_start(struct redis_link *link)
{
    link->subscription.is_confirmed = false;
    if (wire_subscribe(link->session.wire, link->settings.channel))
        log_debug("no memory to subscribe"); /* the next tick tries again */
}

void subscription_heard(void *arg, struct slice message)
{
    struct redis_link *link = arg;

    MAGIC_CHECK(link, LINK_MAGIC);
    session_heard(link);
    if (link->session.state != LINK_UP || (!message.data && link->subscription.is_confirmed))
        return;
    link->subscription.is_confirmed = true;
    link->settings.on_message(link->settings.on_message_arg, message);
}

/*
 * A subscriber may send next to nothing. To subscribe once more changes nothing and is answered: it
 * does what PING does elsewhere.
 */
void subscription_tick(struct redis_link *link)
{
    uint64_t silent_ms = uv_now(link->loop) - link->session.heard_ms;

    if (silent_ms >= LINK_TICK_MS + max_u64(link->settings.timeout_ms, LINK_TICK_MS)) {
        session_fail(link, "no answer to SUBSCRIBE");
        return;
    }
    if (silent_ms >= LINK_TICK_MS && wire_subscribe(link->session.wire, link->settings.channel))
        log_debug("no memory to subscribe");
}
