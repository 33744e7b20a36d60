/*
 * talk.c - talk, the program: opens the stream of one call, says something, and shows what comes back.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "fetch.h"
#include "options.h"
#include "peer.h"

enum { TALK_TIMEOUT_MS = 10000, BODY_MAX = 1024, ANSWER_MEMORY_MAX = 1024 * 1024 };

static const char usage[] =
    "usage: talk [options] [URL] TEXT...\n"
    "Opens the WebSocket of a call, sends each TEXT, and shows what comes back. URL is the call's ws_url.\n"
    "Leaves without a close frame, as a connection that is lost: so the call can go on.\n"
    "Exit status 1 if there is no answer.\n"
    "\n"
    "  --call SID           no URL: ask the router for the ws_url of this call\n"
    "  --router URL         that router (http://127.0.0.1:8080)\n"
    "  --api-key-file FILE  its API_KEY is in that file\n"
    "  --help\n";

static const struct option options[] = {
    {"call", required_argument, NULL, 'c'},
    {"router", required_argument, NULL, 'r'},
    {"api-key-file", required_argument, NULL, 'k'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct talk {
    struct net net;
    struct peer peer;
    uv_timer_t timer;
    struct url router;
    const char *call_sid; /* NULL: the URL is given */
    const char *api_key;
    char **texts; /* what is left to say; NULL at its end */
    bool has_peer;
    bool is_done;
    int status; /* of the program */
};

/* Everything closes, and the loop ends. */
static void talk_finish(struct talk *talk, int status)
{
    if (talk->is_done)
        return;
    talk->is_done = true;
    talk->status = status;
    if (talk->has_peer)
        peer_close(&talk->peer);
    uv_close((uv_handle_t *)&talk->timer, NULL);
}

static void talk_fail(struct talk *talk, const char *what, const char *why)
{
    fprintf(stderr, "talk: %s%s%s\n", what, why[0] ? ": " : "", why);
    talk_finish(talk, 1);
}

static struct talk *talk_of(struct peer *peer)
{
    return CONTAINER_OF(peer, struct talk, peer);
}

static void talk_say(struct talk *talk)
{
    size_t len = strlen(*talk->texts);
    char *frame = malloc(WS_HEADER_MAX + len + 1);

    if (!frame)
        abort();
    memcpy(frame + WS_HEADER_MAX, *talk->texts, len + 1);
    printf("sent      %s\n", *talk->texts);
    if (peer_send(&talk->peer, WS_TEXT, frame + WS_HEADER_MAX, len) != 0)
        talk_fail(talk, "cannot send", "");
    free(frame);
}

static void talk_opened(struct peer *peer)
{
    talk_say(talk_of(peer));
}

static void talk_heard(struct peer *peer, enum ws_opcode opcode, char *data, size_t len)
{
    struct talk *talk = talk_of(peer);

    if (opcode == WS_TEXT)
        printf("received  %.*s\n", (int)len, data);
    else
        printf("received  %zu bytes\n", len);
    if (*++talk->texts)
        talk_say(talk);
    else
        talk_finish(talk, 0);
}

static void talk_ended(struct peer *peer, int code, int err, int status)
{
    char why[64] = "";

    if (status > 0)
        snprintf(why, sizeof(why), "it was refused with status %d", status);
    else if (err != 0)
        snprintf(why, sizeof(why), "%s", uv_strerror(err));
    else
        snprintf(why, sizeof(why), "close code %d", code);
    talk_fail(talk_of(peer), "the stream has ended", why);
}

static void talk_closed(struct peer *peer UNUSED)
{
}

static const struct peer_ops talk_ops = {
    .open = talk_opened, .message = talk_heard, .ended = talk_ended, .closed = talk_closed};

static void talk_open(struct talk *talk, const char *text)
{
    struct sockaddr_storage address;
    struct url url;

    printf("%s\n", text);
    if (url_parse(slice_of(text), &url) != 0 || url.is_tls) {
        talk_fail(talk, text, "that is no ws:// URL; TLS is not supported");
        return;
    }
    if (url_resolve(&url, &address) != 0) {
        talk_fail(talk, url.host, "that host is not known");
        return;
    }
    talk->has_peer = true;
    if (peer_connect(&talk->peer, &talk->net, &talk_ops, (const struct sockaddr *)&address, &url, "") != 0)
        talk_fail(talk, "cannot connect", "");
}

static void talk_allocated(void *arg, int err, int status, struct slice body)
{
    struct talk *talk = arg;
    struct arena arena;
    const char *url;

    if (talk->is_done)
        return;
    if (status != 200) {
        talk_fail(talk, "the router gave no ws_url", body.len > 0 ? body.data : uv_strerror(err));
        return;
    }
    arena_init(&arena, ANSWER_MEMORY_MAX);
    url = json_get_string(json_parse(&arena, body), "ws_url");
    if (url)
        talk_open(talk, url);
    else
        talk_fail(talk, "the router gave no ws_url", "");
    arena_release(&arena);
}

/* Asking again for a call that has a pod gives the same pod. */
static void talk_ask(struct talk *talk)
{
    struct sockaddr_storage address;
    struct fetch *fetch;
    struct json_writer json;
    struct strbuf body;
    struct fetch_request request = {.method = "POST",
                                    .address = (const struct sockaddr *)&address,
                                    .url = &talk->router,
                                    .path = "/api/v1/allocate",
                                    .api_key = talk->api_key,
                                    .content_type = "application/json",
                                    .timeout_ms = TALK_TIMEOUT_MS};

    if (url_resolve(&talk->router, &address) != 0) {
        talk_fail(talk, talk->router.host, "that host is not known");
        return;
    }
    strbuf_init(&body, NULL, BODY_MAX);
    json_begin(&json, &body);
    json_object_begin(&json);
    json_put_string(&json, "call_sid", talk->call_sid);
    json_object_end(&json);
    request.body = strbuf_slice(&body);
    if (strbuf_failed(&body) || fetch_start(&talk->net, &request, talk_allocated, talk, &fetch) != 0)
        talk_fail(talk, "cannot ask the router", "");
    strbuf_release(&body);
}

static void talk_too_late(uv_timer_t *timer)
{
    talk_fail(timer->data, "no answer within 10 seconds", "");
}

static void read_options(struct talk *talk, int argc, char **argv)
{
    int option;

    option_url("router", "http://127.0.0.1:8080", &talk->router);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'c') {
            talk->call_sid = optarg;
        } else if (option == 'r') {
            option_url("router", optarg, &talk->router);
        } else if (option == 'k') {
            talk->api_key = option_key_file("api-key-file", optarg);
        } else if (option == 'h') {
            fputs(usage, stdout);
            exit(0);
        } else {
            exit(2);
        }
    }
    if (optind + (talk->call_sid ? 1 : 2) > argc) {
        fputs(usage, stderr);
        exit(2);
    }
    talk->texts = argv + optind + (talk->call_sid ? 0 : 1);
}

int main(int argc, char **argv)
{
    struct talk *talk = calloc(1, sizeof(*talk));
    int status;

    if (!talk)
        abort();
    setvbuf(stdout, NULL, _IOLBF, 0);
    read_options(talk, argc, argv);
    net_init(&talk->net);
    uv_timer_init(&talk->net.loop, &talk->timer);
    talk->timer.data = talk;
    uv_timer_start(&talk->timer, talk_too_late, TALK_TIMEOUT_MS, 0);
    if (talk->call_sid)
        talk_ask(talk);
    else
        talk_open(talk, argv[optind]);
    uv_run(&talk->net.loop, UV_RUN_DEFAULT);
    status = talk->status;
    net_release(&talk->net);
    free(talk);
    return status;
}
