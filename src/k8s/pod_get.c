/*
 * pod_get.c - requests one pod by name, and tells "there is no such pod" from every other failure.
 */
#include "k8s/pod_get.h"

#include <stdio.h>
#include <stdlib.h>

#include "k8s/object.h"
#include "k8s/pods_path.h"
#include "k8s/status_object.h"

enum {
    GET_ANSWER_MAX = 2 * 1024 * 1024,    /* etcd keeps no object that is larger */
    GET_ARENA_MAX = 64 * GET_ANSWER_MAX, /* a tree takes many times its text */
    GET_ERROR_MAX = K8S_STATUS_MESSAGE_MAX + 64,
};

enum { POD_GET_MAGIC = 0x706f6467 };

struct k8s_pod_get {
    unsigned magic;
    struct k8s_request *request;
    k8s_pod_got_fn got;
    void *arg;
    char *name;
    char *agent_container; /* NULL: the first one */
};

static void get_free(struct k8s_pod_get *get)
{
    free(get->agent_container);
    free(get->name);
    get->magic = 0;
    free(get);
}

/*
 * There is no such pod only if the API server itself says so of this pod: a proxy's page of status 404, or a
 * server that does not know the path, says nothing about it, and calls would end because of it.
 */
static int get_refused(const struct k8s_pod_get *get, const struct k8s_answer *answer,
                       char error[GET_ERROR_MAX])
{
    struct k8s_status status;

    k8s_status_parse(answer->body, &status);
    if (answer->status == 404 && strcmp(status.reason, "NotFound") == 0 && strcmp(status.kind, "pods") == 0 &&
        strcmp(status.name, get->name) == 0)
        return -ENOENT;
    snprintf(error, GET_ERROR_MAX, "the API server answered with status %d: %s", answer->status,
             status.message[0] ? status.message : status.reason);
    if (answer->status == 401 || answer->status == 403)
        return -EACCES;
    return answer->status == 429 || answer->status >= 500 ? -EAGAIN : -EPROTO;
}

static int get_read(const struct k8s_pod_get *get, const struct k8s_answer *answer, struct arena *arena,
                    struct k8s_pod *ret_pod, char error[GET_ERROR_MAX])
{
    int err;

    if (answer->err < 0) {
        snprintf(error, GET_ERROR_MAX, "%s", answer->error ? answer->error : strerror(-answer->err));
        /* Whatever libcurl calls it, nobody has said that there is no such pod. */
        return answer->err == -ENOENT ? -EIO : answer->err;
    }
    if (answer->status != 200)
        return get_refused(get, answer, error);
    err = k8s_pod_parse(k8s_object_parse(arena, answer->body), get->agent_container, arena, ret_pod);
    if (err == 0 && strcmp(ret_pod->name, get->name) != 0)
        err = -EINVAL;
    if (err == -EINVAL) {
        snprintf(error, GET_ERROR_MAX, "what the API server answered cannot be read as this pod");
        err = -EBADMSG;
    } else if (err < 0) {
        snprintf(error, GET_ERROR_MAX, "%s", strerror(-err));
    }
    return err;
}

static void get_answered(void *arg, const struct k8s_answer *answer)
{
    struct k8s_pod_get *get = arg;
    char error[GET_ERROR_MAX] = "";
    struct k8s_pod pod = {0};
    struct arena arena;
    int err;

    MAGIC_CHECK(get, POD_GET_MAGIC);
    arena_init(&arena, GET_ARENA_MAX);
    err = get_read(get, answer, &arena, &pod, error);
    get->got(get->arg, err, err == 0 ? &pod : NULL, error);
    arena_release(&arena);
    get_free(get);
}

static int get_new(const struct k8s_pod_get_spec *spec, k8s_pod_got_fn got, void *arg,
                   struct k8s_pod_get **ret_get)
{
    struct k8s_pod_get *get = calloc(1, sizeof(*get));
    bool has_container = spec->agent_container && spec->agent_container[0];

    if (!get)
        return -ENOMEM;
    get->magic = POD_GET_MAGIC;
    get->got = got;
    get->arg = arg;
    get->name = strdup(spec->name);
    get->agent_container = has_container ? strdup(spec->agent_container) : NULL;
    if (!get->name || (has_container && !get->agent_container)) {
        get_free(get);
        return -ENOMEM;
    }
    *ret_get = get;
    return 0;
}

int k8s_pod_get(struct k8s_client *client, const struct k8s_pod_get_spec *spec, k8s_pod_got_fn got, void *arg,
                struct k8s_pod_get **ret_get)
{
    char path[K8S_PODS_PATH_MAX];
    struct k8s_request_spec request = {
        .method = K8S_GET, .path = path, .timeout_ms = spec->timeout_ms, .body_max = GET_ANSWER_MAX};
    struct k8s_pod_get *get;
    int err = get_new(spec, got, arg, &get);

    if (err < 0)
        return err;
    err = k8s_pods_path_get(path, spec->namespace_name, spec->name);
    assert(err == 0); /* names of Kubernetes' are far shorter */
    err = k8s_client_send(client, &request, get_answered, get, &get->request);
    if (err < 0) {
        get_free(get);
        return err;
    }
    *ret_get = get;
    return 0;
}

void k8s_pod_get_cancel(struct k8s_pod_get *get)
{
    k8s_request_cancel(get->request);
    get_free(get);
}
