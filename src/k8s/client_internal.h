/*
 * client_internal.h - what client.c and request.c share.
 */
#ifndef K8S_CLIENT_INTERNAL_H
#define K8S_CLIENT_INTERNAL_H

#include "base/list.h"
#include "base/strbuf.h"
#include "k8s/client.h"
#include "k8s/curl_loop.h"
#include "k8s/token.h"

enum {
    K8S_ERROR_MAX = 512,
    K8S_BURST_MAX = 32 << 20, /* of a stream: what libcurl may hand over in one turn */
};

/*
 * The connections that requests share. When a request has waited in vain, nobody says so but the connection
 * may be dead: over HTTP/2 the next request would wait on it as well. So the lane is retired, the next
 * request gets a new one, and the old one ends with its last request.
 *
 * A stream may rightly be silent, and would notice last. So if nothing at all has come on the lane while that
 * request waited, its streams end with it. If something has, the server is merely slow with that request: the
 * streams go on.
 */
struct lane {
    struct k8s_client *client;
    struct curl_loop *curl; /* NULL once it is closing */
    size_t requests;
    uint64_t arrivals; /* grows with whatever comes */
    bool is_retired;
};

struct k8s_client {
    uv_loop_t *loop;
    const struct k8s_config *config;
    struct token token;
    char *base_url; /* a request's path follows */
    struct curl_slist *connect_to;
    char *host_header; /* NULL: what the URL says */
    struct lane *lane; /* NULL: the next request makes one */
    struct list requests;
    struct list fresh; /* streams with data that were not told yet */
    size_t request_count;
    size_t open;      /* handles and lanes that are not closed yet */
    uv_idle_t handle; /* never started: closing it makes `closed` come later, whatever else there is */
    bool is_closing;
    void (*closed)(void *arg);
    void *closed_arg;
};

enum { K8S_REQUEST_MAGIC = 0x6b726571 };

struct k8s_request {
    unsigned magic;
    struct k8s_client *client;
    struct lane *lane;
    struct list link;
    struct list fresh_link;
    enum k8s_method method;
    uint64_t timeout_ms;
    uint64_t stall_ms;
    uint64_t arrivals_before; /* of the lane when it began to wait */
    void (*on_data)(void *arg, struct slice data);
    k8s_done_fn done;
    void *arg;
    CURL *easy;
    struct curl_slist *headers;
    char *url;
    char *sent_body;
    uv_timer_t timer;
    struct strbuf body; /* of an answer, or what a stream has not told yet */
    int err;            /* why our own callback stopped the transfer */
    bool is_streaming;  /* the head of a 200 has come, and there is on_data */
    char curl_error[CURL_ERROR_SIZE];
    char error[K8S_ERROR_MAX];
};

/* Makes the request and its easy handle; does not start anything. `token` may be NULL. */
int k8s_request_new(struct k8s_client *client, const struct k8s_request_spec *spec, const char *token,
                    struct k8s_request **ret_request) MUST_CHECK;
void k8s_request_free(struct k8s_request *request);

/* The errno for what libcurl says, and the sentence for it in request->error. */
int k8s_request_failure(struct k8s_request *request, CURLcode code);

/* A sentence in request->error that begins with the method and the path. */
void k8s_request_say(struct k8s_request *request, const char *format, ...) PRINTF_LIKE(2, 3);

/* client.c: something has come for this request. */
void client_note_arrival(struct k8s_request *request);

/* client.c: the time for what is next, from now on. 0: for ever. */
void client_restart_timer(struct k8s_request *request, uint64_t timeout_ms);

#endif
