/*
 * worker.c - the background thread of a client: heartbeats, renewals, and releases that are repeated.
 */
#include "client.h"

#include <signal.h>

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

int64_t sr_work_due_ms(const struct smartrouter_client *client)
{
    return earlier(sr_agents_due_ms(client), earlier(sr_calls_due_ms(client), sr_releases_due_ms(client)));
}

bool sr_work_once(struct smartrouter_client *client)
{
    const int64_t now_ms = sr_now_ms(client);

    /* Heartbeats first: a router that is slow to release must not take a pod for dead. */
    if (sr_agents_due_ms(client) <= now_ms)
        sr_agents_work(client, now_ms);
    else if (sr_calls_due_ms(client) <= now_ms)
        sr_calls_work(client, now_ms);
    else if (sr_releases_due_ms(client) <= now_ms)
        sr_releases_work(client, now_ms);
    else
        return false;
    return true;
}

/* Before the end: what waits is tried once more, until one fails or the time of a request is over. */
static void worker_flush(struct smartrouter_client *client)
{
    const int64_t until_ms = sr_now_ms(client) + sr_setting_integer(client->settings, SR_TIMEOUT_MS);

    while (client->releases && sr_now_ms(client) < until_ms) {
        const size_t before = client->release_count;

        client->releases->due_ms = INT64_MIN;
        sr_releases_work(client, sr_now_ms(client));
        if (client->release_count == before)
            return;
    }
}

static void *worker_run(void *arg)
{
    struct smartrouter_client *client = arg;

    pthread_mutex_lock(&client->lock);
    while (!client->is_stopping)
        if (!sr_work_once(client))
            sr_wait_until(client, sr_work_due_ms(client));
    worker_flush(client);
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

bool sr_worker_start(struct smartrouter_client *client)
{
    sigset_t all, before;

    /* Signals are the program's: none is handled on this thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    client->has_worker = pthread_create(&client->worker, NULL, worker_run, client) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return client->has_worker;
}
