#include "k8s/marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "k8s/backoff.h"
#include "k8s/refusal.h"

enum {
    MARKS_NAME_MAX = 253, /* a DNS name */
    MARKS_UID_MAX = 64,
    MARKS_PATH_MAX = 512,
    MARKS_PATCH_MAX = 1024,
    MARKS_ANSWER_MAX = 2 * 1024 * 1024, /* the pod comes back; etcd keeps none that is larger */
    MARKS_TIMEOUT_MS = 10000,
};

/* Times are elapsed ones. */
struct k8s_marks {
    struct k8s_marks_settings settings;
    struct k8s_client *client;
    uv_timer_t timer;
    struct map pods;
    struct list to_mark;    /* pods with a call and without a mark, oldest first */
    struct list to_relieve; /* the other way round; what is first has waited longest */
    struct list at_rest;    /* all the others */
    unsigned under_way;
    uint64_t next_at_ms; /* not to send faster than we may, or while the server is in trouble */
    struct k8s_backoff backoff;
    int trouble; /* a status or a negative errno, as it was last told; 0: none */
    uint64_t list_number;
    bool is_full_told;
    bool is_off; /* for good */
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

struct marks_pod {
    struct map_node node;
    struct list link;
    struct list *list; /* the one of the three that it is in */
    struct k8s_marks *marks;
    struct k8s_request *request; /* under way, or NULL */
    struct k8s_mark mark;        /* if it is known */
    bool is_known;
    bool is_told; /* whether it has a call: if not, nothing is taken from it */
    bool is_busy;
    bool is_asking_busy; /* what the request under way brings about */
    uint64_t relieve_at_ms;
    uint64_t list_number; /* of the list that it was last in */
    char uid[MARKS_UID_MAX + 1];
    char name[];
};

static void marks_due(uv_timer_t *timer);
static void marks_patched(void *arg, const struct k8s_answer *answer);

static struct marks_pod *marks_find(const struct k8s_marks *marks, const char *name)
{
    struct map_node *node = map_get(&marks->pods, name, strlen(name));

    return node ? CONTAINER_OF(node, struct marks_pod, node) : NULL;
}

/* Cuts off the patch that is under way, if there is one: whether it has arrived is not known. */
static void marks_cut(struct marks_pod *pod)
{
    if (pod->request) {
        k8s_request_cancel(TAKE(pod->request));
        pod->marks->under_way--;
    }
}

static void marks_drop(struct marks_pod *pod)
{
    marks_cut(pod);
    list_remove(&pod->link);
    map_remove(&pod->marks->pods, &pod->node);
    free(pod);
}

static void marks_drop_all(struct k8s_marks *marks)
{
    struct list *const lists[] = {&marks->to_mark, &marks->to_relieve, &marks->at_rest};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        LIST_FOR_EACH (link, lists[i])
            marks_drop(LIST_ENTRY(link, struct marks_pod, link));
    }
}

static struct marks_pod *marks_add(struct k8s_marks *marks, const char *name)
{
    size_t len = strlen(name);
    struct marks_pod *pod = NULL;

    if (len == 0 || len > MARKS_NAME_MAX || strpbrk(name, "/?#%"))
        return NULL; /* no name of Kubernetes' */
    if (marks->pods.count < K8S_MARKS_PODS_MAX && map_reserve(&marks->pods) == 0)
        pod = calloc(1, sizeof(*pod) + len + 1);
    if (!pod) {
        if (!marks->is_full_told)
            log_warn("some pods with calls cannot be protected from scaling down: there are too many",
                     log_num("pods_max", K8S_MARKS_PODS_MAX));
        marks->is_full_told = true;
        return NULL;
    }
    pod->marks = marks;
    memcpy(pod->name, name, len + 1);
    map_put(&marks->pods, &pod->node, pod->name, len);
    pod->list = &marks->at_rest;
    list_append(pod->list, &pod->link);
    return pod;
}

/* When something is to be sent next; UINT64_MAX: when something happens first. */
static uint64_t marks_next_at_ms(const struct k8s_marks *marks)
{
    if (marks->is_off || marks->is_stopping || marks->under_way >= marks->settings.under_way_max)
        return UINT64_MAX;
    if (!list_is_empty(&marks->to_mark))
        return marks->next_at_ms;
    if (!list_is_empty(&marks->to_relieve))
        return max_u64(marks->next_at_ms,
                       LIST_ENTRY(marks->to_relieve.next, struct marks_pod, link)->relieve_at_ms);
    return UINT64_MAX;
}

static void marks_arm(struct k8s_marks *marks)
{
    uint64_t now_ms = clock_elapsed_ms();
    uint64_t at_ms = marks_next_at_ms(marks);

    if (marks->is_stopping)
        return;
    if (at_ms == UINT64_MAX)
        uv_timer_stop(&marks->timer);
    else
        uv_timer_start(&marks->timer, marks_due, at_ms > now_ms ? at_ms - now_ms : 0, 0);
}

/*
 * Puts the pod where it belongs, by what is and what should be; may free it. A pod keeps its place in the
 * list in which it is already: else one that changes often would never have its turn.
 */
static void marks_settle(struct marks_pod *pod)
{
    struct k8s_marks *marks = pod->marks;
    struct list *list = &marks->at_rest;

    if (!pod->is_known && !pod->is_busy) {
        marks_drop(pod);
        return;
    }
    if (!pod->request && pod->is_known && pod->is_told && !k8s_mark_fits(pod->mark, pod->is_busy))
        list = pod->is_busy ? &marks->to_mark : &marks->to_relieve;
    if (list == pod->list)
        return;
    if (list == &marks->to_relieve)
        pod->relieve_at_ms = clock_elapsed_ms() + marks->settings.settle_ms;
    list_remove(&pod->link);
    list_append(list, &pod->link);
    pod->list = list;
}

static void marks_send(struct k8s_marks *marks, struct marks_pod *pod)
{
    char path[MARKS_PATH_MAX];
    struct k8s_request_spec spec = {
        .method = K8S_PATCH_MERGE,
        .path = path,
        .timeout_ms = MARKS_TIMEOUT_MS,
        .body_max = MARKS_ANSWER_MAX,
    };
    struct strbuf body;
    int err;

    snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", marks->settings.namespace_name, pod->name);
    strbuf_init(&body, NULL, MARKS_PATCH_MAX);
    k8s_mark_write_patch(&body, pod->mark, pod->uid, pod->is_busy);
    spec.body = strbuf_slice(&body);
    pod->is_asking_busy = pod->is_busy;
    err = strbuf_failed(&body) ? -ENOMEM
                               : k8s_client_send(marks->client, &spec, marks_patched, pod, &pod->request);
    strbuf_release(&body);
    if (err < 0)
        pod->request = NULL; /* the client is busy or there is no memory: at the next turn */
    else
        marks->under_way++;
    marks->next_at_ms =
        clock_elapsed_ms() + (999 + marks->settings.per_second_max) / marks->settings.per_second_max;
    marks_settle(pod);
}

static void marks_due(uv_timer_t *timer)
{
    struct k8s_marks *marks = timer->data;

    if (marks_next_at_ms(marks) <= clock_elapsed_ms()) {
        struct list *list = list_is_empty(&marks->to_mark) ? &marks->to_relieve : &marks->to_mark;

        marks_send(marks, LIST_ENTRY(list->next, struct marks_pod, link));
    }
    marks_arm(marks);
}

static void marks_turn_off(struct k8s_marks *marks, const struct k8s_answer *answer)
{
    struct k8s_refusal refusal;

    k8s_refusal_parse(answer->body, &refusal);
    log_warn("pods with calls are not protected from scaling down: the role lacks a verb on pods",
             log_str("verb", "patch"), log_str("resource", "pods"),
             log_str("namespace", marks->settings.namespace_name), log_str("error", refusal.message));
    marks->is_off = true;
    marks_drop_all(marks);
}

/* Says each kind of trouble once, until it changes. */
static void marks_complain(struct k8s_marks *marks, const struct marks_pod *pod,
                           const struct k8s_answer *answer)
{
    struct k8s_refusal refusal = {0};
    int trouble = answer->err ? answer->err : answer->status;

    if (trouble == marks->trouble)
        return;
    marks->trouble = trouble;
    if (!answer->err)
        k8s_refusal_parse(answer->body, &refusal);
    log_warn("a pod could not be annotated", log_str("pod", pod->name),
             log_num("status", answer->err ? 0 : trouble),
             log_str("error", answer->err && answer->error ? answer->error : refusal.message));
}

/* The API server is away or in trouble: all of them wait. */
static void marks_back_off(struct k8s_marks *marks, const struct k8s_answer *answer)
{
    uint64_t now_ms = clock_elapsed_ms();
    uint32_t random = 0;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
        random = 0;
    /* Those that were under way together have failed together: that is one failure. */
    if (now_ms >= marks->backoff.until_ms || answer->retry_after_ms)
        marks->next_at_ms =
            max_u64(marks->next_at_ms,
                    now_ms + k8s_backoff_next(&marks->backoff, now_ms, answer->retry_after_ms, random));
}

static void marks_patched(void *arg, const struct k8s_answer *answer)
{
    struct marks_pod *pod = arg;
    struct k8s_marks *marks = pod->marks;
    int status = answer->err ? 0 : answer->status;

    pod->request = NULL;
    marks->under_way--;
    if (status == 403) {
        marks_turn_off(marks, answer);
        return;
    }
    if (status == 404) {
        marks_drop(pod);
        marks_arm(marks);
        return;
    }
    if (status == 200) {
        pod->mark = k8s_mark_patched(pod->mark, pod->is_asking_busy);
        marks->trouble = 0;
    } else if (status >= 400 && status < 500 && status != 401 && status != 408 && status != 429) {
        /* It is this pod (409: another one has its name by now). The next list or event tells what it is. */
        if (status != 409)
            marks_complain(marks, pod, answer);
        pod->is_known = false;
    } else {
        marks_complain(marks, pod, answer);
        marks_back_off(marks, answer);
    }
    marks_settle(pod);
    marks_arm(marks);
}

void k8s_marks_want(struct k8s_marks *marks, const char *name, bool is_busy)
{
    struct marks_pod *pod = marks_find(marks, name);

    if (!pod && is_busy && !marks->is_off)
        pod = marks_add(marks, name);
    if (!pod || (pod->is_told && pod->is_busy == is_busy))
        return;
    pod->is_told = true;
    pod->is_busy = is_busy;
    marks_settle(pod);
    marks_arm(marks);
}

void k8s_marks_known(struct k8s_marks *marks, const char *name, const char *uid, struct k8s_mark mark)
{
    struct marks_pod *pod = marks_find(marks, name);
    size_t len = strlen(uid);

    if (len == 0 || len > MARKS_UID_MAX || marks->is_off)
        return;
    if (!pod)
        pod = marks_add(marks, name);
    if (!pod)
        return;
    if (strcmp(pod->uid, uid) != 0)
        marks_cut(pod);
    memcpy(pod->uid, uid, len + 1);
    pod->mark = mark;
    pod->is_known = true;
    pod->list_number = marks->list_number;
    marks_settle(pod);
    marks_arm(marks);
}

void k8s_marks_forget(struct k8s_marks *marks, const char *name)
{
    struct marks_pod *pod = marks_find(marks, name);

    if (pod)
        marks_drop(pod);
    marks_arm(marks);
}

void k8s_marks_list_begin(struct k8s_marks *marks)
{
    marks->list_number++;
}

static void marks_drop_unlisted(struct k8s_marks *marks, struct list *list)
{
    LIST_FOR_EACH (link, list) {
        struct marks_pod *pod = LIST_ENTRY(link, struct marks_pod, link);

        if (pod->list_number == marks->list_number)
            continue;
        /* One with a call may be younger than the list: it is kept until it shows up or the call ends. */
        marks_cut(pod);
        pod->is_known = false;
        marks_settle(pod);
    }
}

void k8s_marks_list_end(struct k8s_marks *marks)
{
    struct list *const lists[] = {&marks->to_mark, &marks->to_relieve, &marks->at_rest};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        marks_drop_unlisted(marks, lists[i]);
    marks_arm(marks);
}

int k8s_marks_new(uv_loop_t *loop, const struct k8s_marks_settings *settings, struct k8s_client *client,
                  struct k8s_marks **ret_marks)
{
    struct k8s_marks *marks;

    assert(settings->per_second_max > 0 && settings->per_second_max <= 1000 && settings->under_way_max > 0);
    marks = calloc(1, sizeof(*marks));
    if (!marks)
        return -ENOMEM;
    marks->settings = *settings;
    marks->client = client;
    map_init(&marks->pods);
    list_init(&marks->to_mark);
    list_init(&marks->to_relieve);
    list_init(&marks->at_rest);
    uv_timer_init(loop, &marks->timer);
    marks->timer.data = marks;
    *ret_marks = marks;
    return 0;
}

static void marks_closed(uv_handle_t *handle)
{
    struct k8s_marks *marks = handle->data;
    void (*stopped)(void *arg) = marks->stopped;
    void *arg = marks->stopped_arg;

    map_release(&marks->pods);
    free(marks);
    stopped(arg);
}

void k8s_marks_stop(struct k8s_marks *marks, void (*stopped)(void *arg), void *arg)
{
    assert(!marks->is_stopping);
    marks->is_stopping = true;
    marks->stopped = stopped;
    marks->stopped_arg = arg;
    marks_drop_all(marks);
    uv_close((uv_handle_t *)&marks->timer, marks_closed);
}
