/*
 * pod_event.c - parses one event of a watch.
 */
#include "k8s/pod_event.h"

#include "base/json.h"

static const struct {
    const char *name;
    enum k8s_pod_event_type type;
} event_types[] = {
    {"ADDED", K8S_POD_EVENT_SEEN},        {"MODIFIED", K8S_POD_EVENT_SEEN}, {"DELETED", K8S_POD_EVENT_GONE},
    {"BOOKMARK", K8S_POD_EVENT_BOOKMARK}, {"ERROR", K8S_POD_EVENT_ERROR},
};

static enum k8s_pod_event_type event_type(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(event_types); i++) {
        if (strcmp(event_types[i].name, name) == 0)
            return event_types[i].type;
    }
    return K8S_POD_EVENT_SKIPPED;
}

int k8s_pod_event_parse(struct slice text, const char *agent_container, struct arena *arena,
                        struct k8s_pod_event *ret_event)
{
    const cJSON *root = k8s_object_parse(arena, text);
    const cJSON *object = k8s_object_get(root, "object");
    const char *type = json_get_string(root, "type");
    struct k8s_pod_event event = {0};
    int err = 0;

    if (!type || !cJSON_IsObject(object))
        return -EBADMSG;
    event.type = event_type(type);
    if (event.type == K8S_POD_EVENT_ERROR) {
        k8s_status_read(object, &event.status);
    } else {
        event.version = k8s_object_version(object);
        if (event.type == K8S_POD_EVENT_SEEN || event.type == K8S_POD_EVENT_GONE)
            err = k8s_pod_parse(object, agent_container, arena, &event.pod);
    }
    if (err == -EINVAL) {
        event.type = K8S_POD_EVENT_SKIPPED;
        err = 0;
    }
    if (event.type == K8S_POD_EVENT_SKIPPED)
        k8s_object_name(object, event.skipped_name, sizeof(event.skipped_name));
    if (err == 0)
        *ret_event = event;
    return err;
}
