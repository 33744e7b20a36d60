/*
 * client.h - requests to the Kubernetes API server: libcurl driven by the loop, over HTTP/2 where the server
 * offers it. Loop thread only.
 *
 * The client knows where the server is and who we are (config.h), adds the token and reads it again when it
 * rotates, verifies TLS, and cuts what takes too long. It neither retries nor backs off: whoever asks knows
 * what a failure means to him.
 */
#ifndef K8S_CLIENT_H
#define K8S_CLIENT_H

#include <uv.h>

#include "base/base.h"
#include "k8s/config.h"

struct k8s_client;  /* opaque: see client.c */
struct k8s_request; /* one request under way */

enum k8s_method {
    K8S_GET,
    K8S_POST,
    K8S_PUT,
    K8S_PATCH_MERGE, /* application/merge-patch+json */
};

struct k8s_answer {
    int err;    /* 0, or why there is no status: -ECONNREFUSED, -ETIMEDOUT, -ECONNRESET, -EPROTO (TLS), … */
    int status; /* of HTTP; valid if err is 0, and for a stream that broke after its head */
    struct slice body;       /* of a plain request, or of a refused stream; valid in the callback only */
    uint64_t retry_after_ms; /* what Retry-After asks for, see backoff.h; 0: nothing */
    const char *error;       /* a sentence for the log if err is not 0: never contains the token */
};

struct k8s_request_spec {
    enum k8s_method method;
    const char *path; /* with the query; "/api/v1/…"; copied, as the body is */
    struct slice body;
    uint64_t timeout_ms; /* for all of it; of a stream: for the head only */
    size_t body_max;     /* more is -EMSGSIZE */
    /*
     * A stream: each piece of the body of a 200 as it comes, however it is cut. `stall_ms` without a byte
     * ends it with -ETIMEDOUT; so does another request that times out while nothing comes for anyone, since
     * then the connection seems dead. Any other status is gathered and answered as a plain request's. NULL:
     * not a stream.
     */
    void (*on_data)(void *arg, struct slice data);
    uint64_t stall_ms;
};

typedef void (*k8s_done_fn)(void *arg, const struct k8s_answer *answer);

/* `config` is borrowed and must stay until the client is closed. */
int k8s_client_new(uv_loop_t *loop, const struct k8s_config *config,
                   struct k8s_client **ret_client) MUST_CHECK;

/*
 * `done` runs exactly once, later, unless the request is cancelled. `ret_request` may be NULL; it is valid
 * until `done` runs or it is cancelled. -ENOMEM, -EBUSY (too many under way): never.
 */
int k8s_client_send(struct k8s_client *client, const struct k8s_request_spec *spec, k8s_done_fn done,
                    void *arg, struct k8s_request **ret_request) MUST_CHECK;

/* No callback of the request runs after this. */
void k8s_request_cancel(struct k8s_request *request);

/* Cancels what is under way, frees the client, then calls `closed`. */
void k8s_client_close(struct k8s_client *client, void (*closed)(void *arg), void *arg);

#endif
