/*
 * curl_loop.c - connects libcurl's timers and sockets to libuv's.
 */
#include "k8s/curl_loop.h"

#include <stdlib.h>

#include "base/list.h"

struct curl_loop {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    uv_idle_t
        soon; /* a timeout of 0: once in the next turn, where a timer of 0 could keep a turn from ending */
    struct list sockets;
    size_t open; /* handles that libuv still has */
    curl_loop_turn_fn turn;
    void *arg;
    void (*closed)(void *arg);
    void *closed_arg;
};

struct curl_socket {
    uv_poll_t poll;
    struct list link;
    struct curl_loop *curl;
    curl_socket_t fd;
};

static void curl_loop_act(struct curl_loop *curl, curl_socket_t fd, int events)
{
    int running;

    (void)curl_multi_socket_action(curl->multi, fd, events, &running);
    curl->turn(curl->arg);
}

/* ---- time ---- */

static void on_timer(uv_timer_t *timer)
{
    curl_loop_act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_soon(uv_idle_t *soon)
{
    uv_idle_stop(soon);
    curl_loop_act(soon->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_curl_timeout(CURLM *multi UNUSED, long timeout_ms, void *arg)
{
    struct curl_loop *curl = arg;

    uv_timer_stop(&curl->timer);
    uv_idle_stop(&curl->soon);
    if (timeout_ms == 0)
        uv_idle_start(&curl->soon, on_soon);
    else if (timeout_ms > 0)
        uv_timer_start(&curl->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

/* ---- sockets ---- */

static void curl_loop_handle_closed(struct curl_loop *curl)
{
    void (*closed)(void *arg) = curl->closed;
    void *arg = curl->closed_arg;

    curl->open--;
    if (curl->open > 0)
        return;
    free(curl);
    closed(arg);
}

static void on_socket_closed(uv_handle_t *handle)
{
    struct curl_socket *sock = handle->data;
    struct curl_loop *curl = sock->curl;

    free(sock);
    curl_loop_handle_closed(curl);
}

/* libcurl closes the descriptor right after this: the poll must be off it before. */
static void curl_socket_close(struct curl_socket *sock)
{
    list_remove(&sock->link);
    uv_poll_stop(&sock->poll);
    uv_close((uv_handle_t *)&sock->poll, on_socket_closed);
}

static void on_polled(uv_poll_t *poll, int status, int events)
{
    struct curl_socket *sock = poll->data;
    int what = 0;

    if (status < 0)
        what |= CURL_CSELECT_ERR;
    if (events & UV_READABLE)
        what |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        what |= CURL_CSELECT_OUT;
    curl_loop_act(sock->curl, sock->fd, what);
}

static struct curl_socket *curl_socket_new(struct curl_loop *curl, curl_socket_t fd)
{
    struct curl_socket *sock = calloc(1, sizeof(*sock));

    if (!sock)
        return NULL;
    if (uv_poll_init_socket(curl->loop, &sock->poll, fd) < 0) {
        free(sock);
        return NULL;
    }
    sock->poll.data = sock;
    sock->curl = curl;
    sock->fd = fd;
    list_init(&sock->link);
    list_append(&curl->sockets, &sock->link);
    curl->open++;
    (void)curl_multi_assign(curl->multi, fd, sock);
    return sock;
}

/* An error of ours makes libcurl give up all transfers of this handle; there is no smaller way to fail. */
static int on_curl_socket(CURL *easy UNUSED, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
    struct curl_loop *curl = arg;
    struct curl_socket *sock = socket_arg;
    int events = 0;

    if (what == CURL_POLL_REMOVE) {
        if (sock)
            curl_socket_close(sock);
        return 0;
    }
    if (!sock)
        sock = curl_socket_new(curl, fd);
    if (!sock)
        return -1;
    if (what & CURL_POLL_IN)
        events |= UV_READABLE;
    if (what & CURL_POLL_OUT)
        events |= UV_WRITABLE;
    return uv_poll_start(&sock->poll, events, on_polled) < 0 ? -1 : 0;
}

/* ---- from outside ---- */

int curl_loop_new(uv_loop_t *loop, curl_loop_turn_fn turn, void *arg, struct curl_loop **ret_curl)
{
    struct curl_loop *curl = calloc(1, sizeof(*curl));

    if (!curl)
        return -ENOMEM;
    curl->multi = curl_multi_init();
    if (!curl->multi) {
        free(curl);
        return -ENOMEM;
    }
    curl->loop = loop;
    curl->turn = turn;
    curl->arg = arg;
    list_init(&curl->sockets);
    uv_timer_init(loop, &curl->timer);
    uv_idle_init(loop, &curl->soon);
    curl->timer.data = curl;
    curl->soon.data = curl;
    curl->open = 2;
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, on_curl_timeout);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERDATA, curl);
    *ret_curl = curl;
    return 0;
}

int curl_loop_add(struct curl_loop *curl, CURL *easy)
{
    return curl_multi_add_handle(curl->multi, easy) == CURLM_OK ? 0 : -ENOMEM;
}

void curl_loop_remove(struct curl_loop *curl, CURL *easy)
{
    CURLMcode code = curl_multi_remove_handle(curl->multi, easy);

    /* It would mean that we are inside libcurl, where `turn` never is. */
    assert(code != CURLM_RECURSIVE_API_CALL);
}

CURL *curl_loop_next_done(struct curl_loop *curl, CURLcode *ret_code)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(curl->multi, &left))) {
        if (message->msg == CURLMSG_DONE) {
            *ret_code = message->data.result;
            return message->easy_handle;
        }
    }
    return NULL;
}

static void on_handle_closed(uv_handle_t *handle)
{
    curl_loop_handle_closed(handle->data);
}

void curl_loop_close(struct curl_loop *curl, void (*closed)(void *arg), void *arg)
{
    CURLMcode code;

    curl->closed = closed;
    curl->closed_arg = arg;
    code = curl_multi_cleanup(curl->multi);
    assert(code == CURLM_OK);
    curl->multi = NULL;
    LIST_FOR_EACH (link, &curl->sockets) {
        curl_socket_close(LIST_ENTRY(link, struct curl_socket, link));
    }
    uv_close((uv_handle_t *)&curl->timer, on_handle_closed);
    uv_close((uv_handle_t *)&curl->soon, on_handle_closed);
}
