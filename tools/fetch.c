/*
 * fetch.c - sends one HTTP request and parses its answer, with a timeout.
 */
#include "fetch.h"

#include <llhttp.h>
#include <stdlib.h>

#include "base/strbuf.h"

struct fetch {
    struct link link;
    uv_timer_t timer;
    llhttp_settings_t parser_settings;
    llhttp_t parser;
    struct strbuf request;
    struct strbuf body;
    fetch_fn fn;
    void *arg;
    int handles;
    bool is_complete;
};

static void fetch_handle_closed(struct fetch *fetch)
{
    if (--fetch->handles > 0)
        return;
    strbuf_release(&fetch->request);
    strbuf_release(&fetch->body);
    free(fetch);
}

static void fetch_timer_closed(uv_handle_t *handle)
{
    fetch_handle_closed(CONTAINER_OF(handle, struct fetch, timer));
}

static void fetch_link_closed(struct link *link)
{
    fetch_handle_closed(CONTAINER_OF(link, struct fetch, link));
}

void fetch_cancel(struct fetch *fetch)
{
    fetch->fn = NULL;
    link_close(&fetch->link);
    if (!uv_is_closing((uv_handle_t *)&fetch->timer))
        uv_close((uv_handle_t *)&fetch->timer, fetch_timer_closed);
}

static void fetch_finish(struct fetch *fetch, int err)
{
    fetch_fn fn = fetch->fn;

    if (!fn)
        return;
    fetch_cancel(fetch);
    fn(fetch->arg, err, err ? 0 : fetch->parser.status_code, strbuf_slice(&fetch->body));
}

static int fetch_on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct fetch *fetch = parser->data;

    strbuf_append(&fetch->body, at, len);
    return strbuf_failed(&fetch->body) ? -1 : 0;
}

static int fetch_on_complete(llhttp_t *parser)
{
    struct fetch *fetch = parser->data;

    fetch->is_complete = true;
    return HPE_PAUSED;
}

static void fetch_link_connected(struct link *link)
{
    struct fetch *fetch = CONTAINER_OF(link, struct fetch, link);
    int r = link_write(link, fetch->request.data, fetch->request.len);

    if (r != 0)
        fetch_finish(fetch, r);
}

static void fetch_link_data(struct link *link, char *data, size_t len)
{
    struct fetch *fetch = CONTAINER_OF(link, struct fetch, link);
    llhttp_errno_t err;

    err = llhttp_execute(&fetch->parser, data, len);
    if (fetch->is_complete)
        fetch_finish(fetch, 0);
    else if (err != HPE_OK)
        fetch_finish(fetch, -EPROTO);
}

static void fetch_link_ended(struct link *link, int err)
{
    struct fetch *fetch = CONTAINER_OF(link, struct fetch, link);

    if (err == 0)
        (void)llhttp_finish(&fetch->parser);
    fetch_finish(fetch, fetch->is_complete ? 0 : err ? err : -ECONNRESET);
}

static const struct link_ops fetch_link_ops = {
    .connected = fetch_link_connected,
    .data = fetch_link_data,
    .ended = fetch_link_ended,
    .closed = fetch_link_closed,
};

static void fetch_timed_out(uv_timer_t *timer)
{
    fetch_finish(CONTAINER_OF(timer, struct fetch, timer), -ETIMEDOUT);
}

static void fetch_write(struct strbuf *text, const struct fetch_request *request)
{
    strbuf_printf(text, "%s %s HTTP/1.1\r\nHost: %s:%u\r\nConnection: close\r\n", request->method,
                  request->path, request->url->host, request->url->port);
    if (request->api_key)
        strbuf_printf(text, "Authorization: Bearer %s\r\n", request->api_key);
    if (request->headers)
        strbuf_append_str(text, request->headers);
    if (request->body.len > 0)
        strbuf_printf(text, "Content-Type: %s\r\nContent-Length: %zu\r\n", request->content_type,
                      request->body.len);
    strbuf_append_str(text, "\r\n");
    strbuf_append(text, request->body.data, request->body.len);
}

int fetch_start(struct net *net, const struct fetch_request *request, fetch_fn fn, void *arg,
                struct fetch **ret_fetch)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));
    int r;

    if (!fetch)
        return -ENOMEM;
    strbuf_init(&fetch->request, NULL, request->body.len + URL_PATH_MAX + FETCH_HEADERS_MAX);
    strbuf_init(&fetch->body, NULL, FETCH_BODY_MAX);
    strbuf_append_str(&fetch->body, "");
    fetch_write(&fetch->request, request);
    llhttp_settings_init(&fetch->parser_settings);
    fetch->parser_settings.on_body = fetch_on_body;
    fetch->parser_settings.on_message_complete = fetch_on_complete;
    llhttp_init(&fetch->parser, HTTP_RESPONSE, &fetch->parser_settings);
    fetch->parser.data = fetch;
    fetch->handles = 2;
    uv_timer_init(&net->loop, &fetch->timer);
    uv_timer_start(&fetch->timer, fetch_timed_out, request->timeout_ms, 0);
    r = strbuf_failed(&fetch->request) ? -ENOMEM : 0;
    if (link_connect(&fetch->link, net, &fetch_link_ops, request->address) != 0)
        r = -EADDRNOTAVAIL;
    if (r != 0) {
        fetch_cancel(fetch);
        return r;
    }
    fetch->fn = fn;
    fetch->arg = arg;
    *ret_fetch = fetch;
    return 0;
}
