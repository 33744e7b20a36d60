/*
 * waiting_api.c - the API of waiting_api.h.
 */
#include "waiting_api.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { TIMERS_MAX = 8 };

static uint64_t now_ms;

static struct {
    uv_timer_t *timer;
    uv_timer_cb due;
    uint64_t at_ms;
} timers[TIMERS_MAX];
static size_t timer_count;

uint64_t __wrap_clock_elapsed_ms(void);
uint64_t __wrap_clock_elapsed_ms(void)
{
    return now_ms;
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb due, uint64_t timeout_ms, uint64_t repeat_ms);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb due, uint64_t timeout_ms, uint64_t repeat_ms UNUSED)
{
    size_t i = 0;

    while (i < timer_count && timers[i].timer != timer)
        i++;
    assert_true(i < TIMERS_MAX);
    if (i == timer_count)
        timer_count++;
    timers[i].timer = timer;
    timers[i].due = due;
    timers[i].at_ms = now_ms + timeout_ms;
    return 0;
}

void pass(uint64_t ms)
{
    uint64_t until_ms = now_ms + ms;

    do {
        now_ms += min_u64(1000, until_ms - now_ms);
        for (size_t i = 0; i < timer_count; i++) {
            uv_timer_cb due = timers[i].due;

            if (!due || timers[i].at_ms > now_ms || uv_is_closing((uv_handle_t *)timers[i].timer))
                continue;
            timers[i].due = NULL;
            due(timers[i].timer);
        }
    } while (now_ms < until_ms);
}

static uv_loop_t loop;

static void make_ticket(void *arg UNUSED, const char *call_sid, const char *pod, struct slice path,
                        char *ticket)
{
    snprintf(ticket, API_TICKET_SIZE, "T-%s-%s-%zu", call_sid, pod[0] ? pod : "held", path.len);
}

/* Everything that waiting needs is set. */
struct api_settings waiting_settings(void)
{
    struct api_settings settings = plain_settings;

    settings.ws_url_template = "{base}/ws/pod/{pod}/{provider}/{template}{flow_suffix}";
    settings.loop = &loop;
    settings.make_ticket = make_ticket;
    settings.public_base_url = "https://public.example.com";
    settings.rescues = true;
    settings.hold_max_wait_ms = 120000;
    return settings;
}

void world_init_waiting(struct world *world, const struct api_settings *settings)
{
    const struct api_settings usual = waiting_settings();

    now_ms = 1000000;
    assert_int_equal(uv_loop_init(&loop), 0);
    world_init(world, settings ? settings : &usual);
    timer_count = 0; /* others than those of waits never fall due */
}

void world_release_waiting(struct world *world)
{
    api_end_watchers(world->api);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    world_release(world);
    assert_int_equal(uv_loop_close(&loop), 0);
}

const char *const line_pools[2] = {"pool:gold", "pool:basic"};

void say_waiting(struct world *world, uint64_t position, uint64_t attempt)
{
    world->fake.result = (struct result){.outcome = OUTCOME_WAITING};
    world->fake.result.allocate.attempt = attempt;
    world->fake.result.allocate.waiting = (struct waiting_call){.call_sid = "CA1",
                                                                .merchant_id = "",
                                                                .provider = "",
                                                                .since_ms = 50000,
                                                                .heard_at_ms = 54500,
                                                                .until_ms = 170000,
                                                                .position = position,
                                                                .holder = "",
                                                                .pools = line_pools,
                                                                .pool_count = ARRAY_LEN(line_pools)};
}

void say_pod(struct world *world)
{
    world->fake.result = (struct result){.outcome = OUTCOME_OK};
    world->fake.result.allocate.call =
        (struct call_info){.call_sid = "CA1", .pod = "pod-1", .pool = "pool:gold"};
    world->fake.result.allocate.attempt = 9;
}

void assert_metric(const struct world *world, const char *line)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, 4 * 1024 * 1024);
    metrics_write(world->metrics, &buf);
    if (!strstr(buf.data, line))
        fail_msg("no metric %s", line);
    strbuf_release(&buf);
}
