/*
 * breaker.c - the circuit breakers of this process, one for each router URL.
 */
#include "breaker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct sr_breaker {
    struct sr_breaker *next;
    char *url;
    unsigned users;
    enum smartrouter_breaker_state state;
    /* Of the state: a verdict for a permit of an earlier state says nothing about this one. */
    uint64_t generation;
    int failures;      /* closed: in a row */
    int successes;     /* half open */
    int on_their_way;  /* half open */
    int64_t opened_ms; /* open */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr_breaker *breakers;
static unsigned breaker_count;

static void breaker_enter(struct sr_breaker *breaker, enum smartrouter_breaker_state state)
{
    breaker->state = state;
    breaker->generation++;
    breaker->failures = 0;
    breaker->successes = 0;
    breaker->on_their_way = 0;
}

static void breakers_forget_unused(void)
{
    struct sr_breaker **at = &breakers;

    while (*at) {
        struct sr_breaker *breaker = *at;

        if (breaker->users > 0) {
            at = &breaker->next;
            continue;
        }
        *at = breaker->next;
        breaker_count--;
        free(breaker->url);
        free(breaker);
    }
}

static struct sr_breaker *breaker_new(const char *url)
{
    struct sr_breaker *breaker;

    if (breaker_count >= SR_BREAKERS_MAX)
        breakers_forget_unused();
    if (breaker_count >= SR_BREAKERS_MAX)
        return NULL;
    breaker = calloc(1, sizeof(*breaker));
    if (!breaker)
        return NULL;
    breaker->url = strdup(url);
    if (!breaker->url) {
        free(breaker);
        return NULL;
    }
    breaker->next = breakers;
    breakers = breaker;
    breaker_count++;
    return breaker;
}

struct sr_breaker *sr_breaker_take(const char *url)
{
    struct sr_breaker *breaker;

    pthread_mutex_lock(&lock);
    for (breaker = breakers; breaker && strcmp(breaker->url, url) != 0;)
        breaker = breaker->next;
    if (!breaker)
        breaker = breaker_new(url);
    if (breaker)
        breaker->users++;
    pthread_mutex_unlock(&lock);
    return breaker;
}

void sr_breaker_give_back(struct sr_breaker *breaker)
{
    if (!breaker)
        return;
    pthread_mutex_lock(&lock);
    breaker->users--;
    pthread_mutex_unlock(&lock);
}

/* An open breaker whose time is over is half open: nobody has to be there when that happens. */
static void breaker_follow_time(struct sr_breaker *breaker, const struct sr_breaker_limits *limits,
                                int64_t now_ms)
{
    if (breaker->state == SMARTROUTER_BREAKER_OPEN && now_ms - breaker->opened_ms >= limits->open_ms)
        breaker_enter(breaker, SMARTROUTER_BREAKER_HALF_OPEN);
}

bool sr_breaker_admit(struct sr_breaker *breaker, const struct sr_breaker_limits *limits, int64_t now_ms,
                      struct sr_permit *ret_permit)
{
    bool is_admitted = true;

    pthread_mutex_lock(&lock);
    breaker_follow_time(breaker, limits, now_ms);
    if (breaker->state == SMARTROUTER_BREAKER_OPEN)
        is_admitted = false;
    else if (breaker->state == SMARTROUTER_BREAKER_HALF_OPEN) {
        is_admitted = breaker->on_their_way + breaker->successes < limits->half_open;
        if (is_admitted)
            breaker->on_their_way++;
    }
    ret_permit->generation = breaker->generation;
    pthread_mutex_unlock(&lock);
    return is_admitted;
}

static void breaker_open(struct sr_breaker *breaker, int64_t now_ms)
{
    breaker_enter(breaker, SMARTROUTER_BREAKER_OPEN);
    breaker->opened_ms = now_ms;
}

static void breaker_count_verdict(struct sr_breaker *breaker, const struct sr_breaker_limits *limits,
                                  int64_t now_ms, enum sr_verdict verdict)
{
    if (breaker->state == SMARTROUTER_BREAKER_HALF_OPEN) {
        breaker->on_their_way--;
        if (verdict == SR_FAILURE)
            breaker_open(breaker, now_ms);
        else if (verdict == SR_SUCCESS && ++breaker->successes >= limits->half_open)
            breaker_enter(breaker, SMARTROUTER_BREAKER_CLOSED);
    } else if (verdict == SR_SUCCESS) {
        breaker->failures = 0;
    } else if (verdict == SR_FAILURE && ++breaker->failures >= limits->failures) {
        breaker_open(breaker, now_ms);
    }
}

enum smartrouter_breaker_state sr_breaker_judge(struct sr_breaker *breaker,
                                                const struct sr_breaker_limits *limits, int64_t now_ms,
                                                struct sr_permit permit, enum sr_verdict verdict)
{
    enum smartrouter_breaker_state state;

    pthread_mutex_lock(&lock);
    if (permit.generation == breaker->generation)
        breaker_count_verdict(breaker, limits, now_ms, verdict);
    state = breaker->state;
    pthread_mutex_unlock(&lock);
    return state;
}

enum smartrouter_breaker_state sr_breaker_state(struct sr_breaker *breaker,
                                                const struct sr_breaker_limits *limits, int64_t now_ms)
{
    enum smartrouter_breaker_state state;

    pthread_mutex_lock(&lock);
    breaker_follow_time(breaker, limits, now_ms);
    state = breaker->state;
    pthread_mutex_unlock(&lock);
    return state;
}

int64_t sr_breaker_wait_ms(struct sr_breaker *breaker, const struct sr_breaker_limits *limits, int64_t now_ms)
{
    int64_t wait_ms = 0;

    pthread_mutex_lock(&lock);
    breaker_follow_time(breaker, limits, now_ms);
    if (breaker->state == SMARTROUTER_BREAKER_OPEN)
        wait_ms = breaker->opened_ms + limits->open_ms - now_ms;
    pthread_mutex_unlock(&lock);
    return wait_ms;
}

void sr_breaker_reset(struct sr_breaker *breaker)
{
    pthread_mutex_lock(&lock);
    breaker_enter(breaker, SMARTROUTER_BREAKER_CLOSED);
    pthread_mutex_unlock(&lock);
}
