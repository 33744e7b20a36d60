/*
 * campaign.c - places calls at a rate, up to a number at a time, and drives the frames of all of
 * them.
 */
#include "campaign.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"

static bool campaign_may_place(const struct campaign *campaign, uint64_t now_ms)
{
    const struct campaign_settings *settings = &campaign->settings;
    uint64_t elapsed_ms = now_ms - campaign->started_ms;

    if (campaign->is_stopping || (settings->calls > 0 && campaign->tally.started >= settings->calls))
        return false;
    return settings->duration_ms == 0 || elapsed_ms < settings->duration_ms;
}

static void campaign_place(struct campaign *campaign, uint64_t now_ms)
{
    const struct campaign_settings *settings = &campaign->settings;
    double elapsed_s = (double)(now_ms - campaign->started_ms) / 1000;

    while (campaign_may_place(campaign, now_ms) && campaign->active < settings->concurrent) {
        if (settings->rate > 0 && (double)campaign->tally.started >= settings->rate * elapsed_s + 1)
            return;
        if (call_start(campaign, campaign->tally.started) != 0)
            return; /* no memory or no descriptor now; perhaps in the next turn */
        campaign->tally.started++;
        campaign->tally.active_max = max_u64(campaign->tally.active_max, campaign->active);
    }
}

static void campaign_tick(uv_timer_t *timer)
{
    struct campaign *campaign = CONTAINER_OF(timer, struct campaign, tick);
    uint64_t now_ms = uv_now(timer->loop);

    /* A turn that came late makes up for the milliseconds that it missed, so that no frame is left out. */
    campaign->tally.late_ms =
        max_u64(campaign->tally.late_ms, now_ms - campaign->ticked_ms - CAMPAIGN_TICK_MS);
    while (campaign->ticked_ms < now_ms) {
        campaign->ticked_ms++;
        calls_send(campaign, &campaign->slots[campaign->ticked_ms % MEDIA_FRAME_MS]);
        if (campaign->ticked_ms % MEDIA_FRAME_MS == 0)
            calls_sweep(campaign, now_ms);
    }
    campaign_place(campaign, now_ms);
    if (campaign->active == 0 && !campaign_may_place(campaign, now_ms))
        uv_close((uv_handle_t *)timer, NULL);
}

static void campaign_make_pattern(struct campaign *campaign)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < sizeof(campaign->pattern); i++)
        campaign->pattern[i] = alphabet[(i * 37 + 11) % 64];
}

int campaign_start(struct campaign *campaign, struct net *net, const struct campaign_settings *settings)
{
    int r = 0;

    *campaign = (struct campaign){.net = net, .settings = *settings};
    journal_init(&campaign->journal, settings->journal_path);
    if (!random_bytes_wait(&campaign->run, sizeof(campaign->run)))
        abort();
    for (size_t i = 0; r == 0 && !settings->has_ws_url && i < settings->router_count; i++)
        r = url_resolve(&settings->routers[i], &campaign->router_addresses[i]);
    if (r == 0 && settings->has_connect_to)
        r = url_resolve(&settings->connect_to, &campaign->connect_address);
    if (r != 0)
        return r;
    list_init(&campaign->calls);
    for (size_t i = 0; i < ARRAY_LEN(campaign->slots); i++)
        list_init(&campaign->slots[i]);
    strbuf_init(&campaign->scratch, NULL, WS_HEADER_MAX + MEDIA_MESSAGE_MAX);
    campaign_make_pattern(campaign);
    uv_update_time(&net->loop);
    campaign->started_ms = uv_now(&net->loop);
    campaign->ticked_ms = campaign->started_ms;
    uv_timer_init(&net->loop, &campaign->tick);
    uv_timer_start(&campaign->tick, campaign_tick, CAMPAIGN_TICK_MS, CAMPAIGN_TICK_MS);
    return 0;
}

void campaign_stop(struct campaign *campaign)
{
    campaign->is_stopping = true;
    calls_hang_up(campaign);
}

void campaign_release(struct campaign *campaign)
{
    strbuf_release(&campaign->scratch);
    journal_release(&campaign->journal);
}

void campaign_left(struct campaign *campaign)
{
    if (campaign->held == 0)
        return;
    if (campaign->left_end - campaign->left_first == CAMPAIGN_LEFT_MAX)
        campaign->left_first++;
    campaign->left_ns[campaign->left_end++ % CAMPAIGN_LEFT_MAX] = clock_elapsed_ns();
}

void campaign_handed_over(struct campaign *campaign)
{
    uint64_t left_ns;

    if (campaign->left_first == campaign->left_end)
        return;
    left_ns = campaign->left_ns[campaign->left_first++ % CAMPAIGN_LEFT_MAX];
    histogram_add(&campaign->tally.handover_us, (clock_elapsed_ns() - left_ns) / 1000);
}

bool campaign_is_fine(const struct campaign *campaign)
{
    const struct tally *tally = &campaign->tally;

    return tally->failed == 0 && tally->frames_lost == 0 && tally->frames_reordered == 0 &&
           tally->frames_corrupt == 0 && (tally->busy == 0 || campaign->settings.allows_busy) &&
           tally->completed + tally->busy + tally->abandoned + tally->died == tally->started &&
           tally->started > 0;
}
