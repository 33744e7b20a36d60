/*
 * marks.c - the queue of pods to annotate: sends the patches one by one, limits their rate, and
 * handles refusals.
 */
#include "k8s/marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/complaint.h"
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
    MARKS_REFUSED_MS = 300000, /* how long a pod that was refused is left alone */
    MARKS_REFUSED_EVERY_MS = 3600000,
    MARKS_FORBIDDEN_MAX = 3, /* pods that are forbidden one after the other: then it is not about pods */
    MARKS_LISTS = 4,
};

/* Times are elapsed ones. */
struct k8s_marks {
    struct k8s_marks_settings settings;
    struct k8s_client *client;
    uv_timer_t timer;
    struct map pods;
    struct list to_mark;    /* pods with a call and without a mark, oldest first */
    struct list to_relieve; /* the other way round; what is first has waited longest */
    struct list refused;    /* of both kinds, those that are left alone; what is first is due first */
    struct list at_rest;    /* all the others */
    bool is_relief_next;    /* if there are some of both kinds */
    unsigned under_way;
    uint64_t next_at_ms; /* not to send faster than we may, or while the server is in trouble */
    struct k8s_backoff backoff;
    int trouble; /* a status or a negative errno, as it was last told; 0: none */
    uint64_t list_number;
    bool is_full_told;
    unsigned forbidden;         /* different pods, since the last success */
    uint64_t row;               /* of those; a success begins another one */
    bool is_forbidden;          /* the right is missing: all wait, and one at a time is tried */
    struct complaint complaint; /* about pods that were refused */
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

struct marks_pod {
    struct map_node node;
    struct list link;
    struct list *list; /* the one of the four that it is in */
    struct k8s_marks *marks;
    struct k8s_request *request; /* under way, or NULL */
    struct k8s_mark mark;        /* if it is known */
    bool is_known;
    bool is_told; /* whether it has a call: if not, nothing is taken from it */
    bool is_busy;
    bool is_asking_busy; /* what the request under way brings about */
    uint64_t relieve_at_ms;
    uint64_t refused_until_ms;
    uint64_t forbidden_row; /* in which it was counted; rows begin with 1 */
    uint64_t list_number;   /* of the list that it was last in */
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

static struct list *marks_list(struct k8s_marks *marks, size_t index)
{
    struct list *const lists[MARKS_LISTS] = {&marks->to_mark, &marks->to_relieve, &marks->refused,
                                             &marks->at_rest};

    return lists[index];
}

static void marks_drop_all(struct k8s_marks *marks)
{
    for (size_t i = 0; i < MARKS_LISTS; i++) {
        LIST_FOR_EACH (link, marks_list(marks, i))
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

static struct marks_pod *marks_first(const struct list *list)
{
    return list_is_empty(list) ? NULL : LIST_ENTRY(list->next, struct marks_pod, link);
}

/* When something is to be sent next; UINT64_MAX: when something happens first. */
static uint64_t marks_send_at_ms(const struct k8s_marks *marks)
{
    const struct marks_pod *idle = marks_first(&marks->to_relieve);
    unsigned under_way_max = marks->is_forbidden ? 1 : marks->settings.under_way_max;

    if (marks->under_way >= under_way_max)
        return UINT64_MAX;
    if (marks_first(&marks->to_mark))
        return marks->next_at_ms;
    return idle ? max_u64(marks->next_at_ms, idle->relieve_at_ms) : UINT64_MAX;
}

/* The same for whatever there is to do. */
static uint64_t marks_next_at_ms(const struct k8s_marks *marks)
{
    const struct marks_pod *refused = marks_first(&marks->refused);
    uint64_t at_ms = marks_send_at_ms(marks);

    return refused ? min_u64(at_ms, refused->refused_until_ms) : at_ms;
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

static struct list *marks_list_of(const struct marks_pod *pod, uint64_t now_ms)
{
    struct k8s_marks *marks = pod->marks;

    if (pod->request || !pod->is_known || !pod->is_told || k8s_mark_fits(pod->mark, pod->is_busy))
        return &marks->at_rest;
    if (pod->refused_until_ms > now_ms)
        return &marks->refused;
    return pod->is_busy ? &marks->to_mark : &marks->to_relieve;
}

/* Among those that were refused it is put by its time: one that had nothing to do meanwhile comes late. */
static struct list *marks_place_of(const struct marks_pod *pod, struct list *list)
{
    struct list *place = list;

    while (list == &pod->marks->refused && place->prev != list &&
           LIST_ENTRY(place->prev, struct marks_pod, link)->refused_until_ms > pod->refused_until_ms)
        place = place->prev;
    return place;
}

/*
 * Puts the pod where it belongs, by what is and what should be; may free it. A pod keeps its place in the
 * list in which it is already: else one that changes often would never have its turn.
 */
static void marks_settle(struct marks_pod *pod)
{
    struct k8s_marks *marks = pod->marks;
    uint64_t now_ms = clock_elapsed_ms();
    struct list *list = marks_list_of(pod, now_ms);

    if (!pod->is_known && !pod->is_busy) {
        marks_drop(pod);
        return;
    }
    if (list == pod->list)
        return;
    /* One that was refused has waited for longer than that. */
    if (list == &marks->to_relieve)
        pod->relieve_at_ms = pod->list == &marks->refused ? now_ms : now_ms + marks->settings.settle_ms;
    list_remove(&pod->link);
    list_append(marks_place_of(pod, list), &pod->link);
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

/* Those that were left alone for long enough get another chance. */
static void marks_readmit(struct k8s_marks *marks, uint64_t now_ms)
{
    struct marks_pod *pod;

    while ((pod = marks_first(&marks->refused)) && pod->refused_until_ms <= now_ms)
        marks_settle(pod);
}

/*
 * Calls that come and go without end could fill all there is to send with pods to mark. So pods to relieve,
 * which keep their nodes from being scaled down, have every other turn.
 */
static struct marks_pod *marks_pick(struct k8s_marks *marks, uint64_t now_ms)
{
    struct marks_pod *busy = marks_first(&marks->to_mark);
    struct marks_pod *idle = marks_first(&marks->to_relieve);
    bool is_relief = idle && idle->relieve_at_ms <= now_ms && (!busy || marks->is_relief_next);

    marks->is_relief_next = !is_relief;
    return is_relief ? idle : busy;
}

static void marks_due(uv_timer_t *timer)
{
    struct k8s_marks *marks = timer->data;
    uint64_t now_ms = clock_elapsed_ms();

    marks_readmit(marks, now_ms);
    if (marks_send_at_ms(marks) <= now_ms)
        marks_send(marks, marks_pick(marks, now_ms));
    marks_arm(marks);
}

/* It is about this pod: it is left alone for a while. The first one is said, then how many there were. */
static void marks_refuse(struct marks_pod *pod, const struct k8s_answer *answer)
{
    struct k8s_marks *marks = pod->marks;
    uint64_t now_ms = clock_elapsed_ms();
    struct k8s_refusal refusal;
    size_t told;

    pod->refused_until_ms = now_ms + MARKS_REFUSED_MS;
    if (marks->is_forbidden)
        marks->complaint.count++; /* a line about all of them has been said */
    if (marks->is_forbidden || !complaint_is_due(&marks->complaint, 1, now_ms, MARKS_REFUSED_EVERY_MS, &told))
        return;
    k8s_refusal_parse(answer->body, &refusal);
    log_warn("a pod could not be annotated: it is not protected from scaling down, and tried again later",
             log_str("pod", pod->name), log_num("status", answer->status), log_str("error", refusal.message),
             log_num("times", (int64_t)told), log_num("retry_ms", MARKS_REFUSED_MS));
}

/*
 * 403: a policy may be against one pod. When several different ones were forbidden, and none was not, it is
 * the right that is missing: then it is asked for now and then only, since somebody may give it.
 */
static void marks_forbid(struct marks_pod *pod, const struct k8s_answer *answer)
{
    struct k8s_marks *marks = pod->marks;
    struct k8s_refusal refusal;

    if (pod->forbidden_row != marks->row)
        marks->forbidden++;
    pod->forbidden_row = marks->row;
    if (marks->forbidden < MARKS_FORBIDDEN_MAX)
        return;
    marks->next_at_ms = max_u64(marks->next_at_ms, clock_elapsed_ms() + MARKS_REFUSED_MS);
    if (marks->is_forbidden)
        return;
    marks->is_forbidden = true;
    k8s_refusal_parse(answer->body, &refusal);
    log_warn("pods with calls are not protected from scaling down: the role lacks a verb on pods",
             log_str("verb", "patch"), log_str("resource", "pods"),
             log_str("namespace", marks->settings.namespace_name), log_str("error", refusal.message),
             log_str("next", "it is tried again"), log_num("retry_ms", MARKS_REFUSED_MS));
}

static void marks_succeed(struct marks_pod *pod)
{
    struct k8s_marks *marks = pod->marks;

    pod->mark = k8s_mark_patched(pod->mark, pod->is_asking_busy);
    pod->refused_until_ms = 0;
    marks->trouble = 0;
    marks->forbidden = 0;
    marks->row++;
    if (!marks->is_forbidden)
        return;
    marks->is_forbidden = false;
    marks->next_at_ms = clock_elapsed_ms();
    log_info("pods can be annotated again: those with calls are protected from scaling down",
             log_str("namespace", marks->settings.namespace_name));
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
    if (status == 404) {
        marks_drop(pod);
        marks_arm(marks);
        return;
    }
    if (status == 200) {
        marks_succeed(pod);
    } else if (status == 409) {
        /* Another one has its name by now. The next list or event tells what it is. */
        pod->is_known = false;
    } else if (status >= 400 && status < 500 && status != 401 && status != 408 && status != 429) {
        if (status == 403)
            marks_forbid(pod, answer);
        marks_refuse(pod, answer);
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

    if (!pod && is_busy)
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

    if (pod && len == 0)
        pod->list_number = marks->list_number;
    if (len == 0 || len > MARKS_UID_MAX)
        return;
    if (!pod)
        pod = marks_add(marks, name);
    if (!pod)
        return;
    if (strcmp(pod->uid, uid) != 0) {
        marks_cut(pod);
        pod->refused_until_ms = 0;
    }
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

        /* One that waits to be relieved may only have lost its label: if it is gone, the patch finds nothing.
         */
        if (pod->list_number == marks->list_number || pod->list == &marks->to_relieve)
            continue;
        /* One with a call may be younger than the list: it is kept until it shows up or the call ends. */
        marks_cut(pod);
        pod->is_known = false;
        marks_settle(pod);
    }
}

void k8s_marks_list_end(struct k8s_marks *marks)
{
    for (size_t i = 0; i < MARKS_LISTS; i++)
        marks_drop_unlisted(marks, marks_list(marks, i));
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
    for (size_t i = 0; i < MARKS_LISTS; i++)
        list_init(marks_list(marks, i));
    marks->row = 1;
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
