#include "k8s/pod.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "k8s/object.h"

static bool is_between(char c, char first, char last)
{
    return c >= first && c <= last;
}

static bool is_name(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || len > K8S_POD_NAME_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_between(text[i], 'a', 'z') && !is_between(text[i], '0', '9') && text[i] != '-' &&
            text[i] != '.')
            return false;
    }
    return true;
}

/* Opaque, but it becomes part of what others show and store. */
static bool is_uid(const char *text)
{
    size_t len = strlen(text);

    if (len == 0 || len > K8S_POD_UID_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_between(text[i], 'a', 'z') && !is_between(text[i], 'A', 'Z') &&
            !is_between(text[i], '0', '9') && text[i] != '-' && text[i] != '.' && text[i] != '_')
            return false;
    }
    return true;
}

static bool is_ip(const char *text)
{
    struct in6_addr address;

    return strlen(text) <= K8S_POD_IP_MAX &&
           (inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1);
}

/* The string member, "" if it is absent. -EINVAL if it is anything else. */
static int pod_text(const cJSON *object, const char *key, const char **ret_text)
{
    const cJSON *member = k8s_object_get(object, key);

    if (member && !cJSON_IsString(member))
        return -EINVAL;
    *ret_text = member ? member->valuestring : "";
    return 0;
}

/* The member of that type, NULL if it is absent. -EINVAL if it is of another type. */
static int pod_member(const cJSON *object, const char *key, cJSON_bool (*is_type)(const cJSON *item),
                      const cJSON **ret_member)
{
    const cJSON *member = k8s_object_get(object, key);

    if (member && !is_type(member))
        return -EINVAL;
    *ret_member = member;
    return 0;
}

static int pod_parse_restarts(const cJSON *status, uint64_t *ret_restarts)
{
    const cJSON *containers, *container;
    uint64_t restarts = 0;

    if (pod_member(status, "containerStatuses", cJSON_IsArray, &containers) < 0)
        return -EINVAL;
    cJSON_ArrayForEach(container, containers)
    {
        const cJSON *count;

        if (!cJSON_IsObject(container) || pod_member(container, "restartCount", cJSON_IsNumber, &count) < 0)
            return -EINVAL;
        if (!count)
            continue;
        /* An int32 of the API; the sum of what fits into memory fits into 64 bits. */
        if (!(count->valuedouble >= 0 && count->valuedouble <= INT32_MAX) ||
            count->valuedouble != (double)(int32_t)count->valuedouble)
            return -EINVAL;
        restarts += (uint64_t)count->valuedouble;
    }
    *ret_restarts = restarts;
    return 0;
}

static int pod_parse_condition(const cJSON *status, bool *ret_is_ready)
{
    const cJSON *conditions, *condition;
    bool is_ready = false;

    if (pod_member(status, "conditions", cJSON_IsArray, &conditions) < 0)
        return -EINVAL;
    cJSON_ArrayForEach(condition, conditions)
    {
        const char *type, *value;

        if (!cJSON_IsObject(condition) || pod_text(condition, "type", &type) < 0 ||
            pod_text(condition, "status", &value) < 0)
            return -EINVAL;
        if (strcmp(type, "Ready") == 0)
            is_ready = strcmp(value, "True") == 0;
    }
    *ret_is_ready = is_ready;
    return 0;
}

/* The strings of *ret_pod are still those of the tree. */
static int pod_parse(const cJSON *object, struct k8s_pod *ret_pod)
{
    const cJSON *metadata, *status, *annotations;
    const char *deleted, *phase;
    bool has_condition;

    if (!cJSON_IsObject(object) || pod_member(object, "metadata", cJSON_IsObject, &metadata) < 0 ||
        pod_member(object, "status", cJSON_IsObject, &status) < 0)
        return -EINVAL;
    if (pod_text(metadata, "name", &ret_pod->name) < 0 || !is_name(ret_pod->name) ||
        pod_text(metadata, "uid", &ret_pod->uid) < 0 || !is_uid(ret_pod->uid) ||
        pod_text(metadata, "deletionTimestamp", &deleted) < 0 ||
        pod_member(metadata, "annotations", cJSON_IsObject, &annotations) < 0)
        return -EINVAL;
    k8s_mark_read(annotations, &ret_pod->mark);
    if (pod_text(status, "podIP", &ret_pod->ip) < 0 || (ret_pod->ip[0] && !is_ip(ret_pod->ip)) ||
        pod_text(status, "phase", &phase) < 0 || pod_parse_condition(status, &has_condition) < 0 ||
        pod_parse_restarts(status, &ret_pod->restarts) < 0)
        return -EINVAL;
    /* A terminating pod stays Running and Ready until its processes have ended. */
    ret_pod->is_terminating = deleted[0] != '\0';
    ret_pod->is_ready =
        has_condition && ret_pod->ip[0] && !ret_pod->is_terminating && strcmp(phase, "Running") == 0;
    return 0;
}

int k8s_pod_parse(const cJSON *object, struct arena *arena, struct k8s_pod *ret_pod)
{
    struct k8s_pod pod;
    int rc = pod_parse(object, &pod);

    if (rc < 0)
        return rc;
    pod.name = arena_strdup(arena, pod.name);
    pod.uid = arena_strdup(arena, pod.uid);
    pod.ip = pod.ip[0] ? arena_strdup(arena, pod.ip) : "";
    if (!pod.name || !pod.uid || !pod.ip)
        return -ENOMEM;
    *ret_pod = pod;
    return 0;
}

void k8s_pod_incarnation(const struct k8s_pod *pod, char text[K8S_POD_INCARNATION_MAX + 1])
{
    snprintf(text, K8S_POD_INCARNATION_MAX + 1, "%s:%" PRIu64, pod->uid, pod->restarts);
}
