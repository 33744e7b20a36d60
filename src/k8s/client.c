/*
 * client.c - sends requests to the API server over libcurl, runs their timeouts, and reports their
 * answers.
 *
 * Requests share a lane, which is one multi handle of libcurl. A lane on which nothing arrives any
 * more is replaced. The parts in order: freeing, lanes, requests, the client.
 */
#include "k8s/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "k8s/backoff.h"
#include "k8s/client_internal.h"

enum {
    K8S_REQUESTS_MAX = 64,
    K8S_BURST_KEEP_MAX = 256 * 1024, /* a larger buffer of a stream is given back */
};

/* ---- the end of everything ---- */

static void client_free(struct k8s_client *client)
{
    token_release(&client->token);
    curl_slist_free_all(client->connect_to);
    free(client->host_header);
    free(client->base_url);
    free(client);
    curl_global_cleanup();
}

/* One of the things that libuv or libcurl held is gone. */
static void client_let_go(struct k8s_client *client)
{
    void (*closed)(void *arg) = client->closed;
    void *arg = client->closed_arg;

    assert(client->open > 0);
    client->open--;
    if (client->open > 0)
        return;
    assert(client->is_closing);
    client_free(client);
    closed(arg);
}

/* ---- lanes ---- */

static void lane_closed(void *arg)
{
    struct lane *lane = arg;
    struct k8s_client *client = lane->client;

    free(lane);
    client_let_go(client);
}

static void lane_close_if_done(struct lane *lane)
{
    if (!lane->is_retired || lane->requests > 0 || !lane->curl)
        return;
    curl_loop_close(TAKE(lane->curl), lane_closed, lane);
}

static void lane_retire(struct lane *lane)
{
    if (lane->client->lane == lane)
        lane->client->lane = NULL;
    lane->is_retired = true;
    lane_close_if_done(lane);
}

static void client_turn(void *arg);

static int client_get_lane(struct k8s_client *client, struct lane **ret_lane)
{
    struct lane *lane = client->lane;
    int err;

    if (!lane) {
        lane = calloc(1, sizeof(*lane));
        if (!lane)
            return -ENOMEM;
        lane->client = client;
        err = curl_loop_new(client->loop, client_turn, lane, &lane->curl);
        if (err < 0) {
            free(lane);
            return err;
        }
        client->lane = lane;
        client->open++;
    }
    *ret_lane = lane;
    return 0;
}

/* ---- requests ---- */

static void on_request_closed(uv_handle_t *handle)
{
    struct k8s_request *request = handle->data;
    struct k8s_client *client = request->client;

    MAGIC_CHECK(request, K8S_REQUEST_MAGIC);
    k8s_request_free(request);
    client_let_go(client);
}

/*
 * Takes the request out of everything; it stays in memory until the end of this turn, so that whoever is
 * using it or its bytes right now may go on.
 */
static void request_end(struct k8s_request *request)
{
    struct lane *lane = request->lane;

    assert(lane);
    curl_loop_remove(lane->curl, request->easy);
    curl_easy_cleanup(TAKE(request->easy));
    list_remove(&request->link);
    list_remove(&request->fresh_link);
    request->lane = NULL;
    request->client->request_count--;
    uv_close((uv_handle_t *)&request->timer, on_request_closed);
    lane->requests--;
    lane_close_if_done(lane);
}

static uint64_t retry_after_ms(CURL *easy)
{
    curl_off_t seconds = 0;

    if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK)
        return 0;
    return k8s_retry_after_ms((double)seconds);
}

/* The sentence is in request->error already. */
static void request_finish(struct k8s_request *request, int err)
{
    struct k8s_answer answer = {.err = err, .error = err ? request->error : NULL};
    long status = 0;

    (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    answer.status = (int)status;
    answer.retry_after_ms = retry_after_ms(request->easy);
    answer.body = request->is_streaming ? SLICE("") : strbuf_slice(&request->body);
    if (status == 401)
        token_drop(&request->client->token);
    request_end(request);
    request->done(request->arg, &answer);
}

static struct k8s_request *lane_find_stream(const struct lane *lane)
{
    LIST_FOR_EACH (link, &lane->client->requests) {
        struct k8s_request *request = LIST_ENTRY(link, struct k8s_request, link);

        if (request->lane == lane && request->is_streaming)
            return request;
    }
    return NULL;
}

/* Each callback may cancel, send, or close the client: so it is looked for anew. A retired lane gets no more.
 */
static void lane_end_streams(struct lane *lane, uint64_t waited_ms)
{
    struct k8s_request *request;

    assert(lane->is_retired);
    while ((request = lane_find_stream(lane))) {
        k8s_request_say(request,
                        "the connection seems dead: nothing has come on it while another request waited for "
                        "%llu ms",
                        (unsigned long long)waited_ms);
        request_finish(request, -ETIMEDOUT);
    }
}

static void on_timeout(uv_timer_t *timer)
{
    struct k8s_request *request = timer->data;
    struct lane *lane = request->lane;
    uint64_t waited_ms = request->is_streaming ? request->stall_ms : request->timeout_ms;
    bool is_dead = lane->arrivals == request->arrivals_before;

    MAGIC_CHECK(request, K8S_REQUEST_MAGIC);
    k8s_request_say(request,
                    request->is_streaming ? "nothing has come for %llu ms" : "no whole answer within %llu ms",
                    (unsigned long long)waited_ms);
    lane_retire(lane);
    request_finish(request, -ETIMEDOUT);
    /* The lane stays in memory until the end of this turn at least. */
    if (is_dead)
        lane_end_streams(lane, waited_ms);
}

void client_note_arrival(struct k8s_request *request)
{
    request->lane->arrivals++;
}

void client_restart_timer(struct k8s_request *request, uint64_t timeout_ms)
{
    request->arrivals_before = request->lane->arrivals;
    if (timeout_ms > 0)
        uv_timer_start(&request->timer, on_timeout, timeout_ms, 0);
    else
        uv_timer_stop(&request->timer);
}

/* The callback may cancel the request, or any other, or close the client: nothing is touched after it. */
static void request_tell_data(struct k8s_request *request)
{
    struct slice data = strbuf_slice(&request->body);
    struct strbuf told = request->body;

    /* The bytes are the stream's no more: what comes next must not be mixed up with what was told. */
    if (request->body.room > K8S_BURST_KEEP_MAX) {
        strbuf_init(&request->body, NULL, K8S_BURST_MAX);
        request->on_data(request->arg, data);
        strbuf_release(&told);
        return;
    }
    request->body.len = 0;
    request->on_data(request->arg, data);
}

/* libcurl has worked and is off the stack: tell what came, then what has ended. */
static void client_turn(void *arg)
{
    struct lane *lane = arg;
    struct k8s_client *client = lane->client;
    struct k8s_request *request;
    struct list *link;
    CURLcode code;
    CURL *easy;

    while (!list_is_empty(&client->fresh)) {
        link = client->fresh.next;
        list_remove(link);
        request_tell_data(LIST_ENTRY(link, struct k8s_request, fresh_link));
    }
    while (lane->curl && (easy = curl_loop_next_done(lane->curl, &code))) {
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&request);
        request_finish(request, k8s_request_failure(request, code));
    }
}

int k8s_client_send(struct k8s_client *client, const struct k8s_request_spec *spec, k8s_done_fn done,
                    void *arg, struct k8s_request **ret_request)
{
    struct k8s_request *request = NULL;
    struct lane *lane = NULL;
    int err;

    assert(!client->is_closing);
    assert(spec->path[0] == '/');
    assert(spec->timeout_ms > 0);
    if (client->request_count >= K8S_REQUESTS_MAX)
        return -EBUSY;
    err = client_get_lane(client, &lane);
    if (err < 0)
        return err;
    err = k8s_request_new(client, spec, token_get(&client->token, clock_elapsed_ms()), &request);
    if (err < 0)
        return err;
    err = curl_loop_add(lane->curl, request->easy);
    if (err < 0) {
        k8s_request_free(request);
        return err;
    }
    request->done = done;
    request->arg = arg;
    request->lane = lane;
    lane->requests++;
    client->request_count++;
    client->open++;
    list_append(&client->requests, &request->link);
    uv_timer_init(client->loop, &request->timer);
    request->timer.data = request;
    client_restart_timer(request, spec->timeout_ms);
    if (ret_request)
        *ret_request = request;
    return 0;
}

void k8s_request_cancel(struct k8s_request *request)
{
    request_end(request);
}

/* ---- the client ---- */

static void on_client_closed(uv_handle_t *handle)
{
    client_let_go(handle->data);
}

void k8s_client_close(struct k8s_client *client, void (*closed)(void *arg), void *arg)
{
    assert(!client->is_closing);
    client->is_closing = true;
    client->closed = closed;
    client->closed_arg = arg;
    while (!list_is_empty(&client->requests))
        k8s_request_cancel(LIST_ENTRY(client->requests.next, struct k8s_request, link));
    if (client->lane)
        lane_retire(client->lane);
    uv_close((uv_handle_t *)&client->handle, on_client_closed);
}

/*
 * libcurl verifies the name that stands in the URL. So the name that the certificate has goes there, and the
 * real address into where to connect to and into the Host header.
 */
static int client_set_tls_name(struct k8s_client *client, CURLU *url)
{
    const char *name = client->config->tls_server_name;
    char *host = NULL, *port = NULL, *path = NULL, *connect_to = NULL;
    int err = -ENOMEM;

    if (curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PATH, &path, 0) == CURLUE_OK &&
        asprintf(&client->base_url, "https://%s:%s%s", name, port, strcmp(path, "/") == 0 ? "" : path) > 0 &&
        asprintf(&client->host_header, "%s:%s", host, port) > 0 &&
        asprintf(&connect_to, "%s:%s:%s:%s", name, port, host, port) > 0)
        client->connect_to = curl_slist_append(NULL, connect_to);
    if (client->connect_to)
        err = 0;
    free(connect_to);
    curl_free(host);
    curl_free(port);
    curl_free(path);
    return err;
}

static int client_set_url(struct k8s_client *client)
{
    CURLU *url;
    int err = -ENOMEM;

    if (!client->config->tls_server_name) {
        client->base_url = strdup(client->config->server);
        return client->base_url ? 0 : -ENOMEM;
    }
    url = curl_url();
    if (url && curl_url_set(url, CURLUPART_URL, client->config->server, 0) == CURLUE_OK)
        err = client_set_tls_name(client, url);
    curl_url_cleanup(url);
    return err;
}

int k8s_client_new(uv_loop_t *loop, const struct k8s_config *config, struct k8s_client **ret_client)
{
    struct k8s_client *client;
    int err;

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -ENOMEM;
    client = calloc(1, sizeof(*client));
    if (!client) {
        curl_global_cleanup();
        return -ENOMEM;
    }
    client->loop = loop;
    client->config = config;
    list_init(&client->requests);
    list_init(&client->fresh);
    token_init(&client->token, config);
    err = client_set_url(client);
    if (err < 0) {
        client_free(client);
        return err;
    }
    uv_idle_init(loop, &client->handle);
    client->handle.data = client;
    client->open = 1;
    *ret_client = client;
    return 0;
}
