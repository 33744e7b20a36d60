/*
 * kubernetes.c - the pod source Kubernetes: turns lists and watch events into the known pods.
 *
 * An empty list, or a first list that would end many calls, is believed only when a second list
 * confirms it. Pods that carry calls and are no longer shown are asked for by name.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "manager/manager_internal.h"

enum {
    KUBE_LIST_TIMEOUT_MS = 60000,
    KUBE_STALL_MS = 90000, /* the server sends a bookmark every minute */
    KUBE_SAID_EVERY_MS = 60000,
    KUBE_ADDRESS_MAX = K8S_POD_IP_MAX + sizeof("[]:65535"),
};

/* Room for the texts that a k8s_pod has in another form. */
struct kube_texts {
    char address[KUBE_ADDRESS_MAX];
    char incarnation[K8S_POD_INCARNATION_MAX + 1];
};

static struct pod_seen kube_seen(const struct manager *manager, const struct k8s_pod *pod,
                                 struct kube_texts *texts)
{
    bool is_v6 = strchr(pod->ip, ':') != NULL;

    texts->address[0] = '\0';
    if (pod->ip[0])
        snprintf(texts->address, sizeof(texts->address), is_v6 ? "[%s]:%u" : "%s:%u", pod->ip,
                 manager->settings.kube.agent_port);
    k8s_pod_incarnation(pod, texts->incarnation);
    return (struct pod_seen){
        .name = pod->name,
        .address = texts->address,
        .incarnation = texts->incarnation,
        .is_ready = pod->is_ready,
        .is_terminating = pod->is_terminating,
        .started_at_ms = pod->started_at_ms,
    };
}

/* Pods are called by a DNS label in URLs; Kubernetes allows more. Each event of such a pod comes here. */
static bool kube_is_usable(struct manager *manager, const struct k8s_pod *pod)
{
    size_t times;

    if (name_is_pod(pod->name, strlen(pod->name)))
        return true;
    if (log_repeat_is_due(&manager->unusable, 1, uv_now(manager->loop), KUBE_SAID_EVERY_MS, &times))
        log_warn("a pod is left out: its name cannot be used", log_str("pod", pod->name),
                 log_str("rule", "it " POD_NAME_RULE), log_num("times", (int64_t)times));
    return false;
}

/* The list is not believed, or cannot be kept: what is known stays, and another one is asked for. */
static void kube_ask_again(struct manager *manager)
{
    metrics_add(manager->kube_failures, 1);
    k8s_pod_watch_relist(manager->kube_pods);
}

static void kube_tell_marks(struct manager *manager, const struct k8s_pod *pods, size_t count)
{
    if (!manager->marks)
        return;
    k8s_annotator_list_begin(manager->marks);
    for (size_t i = 0; i < count; i++)
        k8s_annotator_known(manager->marks, pods[i].name, pods[i].uid, pods[i].mark);
    k8s_annotator_list_end(manager->marks);
}

/* One pod of a list. A pod that is over is as one that is not there: it is asked for if it carries calls. */
static int kube_take(struct manager *manager, const struct k8s_pod *pod)
{
    struct kube_texts texts;
    struct pod_seen seen;

    if (!kube_is_usable(manager, pod) || pod->has_terminated)
        return 0;
    absent_drop(&manager->absent, pod->name);
    if (pod->is_unreadable)
        return known_pods_keep(&manager->known_pods, pod->name);
    seen = kube_seen(manager, pod, &texts);
    return known_pods_see(&manager->known_pods, &seen);
}

void kube_doubt(struct manager *manager, enum list_doubt doubt)
{
    manager->doubt = doubt;
    sync_put_off(manager);
    manager->confirm_at_ms = manager->sync_due_ms;
}

/*
 * Would it confirm what is in doubt before its time? A watch that breaks makes us list again at once, and the
 * mistake is still there then. The next full sync asks for another list.
 */
static bool kube_is_early(const struct manager *manager, size_t count)
{
    bool confirms = manager->doubt == LIST_LOSES_CALLS || (manager->doubt == LIST_EMPTY && count == 0);

    return confirms && clock_elapsed_ms() < manager->confirm_at_ms;
}

/* A second list has confirmed it. */
static void kube_log_none(const struct manager *manager)
{
    log_error(
        "no pod in the namespace matches the selector: calls are refused until one does; check NAMESPACE "
        "and POD_LABEL_SELECTOR",
        log_str("namespace", manager->settings.kube.namespace_name),
        log_str("selector", manager->settings.kube.label_selector));
}

static void kube_listed(void *arg, const struct k8s_pod *pods, size_t count)
{
    struct manager *manager = arg;
    bool is_news = !manager->knows_pods || manager->known_pods.count > 0;

    if (count == 0)
        metrics_add(manager->empty_lists, 1);
    if (kube_is_early(manager, count))
        return;
    if (count == 0 && is_news && manager->doubt == LIST_BELIEVED) {
        /*
         * One empty list may be a mistake of somebody's, and would end all calls. The second one is asked for
         * at the next full sync: at once it would only repeat the mistake.
         */
        log_warn(
            "Kubernetes lists no pods: what the store knows stays until a second list confirms it",
            log_str("namespace", manager->settings.kube.namespace_name),
            log_str("selector", manager->settings.kube.label_selector),
            log_str("effect", "without a pod, calls are refused; check NAMESPACE and POD_LABEL_SELECTOR"),
            log_num("confirm_ms", (int64_t)manager->settings.reconcile_interval_ms));
        kube_doubt(manager, LIST_EMPTY);
        return;
    }
    if (count == 0 && is_news)
        kube_log_none(manager);
    manager->is_confirmed = manager->doubt == LIST_LOSES_CALLS || count == 0;
    manager->doubt = LIST_BELIEVED;
    kube_tell_marks(manager, pods, count);
    known_pods_list_begin(&manager->known_pods);
    for (size_t i = 0; i < count; i++) {
        if (kube_take(manager, &pods[i]) < 0) {
            log_error("no memory for the list of pods");
            kube_ask_again(manager);
            return;
        }
    }
    known_pods_list_end(&manager->known_pods);
    if (!manager->knows_pods)
        log_info("pods listed", log_num("pods", (int64_t)count));
    manager->knows_pods = true;
    manager->unlisted = 0;
    sync_want_full(manager);
}

/* A pod whose phase is Failed or Succeeded is still there, but nothing runs in it. */
static int kube_take_change(struct manager *manager, const struct k8s_pod *pod)
{
    struct kube_texts texts;
    struct pod_seen seen = kube_seen(manager, pod, &texts);

    return pod->has_terminated ? known_pods_gone(&manager->known_pods, pod->name)
                               : known_pods_see_change(&manager->known_pods, &seen);
}

static void kube_changed(void *arg, const struct k8s_pod *pod)
{
    struct manager *manager = arg;

    if (!kube_is_usable(manager, pod))
        return;
    absent_drop(&manager->absent, pod->name);
    if (manager->marks && pod->has_terminated)
        k8s_annotator_forget(manager->marks, pod->name);
    else if (manager->marks)
        k8s_annotator_known(manager->marks, pod->name, pod->uid, pod->mark);
    if (kube_take_change(manager, pod) < 0) {
        log_error("no memory for a pod", log_str("pod", pod->name));
        kube_ask_again(manager);
        return;
    }
    /* There are pods after all: which ones, a list says. */
    if (manager->doubt == LIST_EMPTY)
        k8s_pod_watch_relist(manager->kube_pods);
    task_kick(&manager->sync);
}

/* Is it that pod, or another one of the same name? */
static bool kube_is_same(const char *incarnation, const struct k8s_pod *pod)
{
    size_t uid_len = strlen(pod->uid);

    return strncmp(incarnation, pod->uid, uid_len) == 0 && incarnation[uid_len] == ':';
}

/*
 * A pod that lives on without its label is shown to nobody who could take our marks off later, and they would
 * keep its node from being used for anything else.
 */
static void kube_unmark(struct manager *manager, const struct k8s_pod *pod)
{
    if (!manager->marks)
        return;
    if (pod->is_terminating) {
        k8s_annotator_forget(manager->marks, pod->name);
        return;
    }
    k8s_annotator_known(manager->marks, pod->name, pod->uid, pod->mark);
    k8s_annotator_want(manager->marks, pod->name, false);
}

/* Deleted, or without the label that makes it one of ours. */
static void kube_gone(void *arg, const struct k8s_pod *pod)
{
    struct manager *manager = arg;
    const struct known_pod *known = known_pods_find(&manager->known_pods, pod->name);

    /* The one that is gone may have a successor of the same name already. */
    if (!known || (known->incarnation && !kube_is_same(known->incarnation, pod)))
        return;
    kube_unmark(manager, pod);
    known_pods_absent(&manager->known_pods, pod->name);
    task_kick(&manager->sync);
}

/*
 * The pod runs: then the calls that it has got since it started are its own. Or nothing runs there: then no
 * call can live. It has got none since the question was sent, because it was drained or not ready before.
 */
static int kube_take_answer(struct manager *manager, const char *name, const struct k8s_pod *pod)
{
    struct kube_texts texts;
    struct pod_seen seen;

    if (!pod || pod->has_terminated)
        return known_pods_gone(&manager->known_pods, name);
    seen = kube_seen(manager, pod, &texts);
    if (!known_pods_runs(&seen))
        return known_pods_gone(&manager->known_pods, name);
    if (known_pods_find(&manager->known_pods, name))
        return known_pods_see_change(&manager->known_pods, &seen);
    log_debug("a pod with calls is not listed but exists: it drains", log_str("pod", name));
    return known_pods_outside(&manager->known_pods, &seen);
}

/* The API server has said what became of a pod that carries calls. */
static void kube_found(void *arg, const char *name, int err, const struct k8s_pod *pod, const char *error)
{
    struct manager *manager = arg;
    size_t times;

    if (err && err != -ENOENT) {
        if (log_repeat_is_due(&manager->unanswered, 1, uv_now(manager->loop), KUBE_SAID_EVERY_MS, &times))
            log_warn(
                "it is not known whether a pod with calls still exists: it gets no new one, its calls stay, "
                "and the next full sync asks again",
                log_str("pod", name), log_str("error", error), log_num("times", (int64_t)times));
    } else if (kube_take_answer(manager, name, pod) < 0) {
        log_error("no memory for a pod", log_str("pod", name));
    }
    task_kick(&manager->sync);
}

void kube_ask(struct manager *manager, const char *name)
{
    const struct known_pod *known;

    if (!manager->kube_pods)
        return; /* it is being stopped: whoever leads next asks */
    known = known_pods_find(&manager->known_pods, name);
    if (known && (known->runs || known->is_kept))
        return; /* it is back, and the store will hear so */
    if (absent_ask(&manager->absent, name) < 0)
        log_error("no memory for a pod", log_str("pod", name)); /* the next full sync names it again */
}

static void kube_trouble(void *arg)
{
    struct manager *manager = arg;

    metrics_add(manager->kube_failures, 1);
}

static void kube_heard(void *arg)
{
    struct manager *manager = arg;

    metrics_set(manager->watch_heard, (double)clock_wall_ms() / 1000);
}

int kube_start(struct manager *manager)
{
    const struct k8s_pod_watch_settings settings = {
        .namespace_name = manager->settings.kube.namespace_name,
        .label_selector = manager->settings.kube.label_selector,
        .agent_container = manager->settings.kube.agent_container,
        .list_timeout_ms = KUBE_LIST_TIMEOUT_MS,
        .stall_ms = KUBE_STALL_MS,
        .on_list = kube_listed,
        .on_seen = kube_changed,
        .on_gone = kube_gone,
        .on_trouble = kube_trouble,
        .on_heard = kube_heard,
        .arg = manager,
    };

    manager->absent = (struct absent){
        .client = manager->settings.kube.client,
        .namespace_name = manager->settings.kube.namespace_name,
        .agent_container = manager->settings.kube.agent_container,
        .found = kube_found,
        .arg = manager,
    };
    absent_init(&manager->absent);
    return k8s_pod_watch_new(manager->loop, &settings, manager->settings.kube.client, &manager->kube_pods);
}

bool kube_relist(struct manager *manager)
{
    if (manager->kube_pods)
        k8s_pod_watch_relist(manager->kube_pods);
    return manager->kube_pods != NULL;
}

unsigned kube_parts(const struct manager *manager)
{
    return manager->kube_pods != NULL;
}

void kube_stop(struct manager *manager, void (*stopped)(void *arg), void *arg)
{
    if (!manager->kube_pods)
        return;
    absent_release(&manager->absent);
    k8s_pod_watch_stop(TAKE(manager->kube_pods), stopped, arg);
}
