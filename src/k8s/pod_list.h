/*
 * pod_list.h - the pods of a list that comes in pages. For one thread at a time, whichever; nothing here
 * logs.
 *
 * A page may be tens of megabytes: its items are taken out and parsed one by one, so that beside the text no
 * more than the tree of one pod is ever in memory.
 */
#ifndef K8S_POD_LIST_H
#define K8S_POD_LIST_H

#include "k8s/object.h"
#include "k8s/pod.h"

enum {
    K8S_POD_LIST_MAX = 100000, /* pods; a namespace has at most some thousands */
    K8S_CONTINUE_MAX = 4096,
};

struct k8s_pod_list {
    struct k8s_pod *pods;
    size_t count;
    size_t room;
    struct arena strings;                      /* of the pods */
    char version[K8S_VERSION_MAX + 1];         /* resourceVersion of the last page */
    char continue_token[K8S_CONTINUE_MAX + 1]; /* for the next page; "": that was the last one */
    const char *agent_container;               /* as in pod.h; borrowed */
    size_t skipped;                            /* pods of which only the name could be read */
    char skipped_name[K8S_POD_NAME_MAX + 1];   /* the first of them */
    size_t lacking;                            /* pods without a container of the agent's name */
    char lacking_name[K8S_POD_NAME_MAX + 1];   /* the first of them */
};

void k8s_pod_list_init(struct k8s_pod_list *list, const char *agent_container);

/* Forgets everything. The list can be used again. */
void k8s_pod_list_release(struct k8s_pod_list *list);

/*
 * Adds the pods of a page. An item that cannot be read but for its name is counted, and is in the list as
 * is_unreadable: that pod exists.
 *
 * -EBADMSG: this is no list, or not a whole one, or has an item without a readable name, so that nobody knows
 * which pod it is; -E2BIG: too many pods; -ENOMEM. After a failure the list is good for nothing but its
 * release.
 */
int k8s_pod_list_add_page(struct k8s_pod_list *list, struct slice text) MUST_CHECK;

/* Sorts by name; of pods with the same name the one that came last stays. Fails only with -ENOMEM. */
int k8s_pod_list_finish(struct k8s_pod_list *list) MUST_CHECK;

#endif
