/*
 * events.c - GET /api/v1/events: sends the store's events to the clients that watch them.
 */
#include "api/events.h"

#include <stdlib.h>

#include "api/api_internal.h"
#include "api/event_memory.h"
#include "base/list.h"

enum {
    WATCHERS_MAX = 64,
    WATCHERS_ALIVE_MS = 15000, /* how often something is sent, so that proxies and clients know it lives */
    WATCHERS_TEXT_MAX = HTTP_STREAM_BUFFER_MAX, /* of one telling */
};

/* Clients come back a second after they lost us. */
#define WATCHERS_HELLO "retry: 1000\n\n"
/* Events flow from here on: what is to be known beside them should be asked for now. */
#define WATCHERS_LISTENING "event: listening\ndata: {\"event\":\"listening\"}\n\n"
/* The same for a client that has read before: what came since then follows, or some of it may be lost. */
#define WATCHERS_RESUMED "event: listening\ndata: {\"event\":\"listening\",\"missed\":false}\n\n"
#define WATCHERS_MISSED "event: listening\ndata: {\"event\":\"listening\",\"missed\":true}\n\n"
/* The last event of a client that does not keep up. */
#define WATCHERS_TOO_SLOW "event: too_slow\ndata: {\"event\":\"too_slow\"}\n\n"
#define WATCHERS_ALIVE ":\n\n"

struct watchers {
    uv_loop_t *loop;
    struct store *store;
    uv_timer_t alive; /* made for the first watcher */
    struct list list;
    size_t count; /* also of those that are on their way out */
    struct strbuf text;
    /*
     * For clients that come back. It is there while the store tells events: from the first watcher until
     * WATCHERS_ALIVE_MS after the last one, so that a lost connection costs its client no event.
     */
    struct event_memory *memory;
    bool has_timer;
    bool is_listening;
    bool is_stopped;
};

enum { WATCHER_MAGIC = 0x77617472 };

/* In its request's arena. */
struct watcher {
    unsigned magic;
    struct list link; /* alone once its stream has ended */
    struct watchers *watchers;
    struct http_request *request;
    bool has_past; /* it has read events before, so it must learn of a gap */
};

int watchers_new(uv_loop_t *loop, struct store *store, struct watchers **ret_watchers)
{
    struct watchers *watchers = calloc(1, sizeof(*watchers));

    if (!watchers)
        return -ENOMEM;
    watchers->loop = loop;
    watchers->store = store;
    watchers->is_stopped = !loop;
    list_init(&watchers->list);
    strbuf_init(&watchers->text, NULL, WATCHERS_TEXT_MAX);
    *ret_watchers = watchers;
    return 0;
}

struct watchers *watchers_free(struct watchers *watchers)
{
    if (!watchers)
        return NULL;
    assert(watchers->count == 0);
    assert(!watchers->memory);
    strbuf_release(&watchers->text);
    free(watchers);
    return NULL;
}

/* Its end comes when what it was sent is with the kernel; if it does not read, after HTTP_WRITE_TIMEOUT. */
static void watcher_end(struct watcher *watcher, struct slice last)
{
    list_remove(&watcher->link);
    http_stream_end(watcher->request, last);
}

static void watcher_write(struct watcher *watcher, struct slice text)
{
    int err = http_stream_write(watcher->request, text);

    if (err == -EAGAIN)
        api_log_request(watcher->request, LOG_WARN, "a watcher of events reads too slowly", 200, NULL);
    if (err < 0)
        watcher_end(watcher, SLICE(WATCHERS_TOO_SLOW));
}

static void watchers_write(struct watchers *watchers, struct slice text)
{
    struct list *next;

    for (struct list *at = watchers->list.next; at != &watchers->list; at = next) {
        next = at->next;
        watcher_write(LIST_ENTRY(at, struct watcher, link), text);
    }
}

/* From here on no event is missed; those that came before are not all known. */
static void watchers_tell_gap(struct watchers *watchers)
{
    struct list *next;

    event_memory_forget(watchers->memory);
    watchers->is_listening = true;
    for (struct list *at = watchers->list.next; at != &watchers->list; at = next) {
        struct watcher *watcher = LIST_ENTRY(at, struct watcher, link);

        next = at->next;
        watcher_write(watcher, watcher->has_past ? SLICE(WATCHERS_MISSED) : SLICE(WATCHERS_LISTENING));
        watcher->has_past = true;
    }
}

static void put_event(struct strbuf *text, const struct event_text *event)
{
    APPEND_LITERAL(text, "event: ");
    strbuf_append(text, event->kind.data, event->kind.len);
    APPEND_LITERAL(text, "\nid: ");
    strbuf_append(text, event->id.data, event->id.len);
    APPEND_LITERAL(text, "\ndata: ");
    strbuf_append(text, event->json.data, event->json.len);
    APPEND_LITERAL(text, "\n\n");
}

/* Into `text`, which all get, and into the memory. */
static void watchers_put(struct watchers *watchers, const struct event_text *event)
{
    static const size_t before_id = sizeof("event: \nid: ") - 1;
    struct strbuf *text = &watchers->text;
    size_t start = text->len;

    put_event(text, event);
    if (strbuf_failed(text))
        return;
    event_memory_add(watchers->memory, (struct slice){text->data + start, text->len - start},
                     (struct slice){text->data + start + before_id + event->kind.len, event->id.len});
}

static void watchers_told(void *arg, const struct event_text *events, size_t count)
{
    struct watchers *watchers = arg;

    assert(watchers->memory);
    if (count == 0) {
        watchers_tell_gap(watchers);
        return;
    }
    strbuf_reset(&watchers->text);
    for (size_t i = 0; i < count; i++)
        watchers_put(watchers, &events[i]);
    /* Without memory they cannot be told, so those who watch must learn that they have missed something. */
    if (strbuf_failed(&watchers->text))
        watchers_tell_gap(watchers);
    else
        watchers_write(watchers, strbuf_slice(&watchers->text));
}

static void watchers_unlisten(struct watchers *watchers)
{
    if (!watchers->memory)
        return;
    watchers->memory = event_memory_free(watchers->memory);
    watchers->is_listening = false;
    store_on_event(watchers->store, NULL, NULL);
}

static void watchers_alive(uv_timer_t *timer)
{
    struct watchers *watchers = timer->data;

    if (watchers->count > 0) {
        watchers_write(watchers, SLICE(WATCHERS_ALIVE));
        return;
    }
    /* Since the last one left, a whole interval has passed: see watcher_closed. */
    uv_timer_stop(timer);
    watchers_unlisten(watchers);
}

static void watcher_closed(void *arg)
{
    struct watcher *watcher = arg;
    struct watchers *watchers = watcher->watchers;

    MAGIC_CHECK(watcher, WATCHER_MAGIC);
    list_remove(&watcher->link);
    if (--watchers->count > 0)
        return;
    if (watchers->is_stopped)
        watchers_unlisten(watchers);
    else
        uv_timer_again(&watchers->alive);
}

/* False: there is no memory. */
static bool watchers_listen(struct watchers *watchers)
{
    if (!watchers->has_timer) {
        watchers->has_timer = true;
        uv_timer_init(watchers->loop, &watchers->alive);
        watchers->alive.data = watchers;
    }
    if (!watchers->memory) {
        if (event_memory_new(&watchers->memory) < 0)
            return false;
        store_on_event(watchers->store, watchers_told, watchers);
    }
    if (watchers->count == 0)
        uv_timer_start(&watchers->alive, watchers_alive, WATCHERS_ALIVE_MS, WATCHERS_ALIVE_MS);
    return true;
}

/* What the client has missed, as far as it is known. */
static void watcher_begin(struct watcher *watcher)
{
    const struct watchers *watchers = watcher->watchers;
    struct slice id = http_request_header(watcher->request, "last-event-id");
    struct slice missed = {"", 0};

    watcher->has_past = id.data != NULL;
    if (!watchers->is_listening) {
        watcher_write(watcher, SLICE(WATCHERS_HELLO)); /* watchers_tell_gap goes on */
        return;
    }
    if (!watcher->has_past) {
        watcher_write(watcher, SLICE(WATCHERS_HELLO WATCHERS_LISTENING));
    } else if (event_memory_after(watchers->memory, id, &missed)) {
        watcher_write(watcher, SLICE(WATCHERS_HELLO WATCHERS_RESUMED));
        watcher_write(watcher, missed);
    } else {
        watcher_write(watcher, SLICE(WATCHERS_HELLO WATCHERS_MISSED));
    }
    watcher->has_past = true;
}

void watchers_add(struct watchers *watchers, struct http_request *request)
{
    struct watcher *watcher;

    if (watchers->is_stopped || watchers->count >= WATCHERS_MAX) {
        http_response_header(request, "Retry-After", "1");
        http_respond_error(request, 503, watchers->is_stopped ? "shutting down" : "too many watch already");
        return;
    }
    watcher = arena_alloc(http_request_arena(request), sizeof(*watcher));
    if (!watcher || !watchers_listen(watchers)) {
        api_reply_no_memory(request);
        return;
    }
    if (!http_request_hold(request))
        return;
    *watcher = (struct watcher){.magic = WATCHER_MAGIC, .watchers = watchers, .request = request};
    list_init(&watcher->link);
    list_append(&watchers->list, &watcher->link);
    watchers->count++;
    http_response_header(request, "Cache-Control", "no-cache");
    http_response_header(request, "X-Accel-Buffering", "no"); /* nginx would hold events back */
    http_stream_begin(request, 200, "text/event-stream", watcher_closed, watcher);
    watcher_begin(watcher);
}

void watchers_send_away(struct watchers *watchers)
{
    while (!list_is_empty(&watchers->list))
        watcher_end(LIST_ENTRY(watchers->list.next, struct watcher, link), SLICE(""));
}

void watchers_stop(struct watchers *watchers)
{
    if (watchers->is_stopped)
        return;
    watchers->is_stopped = true;
    watchers_send_away(watchers);
    if (watchers->count == 0)
        watchers_unlisten(watchers);
    if (watchers->has_timer)
        uv_close((uv_handle_t *)&watchers->alive, NULL);
}

void api_events(struct http_request *request, void *arg)
{
    const struct api *api = arg;

    if (slice_equals(http_request_method(request), "HEAD"))
        http_respond(request, 200, "text/event-stream", SLICE(""));
    else
        watchers_add(api->watchers, request);
}
