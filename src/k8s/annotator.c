/*
 * annotator.c - the queue of pods to annotate: sends the patches one by one, limits their rate, and
 * handles refusals.
 */
#include "k8s/annotator.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/log_repeat.h"
#include "base/map.h"
#include "base/random.h"
#include "k8s/backoff.h"
#include "k8s/status_object.h"

enum {
    ANNOTATOR_NAME_MAX = 253, /* a DNS name */
    ANNOTATOR_UID_MAX = 64,
    ANNOTATOR_PATH_MAX = 512,
    ANNOTATOR_PATCH_MAX = 1024,
    ANNOTATOR_ANSWER_MAX = 2 * 1024 * 1024, /* the pod comes back; etcd keeps none that is larger */
    ANNOTATOR_TIMEOUT_MS = 10000,
    ANNOTATOR_REFUSED_MS = 300000, /* how long a pod that was refused is left alone */
    ANNOTATOR_REFUSED_EVERY_MS = 3600000,
    ANNOTATOR_FORBIDDEN_MAX = 3, /* pods that are forbidden one after the other: then it is not about pods */
    ANNOTATOR_LISTS = 4,
};

/* Times are elapsed ones. */
enum { ANNOTATOR_MAGIC = 0x616e6e6f, ANNOTATOR_POD_MAGIC = 0x616e706f };

struct k8s_annotator {
    unsigned magic;
    struct k8s_annotator_settings settings;
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
    struct log_repeat refusals; /* about pods that were refused */
    bool is_stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

struct annotator_pod {
    unsigned magic;
    struct map_node node;
    struct list link;
    struct list *list; /* the one of the four that it is in */
    struct k8s_annotator *annotator;
    struct k8s_request *request; /* under way, or NULL */
    struct k8s_annotations mark; /* if it is known */
    bool is_known;
    bool is_told; /* whether it has a call: if not, nothing is taken from it */
    bool is_busy;
    bool is_asking_busy; /* what the request under way brings about */
    uint64_t relieve_at_ms;
    uint64_t refused_until_ms;
    uint64_t forbidden_row; /* in which it was counted; rows begin with 1 */
    uint64_t list_number;   /* of the list that it was last in */
    char uid[ANNOTATOR_UID_MAX + 1];
    char name[];
};

static void annotator_due(uv_timer_t *timer);
static void annotator_patched(void *arg, const struct k8s_answer *answer);

static struct annotator_pod *annotator_find(const struct k8s_annotator *annotator, const char *name)
{
    struct map_node *node = map_get(&annotator->pods, name, strlen(name));

    return node ? CONTAINER_OF(node, struct annotator_pod, node) : NULL;
}

/* Cuts off the patch that is under way, if there is one: whether it has arrived is not known. */
static void annotator_cut(struct annotator_pod *pod)
{
    if (pod->request) {
        k8s_request_cancel(TAKE(pod->request));
        pod->annotator->under_way--;
    }
}

static void annotator_drop(struct annotator_pod *pod)
{
    annotator_cut(pod);
    list_remove(&pod->link);
    map_remove(&pod->annotator->pods, &pod->node);
    pod->magic = 0;
    free(pod);
}

static struct list *annotator_list(struct k8s_annotator *annotator, size_t index)
{
    struct list *const lists[ANNOTATOR_LISTS] = {&annotator->to_mark, &annotator->to_relieve,
                                                 &annotator->refused, &annotator->at_rest};

    return lists[index];
}

static void annotator_drop_all(struct k8s_annotator *annotator)
{
    for (size_t i = 0; i < ANNOTATOR_LISTS; i++) {
        LIST_FOR_EACH (link, annotator_list(annotator, i))
            annotator_drop(LIST_ENTRY(link, struct annotator_pod, link));
    }
}

static struct annotator_pod *annotator_add(struct k8s_annotator *annotator, const char *name)
{
    size_t len = strlen(name);
    struct annotator_pod *pod = NULL;

    if (len == 0 || len > ANNOTATOR_NAME_MAX || strpbrk(name, "/?#%"))
        return NULL; /* no name of Kubernetes' */
    if (annotator->pods.count < K8S_ANNOTATOR_PODS_MAX && map_reserve(&annotator->pods) == 0)
        pod = calloc(1, sizeof(*pod) + len + 1);
    if (!pod) {
        if (!annotator->is_full_told)
            log_warn("some pods with calls cannot be protected from scaling down: there are too many",
                     log_num("pods_max", K8S_ANNOTATOR_PODS_MAX));
        annotator->is_full_told = true;
        return NULL;
    }
    pod->magic = ANNOTATOR_POD_MAGIC;
    pod->annotator = annotator;
    memcpy(pod->name, name, len + 1);
    map_put(&annotator->pods, &pod->node, pod->name, len);
    pod->list = &annotator->at_rest;
    list_append(pod->list, &pod->link);
    return pod;
}

static struct annotator_pod *annotator_first(const struct list *list)
{
    return list_is_empty(list) ? NULL : LIST_ENTRY(list->next, struct annotator_pod, link);
}

/* When something is to be sent next; UINT64_MAX: when something happens first. */
static uint64_t annotator_send_at_ms(const struct k8s_annotator *annotator)
{
    const struct annotator_pod *idle = annotator_first(&annotator->to_relieve);
    unsigned under_way_max = annotator->is_forbidden ? 1 : annotator->settings.under_way_max;

    if (annotator->under_way >= under_way_max)
        return UINT64_MAX;
    if (annotator_first(&annotator->to_mark))
        return annotator->next_at_ms;
    return idle ? max_u64(annotator->next_at_ms, idle->relieve_at_ms) : UINT64_MAX;
}

/* The same for whatever there is to do. */
static uint64_t annotator_next_at_ms(const struct k8s_annotator *annotator)
{
    const struct annotator_pod *refused = annotator_first(&annotator->refused);
    uint64_t at_ms = annotator_send_at_ms(annotator);

    return refused ? min_u64(at_ms, refused->refused_until_ms) : at_ms;
}

static void annotator_arm(struct k8s_annotator *annotator)
{
    uint64_t now_ms = clock_elapsed_ms();
    uint64_t at_ms = annotator_next_at_ms(annotator);

    if (annotator->is_stopping)
        return;
    if (at_ms == UINT64_MAX)
        uv_timer_stop(&annotator->timer);
    else
        uv_timer_start(&annotator->timer, annotator_due, at_ms > now_ms ? at_ms - now_ms : 0, 0);
}

static struct list *annotator_list_of(const struct annotator_pod *pod, uint64_t now_ms)
{
    struct k8s_annotator *annotator = pod->annotator;

    if (pod->request || !pod->is_known || !pod->is_told || k8s_annotations_fits(pod->mark, pod->is_busy))
        return &annotator->at_rest;
    if (pod->refused_until_ms > now_ms)
        return &annotator->refused;
    return pod->is_busy ? &annotator->to_mark : &annotator->to_relieve;
}

/* Among those that were refused it is put by its time: one that had nothing to do meanwhile comes late. */
static struct list *annotator_place_of(const struct annotator_pod *pod, struct list *list)
{
    struct list *place = list;

    while (list == &pod->annotator->refused && place->prev != list &&
           LIST_ENTRY(place->prev, struct annotator_pod, link)->refused_until_ms > pod->refused_until_ms)
        place = place->prev;
    return place;
}

/*
 * Puts the pod where it belongs, by what is and what should be; may free it. A pod keeps its place in the
 * list in which it is already: else one that changes often would never have its turn.
 */
static void annotator_settle(struct annotator_pod *pod)
{
    struct k8s_annotator *annotator = pod->annotator;
    uint64_t now_ms = clock_elapsed_ms();
    struct list *list = annotator_list_of(pod, now_ms);

    if (!pod->is_known && !pod->is_busy) {
        annotator_drop(pod);
        return;
    }
    if (list == pod->list)
        return;
    /* One that was refused has waited for longer than that. */
    if (list == &annotator->to_relieve)
        pod->relieve_at_ms =
            pod->list == &annotator->refused ? now_ms : now_ms + annotator->settings.settle_ms;
    list_remove(&pod->link);
    list_append(annotator_place_of(pod, list), &pod->link);
    pod->list = list;
}

static void annotator_send(struct k8s_annotator *annotator, struct annotator_pod *pod)
{
    char path[ANNOTATOR_PATH_MAX];
    struct k8s_request_spec spec = {
        .method = K8S_PATCH_MERGE,
        .path = path,
        .timeout_ms = ANNOTATOR_TIMEOUT_MS,
        .body_max = ANNOTATOR_ANSWER_MAX,
    };
    struct strbuf body;
    int err;

    snprintf(path, sizeof(path), "/api/v1/namespaces/%s/pods/%s", annotator->settings.namespace_name,
             pod->name);
    strbuf_init(&body, NULL, ANNOTATOR_PATCH_MAX);
    k8s_annotations_write_patch(&body, pod->mark, pod->uid, pod->is_busy);
    spec.body = strbuf_slice(&body);
    pod->is_asking_busy = pod->is_busy;
    err = strbuf_failed(&body)
              ? -ENOMEM
              : k8s_client_send(annotator->client, &spec, annotator_patched, pod, &pod->request);
    strbuf_release(&body);
    if (err < 0)
        pod->request = NULL; /* the client is busy or there is no memory: at the next turn */
    else
        annotator->under_way++;
    annotator->next_at_ms =
        clock_elapsed_ms() + (999 + annotator->settings.per_second_max) / annotator->settings.per_second_max;
    annotator_settle(pod);
}

/* Those that were left alone for long enough get another chance. */
static void annotator_readmit(struct k8s_annotator *annotator, uint64_t now_ms)
{
    struct annotator_pod *pod;

    while ((pod = annotator_first(&annotator->refused)) && pod->refused_until_ms <= now_ms)
        annotator_settle(pod);
}

/*
 * Calls that come and go without end could fill all there is to send with pods to mark. So pods to relieve,
 * which keep their nodes from being scaled down, have every other turn.
 */
static struct annotator_pod *annotator_pick(struct k8s_annotator *annotator, uint64_t now_ms)
{
    struct annotator_pod *busy = annotator_first(&annotator->to_mark);
    struct annotator_pod *idle = annotator_first(&annotator->to_relieve);
    bool is_relief = idle && idle->relieve_at_ms <= now_ms && (!busy || annotator->is_relief_next);

    annotator->is_relief_next = !is_relief;
    return is_relief ? idle : busy;
}

static void annotator_due(uv_timer_t *timer)
{
    struct k8s_annotator *annotator = timer->data;
    uint64_t now_ms = clock_elapsed_ms();

    MAGIC_CHECK(annotator, ANNOTATOR_MAGIC);
    annotator_readmit(annotator, now_ms);
    if (annotator_send_at_ms(annotator) <= now_ms)
        annotator_send(annotator, annotator_pick(annotator, now_ms));
    annotator_arm(annotator);
}

/* It is about this pod: it is left alone for a while. The first one is said, then how many there were. */
static void annotator_refuse(struct annotator_pod *pod, const struct k8s_answer *answer)
{
    struct k8s_annotator *annotator = pod->annotator;
    uint64_t now_ms = clock_elapsed_ms();
    struct k8s_status status;
    size_t told;

    pod->refused_until_ms = now_ms + ANNOTATOR_REFUSED_MS;
    if (annotator->is_forbidden)
        annotator->refusals.count++; /* a line about all of them has been said */
    if (annotator->is_forbidden ||
        !log_repeat_is_due(&annotator->refusals, 1, now_ms, ANNOTATOR_REFUSED_EVERY_MS, &told))
        return;
    k8s_status_parse(answer->body, &status);
    log_warn("a pod could not be annotated: it is not protected from scaling down, and tried again later",
             log_str("pod", pod->name), log_num("status", answer->status), log_str("error", status.message),
             log_num("times", (int64_t)told), log_num("retry_ms", ANNOTATOR_REFUSED_MS));
}

/*
 * 403: a policy may be against one pod. When several different ones were forbidden, and none was not, it is
 * the right that is missing: then it is asked for now and then only, since somebody may give it.
 */
static void annotator_forbid(struct annotator_pod *pod, const struct k8s_answer *answer)
{
    struct k8s_annotator *annotator = pod->annotator;
    struct k8s_status status;

    if (pod->forbidden_row != annotator->row)
        annotator->forbidden++;
    pod->forbidden_row = annotator->row;
    if (annotator->forbidden < ANNOTATOR_FORBIDDEN_MAX)
        return;
    annotator->next_at_ms = max_u64(annotator->next_at_ms, clock_elapsed_ms() + ANNOTATOR_REFUSED_MS);
    if (annotator->is_forbidden)
        return;
    annotator->is_forbidden = true;
    k8s_status_parse(answer->body, &status);
    log_error("pods with calls are not protected from scaling down: the role lacks a verb on pods",
              log_str("verb", "patch"), log_str("resource", "pods"),
              log_str("namespace", annotator->settings.namespace_name), log_str("error", status.message),
              log_str("next", "give the role the verb, or set MARK_BUSY_PODS=false; it is tried again"),
              log_num("retry_ms", ANNOTATOR_REFUSED_MS));
}

static void annotator_succeed(struct annotator_pod *pod)
{
    struct k8s_annotator *annotator = pod->annotator;

    pod->mark = k8s_annotations_patched(pod->mark, pod->is_asking_busy);
    pod->refused_until_ms = 0;
    annotator->trouble = 0;
    annotator->forbidden = 0;
    annotator->row++;
    if (!annotator->is_forbidden)
        return;
    annotator->is_forbidden = false;
    annotator->next_at_ms = clock_elapsed_ms();
    log_info("pods can be annotated again: those with calls are protected from scaling down",
             log_str("namespace", annotator->settings.namespace_name));
}

/* Says each kind of trouble once, until it changes. */
static void annotator_complain(struct k8s_annotator *annotator, const struct annotator_pod *pod,
                               const struct k8s_answer *answer)
{
    struct k8s_status status = {0};
    int trouble = answer->err ? answer->err : answer->status;

    if (trouble == annotator->trouble)
        return;
    annotator->trouble = trouble;
    if (!answer->err)
        k8s_status_parse(answer->body, &status);
    log_warn("a pod could not be annotated", log_str("pod", pod->name),
             log_num("status", answer->err ? 0 : trouble),
             log_str("error", answer->err && answer->error ? answer->error : status.message));
}

/* The API server is away or in trouble: all of them wait. */
static void annotator_back_off(struct k8s_annotator *annotator, const struct k8s_answer *answer)
{
    uint64_t now_ms = clock_elapsed_ms();

    /* Those that were under way together have failed together: that is one failure. */
    if (now_ms >= annotator->backoff.until_ms || answer->retry_after_ms)
        annotator->next_at_ms =
            max_u64(annotator->next_at_ms, now_ms + k8s_backoff_next(&annotator->backoff, now_ms,
                                                                     answer->retry_after_ms, random_u32()));
}

static void annotator_patched(void *arg, const struct k8s_answer *answer)
{
    struct annotator_pod *pod = arg;
    struct k8s_annotator *annotator = pod->annotator;
    int status = answer->err ? 0 : answer->status;

    MAGIC_CHECK(pod, ANNOTATOR_POD_MAGIC);
    pod->request = NULL;
    annotator->under_way--;
    if (status == 404) {
        annotator_drop(pod);
        annotator_arm(annotator);
        return;
    }
    if (status == 200) {
        annotator_succeed(pod);
    } else if (status == 409) {
        /* Another one has its name by now. The next list or event tells what it is. */
        pod->is_known = false;
    } else if (status >= 400 && status < 500 && status != 401 && status != 408 && status != 429) {
        if (status == 403)
            annotator_forbid(pod, answer);
        annotator_refuse(pod, answer);
    } else {
        annotator_complain(annotator, pod, answer);
        annotator_back_off(annotator, answer);
    }
    annotator_settle(pod);
    annotator_arm(annotator);
}

void k8s_annotator_want(struct k8s_annotator *annotator, const char *name, bool is_busy)
{
    struct annotator_pod *pod = annotator_find(annotator, name);

    if (!pod && is_busy)
        pod = annotator_add(annotator, name);
    if (!pod || (pod->is_told && pod->is_busy == is_busy))
        return;
    pod->is_told = true;
    pod->is_busy = is_busy;
    annotator_settle(pod);
    annotator_arm(annotator);
}

void k8s_annotator_known(struct k8s_annotator *annotator, const char *name, const char *uid,
                         struct k8s_annotations mark)
{
    struct annotator_pod *pod = annotator_find(annotator, name);
    size_t len = strlen(uid);

    if (pod && len == 0)
        pod->list_number = annotator->list_number;
    if (len == 0 || len > ANNOTATOR_UID_MAX)
        return;
    if (!pod)
        pod = annotator_add(annotator, name);
    if (!pod)
        return;
    if (strcmp(pod->uid, uid) != 0) {
        annotator_cut(pod);
        pod->refused_until_ms = 0;
    }
    memcpy(pod->uid, uid, len + 1);
    pod->mark = mark;
    pod->is_known = true;
    pod->list_number = annotator->list_number;
    annotator_settle(pod);
    annotator_arm(annotator);
}

void k8s_annotator_forget(struct k8s_annotator *annotator, const char *name)
{
    struct annotator_pod *pod = annotator_find(annotator, name);

    if (pod)
        annotator_drop(pod);
    annotator_arm(annotator);
}

void k8s_annotator_list_begin(struct k8s_annotator *annotator)
{
    annotator->list_number++;
}

static void annotator_drop_unlisted(struct k8s_annotator *annotator, struct list *list)
{
    LIST_FOR_EACH (link, list) {
        struct annotator_pod *pod = LIST_ENTRY(link, struct annotator_pod, link);

        /* One that waits to be relieved may only have lost its label: if it is gone, the patch finds nothing.
         */
        if (pod->list_number == annotator->list_number || pod->list == &annotator->to_relieve)
            continue;
        /* One with a call may be younger than the list: it is kept until it shows up or the call ends. */
        annotator_cut(pod);
        pod->is_known = false;
        annotator_settle(pod);
    }
}

void k8s_annotator_list_end(struct k8s_annotator *annotator)
{
    for (size_t i = 0; i < ANNOTATOR_LISTS; i++)
        annotator_drop_unlisted(annotator, annotator_list(annotator, i));
    annotator_arm(annotator);
}

int k8s_annotator_new(uv_loop_t *loop, const struct k8s_annotator_settings *settings,
                      struct k8s_client *client, struct k8s_annotator **ret_marks)
{
    struct k8s_annotator *annotator;

    assert(settings->per_second_max > 0 && settings->per_second_max <= 1000 && settings->under_way_max > 0);
    annotator = calloc(1, sizeof(*annotator));
    if (!annotator)
        return -ENOMEM;
    annotator->magic = ANNOTATOR_MAGIC;
    annotator->settings = *settings;
    annotator->client = client;
    map_init(&annotator->pods);
    for (size_t i = 0; i < ANNOTATOR_LISTS; i++)
        list_init(annotator_list(annotator, i));
    annotator->row = 1;
    uv_timer_init(loop, &annotator->timer);
    annotator->timer.data = annotator;
    *ret_marks = annotator;
    return 0;
}

static void annotator_closed(uv_handle_t *handle)
{
    struct k8s_annotator *annotator = handle->data;
    void (*stopped)(void *arg) = annotator->stopped;
    void *arg = annotator->stopped_arg;

    MAGIC_CHECK(annotator, ANNOTATOR_MAGIC);
    map_release(&annotator->pods);
    annotator->magic = 0;
    free(annotator);
    stopped(arg);
}

void k8s_annotator_stop(struct k8s_annotator *annotator, void (*stopped)(void *arg), void *arg)
{
    assert(!annotator->is_stopping);
    annotator->is_stopping = true;
    annotator->stopped = stopped;
    annotator->stopped_arg = arg;
    annotator_drop_all(annotator);
    uv_close((uv_handle_t *)&annotator->timer, annotator_closed);
}
