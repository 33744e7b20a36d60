/*
 * rate.c - parses a rate limit such as 10/s, and keeps one token bucket for each client address.
 */
#include "api/rate.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "http/address.h"

enum {
    IPV6_CLIENT_BITS = 64,
    FORGET_AT_ONCE = 2, /* more than one comes at a time, so that the table shrinks again */
};

/*
 * Instead of tokens a bucket holds the time at which it will be full again, which is all there is to know:
 * each request moves it on by its share of the period, and it may not be further away than one period.
 */
struct bucket {
    struct map_node node;
    struct list link;
    uint64_t full_us;
    struct address client;
};

_Static_assert(sizeof(struct address) == 17, "an address is compared byte by byte");

struct rate {
    uint64_t period_us;
    uint64_t share_us; /* of one request */
    struct map buckets;
    struct list by_use; /* the one that asked last is last */
};

static uint64_t unit_us(char unit)
{
    switch (unit) {
    case 's':
        return UINT64_C(1000000);
    case 'm':
        return UINT64_C(60) * 1000000;
    case 'h':
        return UINT64_C(3600) * 1000000;
    default:
        return 0;
    }
}

static int rate_parse(const char *text, uint64_t *ret_count, uint64_t *ret_period_us)
{
    uint64_t count = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9' && count <= RATE_COUNT_MAX; at++)
        count = count * 10 + (uint64_t)(*at - '0');
    if (at == text || count == 0 || count > RATE_COUNT_MAX || at[0] != '/' || unit_us(at[1]) == 0 || at[2])
        return -EINVAL;
    *ret_count = count;
    *ret_period_us = unit_us(at[1]);
    return 0;
}

int rate_check(const char *text, char *error, size_t error_size)
{
    uint64_t count;
    uint64_t period_us;

    if (!text[0] || rate_parse(text, &count, &period_us) == 0)
        return 0;
    snprintf(error, error_size, "\"%.32s\" is not a rate such as 10/s, 600/m or 3600/h, from 1 to %d", text,
             RATE_COUNT_MAX);
    return -EINVAL;
}

int rate_new(const char *text, struct rate **ret_rate)
{
    struct rate *rate;
    uint64_t count = 0;
    uint64_t period_us = 0;

    if (!text[0]) {
        *ret_rate = NULL;
        return 0;
    }
    if (rate_parse(text, &count, &period_us) < 0)
        return -EINVAL;
    rate = calloc(1, sizeof(*rate));
    if (!rate)
        return -ENOMEM;
    rate->period_us = period_us;
    rate->share_us = period_us / count;
    map_init(&rate->buckets);
    list_init(&rate->by_use);
    *ret_rate = rate;
    return 0;
}

static void bucket_forget(struct rate *rate, struct bucket *bucket)
{
    map_remove(&rate->buckets, &bucket->node);
    list_remove(&bucket->link);
    free(bucket);
}

struct rate *rate_free(struct rate *rate)
{
    if (!rate)
        return NULL;
    while (!list_is_empty(&rate->by_use))
        bucket_forget(rate, LIST_ENTRY(rate->by_use.next, struct bucket, link));
    map_release(&rate->buckets);
    free(rate);
    return NULL;
}

size_t rate_clients(const struct rate *rate)
{
    return rate->buckets.count;
}

/* A full bucket is worth as much as none. When there are too many, one that is not full goes as well. */
static void rate_forget_some(struct rate *rate, uint64_t now_us)
{
    for (unsigned i = 0; i < FORGET_AT_ONCE && !list_is_empty(&rate->by_use); i++) {
        struct bucket *oldest = LIST_ENTRY(rate->by_use.next, struct bucket, link);

        if (oldest->full_us > now_us && rate->buckets.count < RATE_CLIENTS_MAX)
            return;
        bucket_forget(rate, oldest);
    }
}

static struct bucket *rate_add(struct rate *rate, const struct address *client, uint64_t now_us)
{
    struct bucket *bucket;

    rate_forget_some(rate, now_us);
    if (map_reserve(&rate->buckets) < 0)
        return NULL;
    bucket = calloc(1, sizeof(*bucket));
    if (!bucket)
        return NULL;
    bucket->client = *client;
    bucket->full_us = now_us;
    list_init(&bucket->link);
    map_put(&rate->buckets, &bucket->node, (const char *)&bucket->client, sizeof(bucket->client));
    return bucket;
}

static struct bucket *rate_find(struct rate *rate, const char *text, uint64_t now_us)
{
    struct address client = {0};
    struct map_node *node;

    if (address_parse(slice_of(text), &client) < 0)
        client = (struct address){0};
    if (!client.is_ipv4)
        address_cut(&client, IPV6_CLIENT_BITS);
    node = map_get(&rate->buckets, (const char *)&client, sizeof(client));
    return node ? CONTAINER_OF(node, struct bucket, node) : rate_add(rate, &client, now_us);
}

uint64_t rate_take(struct rate *rate, const char *client, uint64_t now_ms)
{
    uint64_t now_us = now_ms * 1000;
    struct bucket *bucket = rate_find(rate, client, now_us);
    uint64_t full_us;

    if (!bucket)
        return 0;
    list_remove(&bucket->link);
    list_append(&rate->by_use, &bucket->link);
    full_us = max_u64(bucket->full_us, now_us) + rate->share_us;
    if (full_us > now_us + rate->period_us)
        return max_u64((full_us - now_us - rate->period_us + 999) / 1000, 1);
    bucket->full_us = full_us;
    return 0;
}
