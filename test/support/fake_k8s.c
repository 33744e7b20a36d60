/* fake_k8s.c - the API client, the clocks and the timers of fake_k8s.h. */
#include "fake_k8s.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include <cmocka.h>

#include "base/clock.h"

enum { FAKE_TIMERS_MAX = 16 };

struct fake_k8s fake;

static struct fake_timer {
    uv_timer_t *timer; /* NULL: free */
    uv_timer_cb fired;
    uint64_t at_ms;
} timers[FAKE_TIMERS_MAX];

uint64_t __wrap_clock_elapsed_ms(void);
uint64_t __wrap_clock_wall_ms(void);
ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fired, uint64_t after_ms, uint64_t repeat_ms);
int __wrap_uv_timer_stop(uv_timer_t *timer);
void __wrap_uv_close(uv_handle_t *handle, uv_close_cb closed);
void __real_uv_close(uv_handle_t *handle, uv_close_cb closed);

uint64_t __wrap_clock_elapsed_ms(void)
{
    return fake.elapsed_ms;
}

uint64_t __wrap_clock_wall_ms(void)
{
    return fake.wall_ms;
}

ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags UNUSED)
{
    memset(bytes, 0, len); /* a hash table asks as well, for more */
    memcpy(bytes, &fake.random, len < sizeof(fake.random) ? len : sizeof(fake.random));
    return (ssize_t)len;
}

int __wrap_uv_timer_stop(uv_timer_t *timer)
{
    for (size_t i = 0; i < FAKE_TIMERS_MAX; i++) {
        if (timers[i].timer == timer)
            timers[i].timer = NULL;
    }
    return 0;
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fired, uint64_t after_ms, uint64_t repeat_ms)
{
    assert_int_equal(repeat_ms, 0);
    assert_false(uv_is_closing((uv_handle_t *)timer));
    __wrap_uv_timer_stop(timer);
    for (size_t i = 0; i < FAKE_TIMERS_MAX; i++) {
        if (!timers[i].timer) {
            timers[i] = (struct fake_timer){timer, fired, fake.elapsed_ms + after_ms};
            return 0;
        }
    }
    fail_msg("too many timers");
    return -ENOMEM;
}

void __wrap_uv_close(uv_handle_t *handle, uv_close_cb closed)
{
    assert_int_equal(uv_handle_get_type(handle), UV_TIMER);
    __wrap_uv_timer_stop((uv_timer_t *)handle);
    __real_uv_close(handle, closed);
}

int k8s_client_send(struct k8s_client *client, const struct k8s_request_spec *spec, k8s_done_fn done,
                    void *arg, struct k8s_request **ret_request)
{
    struct k8s_request *request;

    assert_ptr_equal(client, fake_client());
    if (fake.refuse)
        return fake.refuse;
    assert_true(fake.count < FAKE_REQUESTS_MAX);
    assert_true(spec->timeout_ms > 0 && spec->body_max > 0);
    request = calloc(1, sizeof(*request));
    assert_non_null(request);
    *request = (struct k8s_request){
        .method = spec->method,
        .path = strdup(spec->path),
        .body = strndup(spec->body.data ? spec->body.data : "", spec->body.len),
        .timeout_ms = spec->timeout_ms,
        .done = done,
        .arg = arg,
    };
    fake.requests[fake.count++] = request;
    fake.sent++;
    if (ret_request)
        *ret_request = request;
    return 0;
}

static void request_free(struct k8s_request *request)
{
    free(request->path);
    free(request->body);
    free(request);
}

static struct k8s_request *take_out(size_t index)
{
    struct k8s_request *request;

    assert_true(index < fake.count);
    request = fake.requests[index];
    fake.count--;
    memmove(fake.requests + index, fake.requests + index + 1,
            (fake.count - index) * sizeof(fake.requests[0]));
    return request;
}

void k8s_request_cancel(struct k8s_request *request)
{
    size_t index = 0;

    while (index < fake.count && fake.requests[index] != request)
        index++;
    request_free(take_out(index));
    fake.cancelled++;
}

static void give(size_t index, const struct k8s_answer *answer)
{
    struct k8s_request *request = take_out(index);

    request->done(request->arg, answer);
    request_free(request);
    fake_turn();
}

void fake_answer_at(size_t index, int status, const char *body)
{
    give(index, &(struct k8s_answer){.status = status, .body = slice_of(body)});
}

void fake_answer(int status, const char *body)
{
    fake_answer_at(0, status, body);
}

void fake_answer_later(int status, const char *body, uint64_t retry_after_ms)
{
    give(0, &(struct k8s_answer){.status = status, .body = slice_of(body), .retry_after_ms = retry_after_ms});
}

void fake_fail(int err)
{
    give(0, &(struct k8s_answer){.err = err, .error = strerror(-err)});
}

static struct fake_timer *first_due(uint64_t until_ms)
{
    struct fake_timer *first = NULL;

    for (size_t i = 0; i < FAKE_TIMERS_MAX; i++) {
        if (timers[i].timer && timers[i].at_ms <= until_ms && (!first || timers[i].at_ms < first->at_ms))
            first = &timers[i];
    }
    return first;
}

static void pass(uint64_t ms)
{
    fake.elapsed_ms += ms;
    fake.wall_ms += ms;
}

void fake_advance(uint64_t ms)
{
    uint64_t until_ms = fake.elapsed_ms + ms;
    struct fake_timer *due;

    for (unsigned i = 0; (due = first_due(until_ms)); i++) {
        struct fake_timer fired = *due;

        assert_true(i < 100000); /* somebody sets a timer of no time, over and over */
        due->timer = NULL;
        if (fired.at_ms > fake.elapsed_ms)
            pass(fired.at_ms - fake.elapsed_ms);
        fired.fired(fired.timer);
    }
    pass(until_ms - fake.elapsed_ms);
    uv_run(&fake.loop, UV_RUN_NOWAIT);
}

void fake_sleep(uint64_t ms)
{
    pass(ms);
}

void fake_turn(void)
{
    fake_advance(0);
}

struct k8s_client *fake_client(void)
{
    return (struct k8s_client *)(void *)&fake;
}

void fake_init(void)
{
    memset(&fake, 0, sizeof(fake));
    memset(timers, 0, sizeof(timers));
    fake.elapsed_ms = 1000000;
    fake.wall_ms = UINT64_C(1767225600123); /* 2026-01-01T00:00:00.123Z */
    assert_int_equal(uv_loop_init(&fake.loop), 0);
}

void fake_release(void)
{
    fake_turn();
    assert_int_equal(fake.count, 0);
    assert_null(first_due(UINT64_MAX));
    assert_int_equal(uv_loop_close(&fake.loop), 0);
}
