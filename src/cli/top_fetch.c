/*
 * top_fetch.c - asks the router for what `smart-router top` shows.
 *
 * When the polling transfer is free, the first of these that is due begins: the status, the next page of a
 * load, a new load of the current view. So a long list never keeps the status from being asked for, and no
 * list is asked for that nobody looks at.
 */
#include "cli/top_fetch.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/top_parse.h"

enum {
    URL_MAX = 16 * 1024,
    BODY_MAX = 16 * 1024 * 1024, /* a page of 1,000 pods has less than 1 MiB */
    LINE_MAX_LEN = 64 * 1024,    /* an event */
    CURSOR_MAX = 4 * 1024,
    PAGE_ROWS = 1000, /* the most that the router gives */

    POLL_MS = 1000,
    LOAD_PAUSE = 10,       /* a load of a long list is followed by a pause of ten times its duration */
    STALE_RETRY_MS = 2000, /* the router answers, but not with the list */
    BACKOFF_MIN_MS = 500,
    BACKOFF_MAX_MS = 8000,
    ANSWER_MAX_MS = 5 * 1000,
    ACTION_MAX_MS = 10 * 1000,
    SILENCE_MAX_MS = 40 * 1000, /* of the stream: the router sends something every 15 s */
    CLOCK_MIN_MS = 2000,        /* a smaller difference is that of whole seconds */
    FDS_MAX = 4,
};

struct transfer {
    CURL *easy;
    struct strbuf url;
    struct strbuf body;
    char error[CURL_ERROR_SIZE];
    bool is_running;
};

enum question {
    ASK_STATUS,
    ASK_PAGE,
};

struct top_fetch {
    struct top_model *model;
    struct client *client;
    CURLM *multi;
    struct transfer poll;
    struct transfer action;
    struct transfer events;

    enum question asked;    /* by `poll` */
    enum top_view loading;  /* TOP_VIEWS: no load is under way */
    bool is_load_outdated;  /* the operator has changed something since it began */
    struct strbuf cursor;   /* of the next page; empty: the first one */
    uint64_t load_began_ms; /* all times are clock_elapsed_ms */
    uint64_t status_at_ms;
    uint64_t list_at_ms[TOP_VIEWS];
    uint64_t backoff_ms; /* 0: the router answers */
    bool is_refused;

    struct strbuf line; /* of the stream, not complete yet */
    uint64_t heard_ms;  /* the last time that it brought something */
    uint64_t events_at_ms;
    uint64_t events_backoff_ms;

    struct top_request request; /* that `action` sends */
};

/* ---- transfers ---- */

#define SET(transfer, option, value) (curl_easy_setopt((transfer)->easy, option, value) == CURLE_OK)

static size_t on_body(char *data, size_t size UNUSED, size_t len, void *arg)
{
    struct transfer *transfer = arg;

    strbuf_append(&transfer->body, data, len);
    return strbuf_failed(&transfer->body) ? 0 : len;
}

static bool transfer_init(struct transfer *transfer, struct client *client)
{
    strbuf_init(&transfer->url, NULL, URL_MAX);
    strbuf_init(&transfer->body, NULL, BODY_MAX);
    transfer->easy = client_new_handle(client);
    return transfer->easy && SET(transfer, CURLOPT_WRITEFUNCTION, on_body) &&
           SET(transfer, CURLOPT_WRITEDATA, transfer) && SET(transfer, CURLOPT_PRIVATE, transfer) &&
           SET(transfer, CURLOPT_ERRORBUFFER, transfer->error);
}

static void transfer_release(struct transfer *transfer, CURLM *multi)
{
    if (transfer->is_running)
        curl_multi_remove_handle(multi, transfer->easy);
    curl_easy_cleanup(transfer->easy);
    strbuf_release(&transfer->url);
    strbuf_release(&transfer->body);
}

/* Begins with the URL that was written into `url`. False: no memory. */
static bool transfer_start(struct transfer *transfer, CURLM *multi)
{
    assert(!transfer->is_running);
    transfer->error[0] = '\0';
    strbuf_reset(&transfer->body);
    transfer->is_running = !strbuf_failed(&transfer->url) && SET(transfer, CURLOPT_URL, transfer->url.data) &&
                           curl_multi_add_handle(multi, transfer->easy) == CURLM_OK;
    return transfer->is_running;
}

static void transfer_set_url(struct transfer *transfer, const struct client *client, const char *path)
{
    strbuf_reset(&transfer->url);
    strbuf_append_str(&transfer->url, client_url(client));
    strbuf_append_str(&transfer->url, path);
}

static int transfer_status(const struct transfer *transfer)
{
    long status = 0;

    return curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK ? (int)status : 0;
}

static const char *transfer_error(struct transfer *transfer, CURLcode code)
{
    if (!transfer->error[0])
        snprintf(transfer->error, sizeof(transfer->error), "%s", curl_easy_strerror(code));
    return transfer->error;
}

static uint64_t longer(uint64_t backoff_ms)
{
    return min_u64(max_u64(backoff_ms * 2, BACKOFF_MIN_MS), BACKOFF_MAX_MS);
}

static uint64_t left_ms(uint64_t at_ms, uint64_t now_ms)
{
    return at_ms > now_ms ? at_ms - now_ms : 0;
}

/* ---- the router answers, or does not ---- */

static void link_away(struct top_fetch *fetch, const char *error, uint64_t now_ms)
{
    struct top_model *model = fetch->model;

    if (model->link != TOP_AWAY) {
        uint64_t silent_ms = model->link == TOP_ANSWERS ? now_ms - model->answered_ms : 0;

        model->away_ms = clock_wall_ms() - silent_ms;
    }
    model->link = TOP_AWAY;
    snprintf(model->link_error, sizeof(model->link_error), "%s", error);
    model->version++;
    fetch->loading = TOP_VIEWS;
    fetch->backoff_ms = longer(fetch->backoff_ms);
    fetch->status_at_ms = now_ms + fetch->backoff_ms;
}

/* Ages are right also if the clocks of the two machines differ. */
static void set_clock(struct top_fetch *fetch)
{
    struct curl_header *date;
    int64_t ahead_ms;
    time_t seconds;

    if (curl_easy_header(fetch->poll.easy, "Date", 0, CURLH_HEADER, -1, &date) != CURLHE_OK)
        return;
    seconds = curl_getdate(date->value, NULL);
    if (seconds <= 0)
        return;
    ahead_ms = (int64_t)seconds * 1000 - (int64_t)clock_wall_ms();
    fetch->model->clock_ahead_ms = llabs(ahead_ms) >= CLOCK_MIN_MS ? ahead_ms : 0;
}

static void link_answers(struct top_fetch *fetch, uint64_t now_ms)
{
    struct top_model *model = fetch->model;

    if (model->link == TOP_AWAY) { /* what is shown is old, and the stream is waited for no longer */
        memset(fetch->list_at_ms, 0, sizeof(fetch->list_at_ms));
        fetch->events_at_ms = now_ms;
    }
    model->link = TOP_ANSWERS;
    model->answered_ms = now_ms;
    model->version++;
    fetch->backoff_ms = 0;
    fetch->status_at_ms = now_ms + POLL_MS;
    set_clock(fetch);
}

static void finish_status(struct top_fetch *fetch, CURLcode code, uint64_t now_ms)
{
    struct transfer *poll = &fetch->poll;
    int status = transfer_status(poll);
    char refusal[TOP_TEXT_MAX + 1];

    if (code != CURLE_OK) {
        link_away(fetch, transfer_error(poll, code), now_ms);
        return;
    }
    if (status != 200) {
        fetch->is_refused = !fetch->model->has_status && (status == 401 || status == 403);
        top_parse_refusal(status, strbuf_slice(&poll->body), refusal, sizeof(refusal));
        link_away(fetch, refusal, now_ms);
        return;
    }
    if (top_parse_status(fetch->model, strbuf_slice(&poll->body)) < 0) {
        link_away(fetch, "this is not the answer of a smart-router", now_ms);
        return;
    }
    link_answers(fetch, now_ms);
}

/* ---- pages ---- */

static void load_failed(struct top_fetch *fetch, const char *error, uint64_t now_ms)
{
    top_load_failed(fetch->model, fetch->loading, error);
    fetch->list_at_ms[fetch->loading] = now_ms + STALE_RETRY_MS;
    fetch->loading = TOP_VIEWS;
}

static void load_next(struct top_fetch *fetch, uint64_t now_ms)
{
    enum top_view view = fetch->loading;

    if (strbuf_failed(&fetch->cursor)) {
        load_failed(fetch, "the cursor of the next page is too long", now_ms);
        return;
    }
    if (fetch->cursor.len > 0) {
        top_load_page(fetch->model, view);
        return;
    }
    top_load_commit(fetch->model, view);
    fetch->list_at_ms[view] = now_ms + max_u64(POLL_MS, LOAD_PAUSE * (now_ms - fetch->load_began_ms));
    fetch->loading = TOP_VIEWS;
}

static void finish_page(struct top_fetch *fetch, CURLcode code, uint64_t now_ms)
{
    struct transfer *poll = &fetch->poll;
    int status = transfer_status(poll);
    char refusal[TOP_TEXT_MAX + 1];

    if (fetch->loading == TOP_VIEWS)
        return;
    if (code != CURLE_OK && code != CURLE_WRITE_ERROR) {
        link_away(fetch, transfer_error(poll, code), now_ms);
        return;
    }
    if (fetch->is_load_outdated || fetch->loading != fetch->model->view) {
        fetch->list_at_ms[fetch->loading] = 0;
        fetch->loading = TOP_VIEWS;
    } else if (code == CURLE_WRITE_ERROR) {
        load_failed(fetch, "the answer is too long", now_ms);
    } else if (status != 200) {
        top_parse_refusal(status, strbuf_slice(&poll->body), refusal, sizeof(refusal));
        load_failed(fetch, refusal, now_ms);
    } else if (top_parse_page(fetch->model, fetch->loading, strbuf_slice(&poll->body), &fetch->cursor) < 0) {
        load_failed(fetch, "this is not the answer of a smart-router", now_ms);
    } else {
        load_next(fetch, now_ms);
    }
}

static void start_page(struct top_fetch *fetch)
{
    struct transfer *poll = &fetch->poll;
    char path[64];

    snprintf(path, sizeof(path), "/api/v1/%s?limit=%d", top_parse_member(fetch->loading), PAGE_ROWS);
    transfer_set_url(poll, fetch->client, path);
    if (fetch->cursor.len > 0) {
        strbuf_append_str(&poll->url, "&cursor=");
        client_append_escaped(fetch->client, &poll->url, fetch->cursor.data);
    }
    fetch->asked = ASK_PAGE;
}

static void start_load(struct top_fetch *fetch, enum top_view view, uint64_t now_ms)
{
    top_load_begin(fetch->model, view);
    strbuf_reset(&fetch->cursor);
    fetch->loading = view;
    fetch->is_load_outdated = false;
    fetch->load_began_ms = now_ms;
}

/* The view has a list of its own, the router answers, and it is time. */
static bool is_list_due(const struct top_fetch *fetch, uint64_t now_ms)
{
    enum top_view view = fetch->model->view;

    return top_has_pages(view) && fetch->model->link == TOP_ANSWERS && now_ms >= fetch->list_at_ms[view];
}

static void start_poll(struct top_fetch *fetch, uint64_t now_ms)
{
    if (fetch->poll.is_running)
        return;
    if (fetch->loading != TOP_VIEWS && fetch->loading != fetch->model->view) {
        fetch->list_at_ms[fetch->loading] = 0; /* half a list is of no use when somebody comes back to it */
        fetch->loading = TOP_VIEWS;
    }
    if (now_ms >= fetch->status_at_ms) {
        fetch->asked = ASK_STATUS;
        transfer_set_url(&fetch->poll, fetch->client, "/api/v1/status");
    } else if (fetch->loading == fetch->model->view) {
        start_page(fetch);
    } else if (is_list_due(fetch, now_ms)) {
        start_load(fetch, fetch->model->view, now_ms);
        start_page(fetch);
    } else {
        return;
    }
    if (!transfer_start(&fetch->poll, fetch->multi))
        link_away(fetch, "no memory", now_ms);
}

/* ---- the stream of events ---- */

static void take_line(struct top_fetch *fetch)
{
    struct slice line = strbuf_slice(&fetch->line);

    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    if (line.len > 5 && memcmp(line.data, "data:", 5) == 0) {
        struct slice data = {line.data + 5, line.len - 5};

        top_parse_event(fetch->model, data, clock_wall_ms() + (uint64_t)fetch->model->clock_ahead_ms);
    }
    strbuf_reset(&fetch->line);
}

/* A line that is too long breaks the connection: 0 tells libcurl so. */
static size_t on_events(char *data, size_t size UNUSED, size_t len, void *arg)
{
    struct top_fetch *fetch = arg;

    fetch->heard_ms = clock_elapsed_ms();
    if (transfer_status(&fetch->events) != 200)
        return on_body(data, 1, len, &fetch->events);
    if (!fetch->model->has_events)
        fetch->model->version++;
    fetch->model->has_events = true;
    fetch->events_backoff_ms = 0;
    for (size_t left = len; left > 0;) {
        const char *end = memchr(data, '\n', left);
        size_t part = end ? (size_t)(end - data) : left;

        strbuf_append(&fetch->line, data, part);
        if (strbuf_failed(&fetch->line))
            return 0;
        if (end)
            take_line(fetch);
        part += end ? 1 : 0;
        data += part;
        left -= part;
    }
    return len;
}

static void start_events(struct top_fetch *fetch, uint64_t now_ms)
{
    if (fetch->events.is_running || fetch->model->link != TOP_ANSWERS || now_ms < fetch->events_at_ms)
        return;
    strbuf_reset(&fetch->line);
    fetch->heard_ms = now_ms;
    transfer_set_url(&fetch->events, fetch->client, "/api/v1/events");
    if (!transfer_start(&fetch->events, fetch->multi))
        fetch->events_at_ms = now_ms + BACKOFF_MAX_MS;
}

static void finish_events(struct top_fetch *fetch, CURLcode code, uint64_t now_ms)
{
    struct transfer *events = &fetch->events;
    struct top_model *model = fetch->model;
    int status = transfer_status(events);

    model->has_events = false;
    model->version++;
    fetch->events_backoff_ms = longer(fetch->events_backoff_ms);
    fetch->events_at_ms = now_ms + fetch->events_backoff_ms;
    if (status != 200 && status != 0)
        top_parse_refusal(status, strbuf_slice(&events->body), model->events_error,
                          sizeof(model->events_error));
    else if (code != CURLE_OK)
        snprintf(model->events_error, sizeof(model->events_error), "%s", transfer_error(events, code));
    else
        snprintf(model->events_error, sizeof(model->events_error), "the router has ended the stream");
}

/* A router that vanished without a word leaves a connection that never ends. */
static void end_silent_events(struct top_fetch *fetch, uint64_t now_ms)
{
    if (!fetch->events.is_running || left_ms(now_ms, fetch->heard_ms) < SILENCE_MAX_MS)
        return;
    curl_multi_remove_handle(fetch->multi, fetch->events.easy);
    fetch->events.is_running = false;
    finish_events(fetch, CURLE_OPERATION_TIMEDOUT, now_ms);
}

/* ---- what the operator confirmed ---- */

static bool write_request(const struct top_request *request, struct strbuf *body)
{
    struct json_writer json;

    json_begin(&json, body);
    json_object_begin(&json);
    if (request->action == TOP_RELEASE) {
        json_put_string(&json, "call_sid", request->name);
        if (request->pod[0]) /* a call that has moved meanwhile is not meant */
            json_put_string(&json, "pod_name", request->pod);
        json_put_string(&json, "reason", "smart-router top");
    } else {
        json_put_string(&json, "pod_name", request->name);
    }
    json_object_end(&json);
    return !strbuf_failed(body);
}

static bool start_action(struct top_fetch *fetch)
{
    static const char *const paths[] = {
        [TOP_DRAIN] = "/api/v1/drain", [TOP_UNDRAIN] = "/api/v1/undrain", [TOP_RELEASE] = "/api/v1/release"};
    struct transfer *action = &fetch->action;
    struct strbuf body;
    bool is_started;

    strbuf_init(&body, NULL, URL_MAX);
    transfer_set_url(action, fetch->client, paths[fetch->request.action]);
    is_started = write_request(&fetch->request, &body) &&
                 SET(action, CURLOPT_POSTFIELDSIZE, (long)body.len) &&
                 SET(action, CURLOPT_COPYPOSTFIELDS, body.data) && transfer_start(action, fetch->multi);
    strbuf_release(&body);
    return is_started;
}

void top_fetch_send(struct top_fetch *fetch)
{
    struct top_model *model = fetch->model;

    if (fetch->action.is_running) {
        top_say(model, true, "one moment: the request for %s is not answered yet", fetch->request.name);
        return;
    }
    fetch->request = model->request;
    if (start_action(fetch))
        top_say(model, false, "%s: sent", fetch->request.name);
    else
        top_say(model, true, "%s: no memory", fetch->request.name);
}

static void finish_action(struct top_fetch *fetch, CURLcode code, uint64_t now_ms)
{
    struct transfer *action = &fetch->action;

    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
        top_say(fetch->model, true, "%s: nothing was sent: %s", fetch->request.name,
                transfer_error(action, code));
    else if (code != CURLE_OK)
        top_say(fetch->model, true, "%s: no answer, look whether it was carried out: %s", fetch->request.name,
                transfer_error(action, code));
    else
        top_parse_answer(fetch->model, &fetch->request, transfer_status(action), strbuf_slice(&action->body));
    fetch->is_load_outdated = true;
    memset(fetch->list_at_ms, 0, sizeof(fetch->list_at_ms));
    if (fetch->backoff_ms == 0)
        fetch->status_at_ms = now_ms;
}

/* ---- steps ---- */

static void finish(struct top_fetch *fetch, struct transfer *transfer, CURLcode code, uint64_t now_ms)
{
    if (transfer == &fetch->action)
        finish_action(fetch, code, now_ms);
    else if (transfer == &fetch->events)
        finish_events(fetch, code, now_ms);
    else if (fetch->asked == ASK_STATUS)
        finish_status(fetch, code, now_ms);
    else
        finish_page(fetch, code, now_ms);
}

static void take_finished(struct top_fetch *fetch, uint64_t now_ms)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(fetch->multi, &left))) {
        CURLcode code = message->data.result;
        CURL *easy = message->easy_handle;
        char *private = NULL;
        struct transfer *transfer;

        assert(message->msg == CURLMSG_DONE);
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, &private);
        transfer = (void *)private;
        assert(transfer && transfer->easy == easy);
        curl_multi_remove_handle(fetch->multi, easy); /* `message` is not valid any more */
        transfer->is_running = false;
        finish(fetch, transfer, code, now_ms);
    }
}

uint64_t top_fetch_step(struct top_fetch *fetch, uint64_t now_ms)
{
    enum top_view view = fetch->model->view;
    uint64_t wait_ms = POLL_MS;
    int running;

    curl_multi_perform(fetch->multi, &running);
    take_finished(fetch, now_ms);
    end_silent_events(fetch, now_ms);
    start_poll(fetch, now_ms);
    start_events(fetch, now_ms);
    if (!fetch->poll.is_running) {
        wait_ms = min_u64(wait_ms, left_ms(fetch->status_at_ms, now_ms));
        if (top_has_pages(view) && fetch->model->link == TOP_ANSWERS)
            wait_ms = min_u64(wait_ms, left_ms(fetch->list_at_ms[view], now_ms));
    }
    if (!fetch->events.is_running && fetch->model->link == TOP_ANSWERS)
        wait_ms = min_u64(wait_ms, left_ms(fetch->events_at_ms, now_ms));
    return wait_ms;
}

void top_fetch_wait(struct top_fetch *fetch, const int *fds, size_t fds_len, uint64_t timeout_ms)
{
    struct curl_waitfd waits[FDS_MAX];

    assert(fds_len <= FDS_MAX);
    for (size_t i = 0; i < fds_len; i++)
        waits[i] = (struct curl_waitfd){.fd = fds[i], .events = CURL_WAIT_POLLIN};
    curl_multi_poll(fetch->multi, waits, (unsigned)fds_len, (int)min_u64(timeout_ms, INT32_MAX), NULL);
}

bool top_fetch_is_refused(const struct top_fetch *fetch)
{
    return fetch->is_refused;
}

/* ---- from beginning to end ---- */

int top_fetch_new(struct client *client, struct top_model *model, struct top_fetch **ret_fetch)
{
    CLEANUP(top_fetch_freep) struct top_fetch *fetch = calloc(1, sizeof(*fetch));

    if (!fetch)
        return -ENOMEM;
    fetch->model = model;
    fetch->client = client;
    fetch->loading = TOP_VIEWS;
    strbuf_init(&fetch->cursor, NULL, CURSOR_MAX);
    strbuf_init(&fetch->line, NULL, LINE_MAX_LEN);
    fetch->multi = curl_multi_init();
    if (!fetch->multi || !transfer_init(&fetch->poll, client) || !transfer_init(&fetch->action, client) ||
        !transfer_init(&fetch->events, client) ||
        !SET(&fetch->poll, CURLOPT_TIMEOUT_MS, (long)ANSWER_MAX_MS) ||
        !SET(&fetch->action, CURLOPT_TIMEOUT_MS, (long)ACTION_MAX_MS) ||
        !SET(&fetch->events, CURLOPT_WRITEFUNCTION, on_events) ||
        !SET(&fetch->events, CURLOPT_WRITEDATA, fetch))
        return -ENOMEM;
    *ret_fetch = TAKE(fetch);
    return 0;
}

struct top_fetch *top_fetch_free(struct top_fetch *fetch)
{
    if (!fetch)
        return NULL;
    transfer_release(&fetch->poll, fetch->multi);
    transfer_release(&fetch->action, fetch->multi);
    transfer_release(&fetch->events, fetch->multi);
    curl_multi_cleanup(fetch->multi);
    strbuf_release(&fetch->cursor);
    strbuf_release(&fetch->line);
    free(fetch);
    return NULL;
}

void top_fetch_freep(struct top_fetch **fetch)
{
    *fetch = top_fetch_free(*fetch);
}
