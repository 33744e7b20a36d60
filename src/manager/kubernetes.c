#include <stdio.h>

#include "base/log.h"
#include "manager/manager_internal.h"

/* The source kubernetes: what list and watch tell becomes the picture, and changes of it. */

enum {
    KUBE_LIST_TIMEOUT_MS = 60000,
    KUBE_STALL_MS = 90000, /* the server sends a bookmark every minute */
    KUBE_UNUSABLE_EVERY_MS = 60000,
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
    };
}

/* Pods are called by a DNS label in URLs; Kubernetes allows more. Each event of such a pod comes here. */
static bool kube_is_usable(struct manager *manager, const struct k8s_pod *pod)
{
    uint64_t now_ms = uv_now(manager->loop);

    if (name_is_pod(pod->name, strlen(pod->name)))
        return true;
    manager->unusable++;
    if (manager->unusable_told_ms && now_ms - manager->unusable_told_ms < KUBE_UNUSABLE_EVERY_MS)
        return false;
    log_warn("a pod is left out: its name cannot be used", log_str("pod", pod->name),
             log_str("rule", "it " POD_NAME_RULE), log_num("times", (int64_t)manager->unusable));
    manager->unusable = 0;
    manager->unusable_told_ms = max_u64(now_ms, 1);
    return false;
}

/* The list is not believed, or cannot be kept: what is known stays, and another one is asked for. */
static void kube_ask_again(struct manager *manager)
{
    metrics_add(manager->kube_failures, 1);
    k8s_pods_relist(manager->kube_pods);
}

static void kube_tell_marks(struct manager *manager, const struct k8s_pod *pods, size_t count)
{
    if (!manager->marks)
        return;
    k8s_marks_list_begin(manager->marks);
    for (size_t i = 0; i < count; i++)
        k8s_marks_known(manager->marks, pods[i].name, pods[i].uid, pods[i].mark);
    k8s_marks_list_end(manager->marks);
}

static void kube_listed(void *arg, const struct k8s_pod *pods, size_t count)
{
    struct manager *manager = arg;
    bool is_news = !manager->has_picture || manager->picture.count > 0;

    if (count == 0 && is_news && !manager->empty_seen) {
        /*
         * One empty list may be a mistake of somebody's, and would end all calls. The second one is asked for
         * at the next full sync: at once it would only repeat the mistake.
         */
        manager->empty_seen = true;
        log_warn("Kubernetes lists no pods: what the store knows stays until a second list confirms it",
                 log_str("namespace", manager->settings.kube.namespace_name),
                 log_str("selector", manager->settings.kube.label_selector),
                 log_num("confirm_ms", (int64_t)manager->settings.reconcile_interval_ms));
        sync_put_off(manager);
        return;
    }
    manager->empty_seen = false;
    kube_tell_marks(manager, pods, count);
    picture_list_begin(&manager->picture);
    for (size_t i = 0; i < count; i++) {
        struct kube_texts texts;
        struct pod_seen seen = kube_seen(manager, &pods[i], &texts);

        if (kube_is_usable(manager, &pods[i]) && picture_see(&manager->picture, &seen) < 0) {
            log_error("no memory for the list of pods");
            kube_ask_again(manager);
            return;
        }
    }
    picture_list_end(&manager->picture);
    if (!manager->has_picture)
        log_info("pods listed", log_num("pods", (int64_t)count));
    manager->has_picture = true;
    sync_want_full(manager);
}

static void kube_changed(void *arg, const struct k8s_pod *pod)
{
    struct manager *manager = arg;
    struct kube_texts texts;
    struct pod_seen seen = kube_seen(manager, pod, &texts);

    if (!kube_is_usable(manager, pod))
        return;
    if (manager->marks)
        k8s_marks_known(manager->marks, pod->name, pod->uid, pod->mark);
    if (picture_see_change(&manager->picture, &seen) < 0) {
        log_error("no memory for a pod", log_str("pod", pod->name));
        kube_ask_again(manager);
        return;
    }
    /* There are pods after all: which ones, a list says. */
    if (manager->empty_seen)
        k8s_pods_relist(manager->kube_pods);
    task_kick(&manager->sync);
}

static void kube_gone(void *arg, const struct k8s_pod *pod)
{
    struct manager *manager = arg;
    const struct picture_pod *known = picture_find(&manager->picture, pod->name);
    size_t uid_len = strlen(pod->uid);

    /* The one that is gone may have a successor of the same name already. */
    if (!known || strncmp(known->incarnation, pod->uid, uid_len) != 0 || known->incarnation[uid_len] != ':')
        return;
    if (manager->marks)
        k8s_marks_forget(manager->marks, pod->name);
    picture_gone(&manager->picture, pod->name);
    task_kick(&manager->sync);
}

static void kube_trouble(void *arg)
{
    struct manager *manager = arg;

    metrics_add(manager->kube_failures, 1);
}

int kube_start(struct manager *manager)
{
    const struct k8s_pods_settings settings = {
        .namespace_name = manager->settings.kube.namespace_name,
        .label_selector = manager->settings.kube.label_selector,
        .agent_container = manager->settings.kube.agent_container,
        .list_timeout_ms = KUBE_LIST_TIMEOUT_MS,
        .stall_ms = KUBE_STALL_MS,
        .on_list = kube_listed,
        .on_seen = kube_changed,
        .on_gone = kube_gone,
        .on_trouble = kube_trouble,
        .arg = manager,
    };

    return k8s_pods_new(manager->loop, &settings, manager->settings.kube.client, &manager->kube_pods);
}

void kube_confirm_empty(struct manager *manager)
{
    if (manager->empty_seen)
        k8s_pods_relist(manager->kube_pods);
}

unsigned kube_parts(const struct manager *manager)
{
    return manager->kube_pods != NULL;
}

void kube_stop(struct manager *manager, void (*stopped)(void *arg), void *arg)
{
    if (manager->kube_pods)
        k8s_pods_stop(TAKE(manager->kube_pods), stopped, arg);
}
