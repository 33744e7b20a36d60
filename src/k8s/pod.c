/*
 * pod.c - parses and validates a pod object: name, address, readiness, start time, restarts.
 */
#include "k8s/pod.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

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

/* The first of an array of containers or of their states, or the one of that name; NULL: none. */
static int pod_find_container(const cJSON *array, const char *name, const cJSON **ret_container)
{
    const cJSON *container, *found = NULL;

    cJSON_ArrayForEach(container, array)
    {
        const char *own;

        if (!cJSON_IsObject(container) || pod_text(container, "name", &own) < 0)
            return -EINVAL;
        if (!found && (!name || strcmp(own, name) == 0))
            found = container;
    }
    *ret_container = found;
    return 0;
}

/*
 * The name of the container that is the agent. NULL if there is no spec, as in what is not from an API
 * server: then the first one that has a state is it.
 */
static int pod_parse_spec(const cJSON *object, const char *wanted, struct k8s_pod *pod, const char **ret_name)
{
    const cJSON *spec, *containers, *first, *container = NULL;
    const char *name = NULL;

    if (pod_member(object, "spec", cJSON_IsObject, &spec) < 0 ||
        pod_member(spec, "containers", cJSON_IsArray, &containers) < 0 ||
        pod_find_container(containers, NULL, &first) < 0)
        return -EINVAL;
    if (wanted && wanted[0] && pod_find_container(containers, wanted, &container) < 0)
        return -EINVAL;
    pod->lacks_container = first && !container && wanted && wanted[0];
    if (!container)
        container = first;
    if (container && pod_text(container, "name", &name) < 0)
        return -EINVAL;
    *ret_name = name;
    return 0;
}

/* "2026-02-08T10:00:00Z", as the API server writes every time: UTC, whole seconds. */
static int pod_parse_time(const char *text, uint64_t *ret_ms)
{
    static const char shape[] = "0000-00-00T00:00:00Z";
    struct tm tm = {0}, checked;
    time_t seconds;

    if (strlen(text) != sizeof(shape) - 1)
        return -EINVAL;
    for (size_t i = 0; i < sizeof(shape) - 1; i++) {
        if (shape[i] == '0' ? !is_between(text[i], '0', '9') : text[i] != shape[i])
            return -EINVAL;
    }
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec) != 6)
        return -EINVAL;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    checked = tm;
    seconds = timegm(&checked);
    /* timegm() makes a 3rd of March of a 31st of February. */
    if (seconds < 0 || checked.tm_mon != tm.tm_mon || checked.tm_mday != tm.tm_mday ||
        checked.tm_hour != tm.tm_hour || checked.tm_min != tm.tm_min || checked.tm_sec != tm.tm_sec)
        return -EINVAL;
    *ret_ms = (uint64_t)seconds * 1000;
    return 0;
}

static int pod_parse_start(const cJSON *container, uint64_t *ret_started_at_ms)
{
    const cJSON *state, *running;
    const char *text;

    *ret_started_at_ms = 0;
    if (pod_member(container, "state", cJSON_IsObject, &state) < 0 ||
        pod_member(state, "running", cJSON_IsObject, &running) < 0 ||
        pod_text(running, "startedAt", &text) < 0)
        return -EINVAL;
    return text[0] ? pod_parse_time(text, ret_started_at_ms) : 0;
}

static int pod_parse_restarts(const cJSON *container, uint64_t *ret_restarts)
{
    const cJSON *count;

    if (pod_member(container, "restartCount", cJSON_IsNumber, &count) < 0)
        return -EINVAL;
    /* An int32 of the API. */
    if (count && (!(count->valuedouble >= 0 && count->valuedouble <= INT32_MAX) ||
                  count->valuedouble != (double)(int32_t)count->valuedouble))
        return -EINVAL;
    *ret_restarts = count ? (uint64_t)count->valuedouble : 0;
    return 0;
}

/* How often the agent's container was restarted, and when it started. Sidecars come and go as they like. */
static int pod_parse_container(const cJSON *object, const cJSON *status, const char *wanted,
                               struct k8s_pod *pod)
{
    const cJSON *states, *state;
    const char *name;

    if (pod_parse_spec(object, wanted, pod, &name) < 0 ||
        pod_member(status, "containerStatuses", cJSON_IsArray, &states) < 0 ||
        pod_find_container(states, name, &state) < 0 || pod_parse_restarts(state, &pod->restarts) < 0)
        return -EINVAL;
    return pod_parse_start(state, &pod->started_at_ms);
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

static int pod_parse_status(const cJSON *status, struct k8s_pod *pod)
{
    const char *phase;
    bool has_condition;

    if (pod_text(status, "podIP", &pod->ip) < 0 || (pod->ip[0] && !is_ip(pod->ip)) ||
        pod_text(status, "phase", &phase) < 0 || pod_parse_condition(status, &has_condition) < 0)
        return -EINVAL;
    pod->is_ready = has_condition && pod->ip[0] && !pod->is_terminating && strcmp(phase, "Running") == 0;
    pod->has_terminated = strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0;
    return 0;
}

/* The strings of *ret_pod are still those of the tree. */
static int pod_parse(const cJSON *object, const char *agent_container, struct k8s_pod *ret_pod)
{
    const cJSON *metadata, *status, *annotations;
    const char *deleted;

    if (!cJSON_IsObject(object) || pod_member(object, "metadata", cJSON_IsObject, &metadata) < 0 ||
        pod_member(object, "status", cJSON_IsObject, &status) < 0)
        return -EINVAL;
    if (pod_text(metadata, "name", &ret_pod->name) < 0 || !is_name(ret_pod->name) ||
        pod_text(metadata, "uid", &ret_pod->uid) < 0 || !is_uid(ret_pod->uid) ||
        pod_text(metadata, "deletionTimestamp", &deleted) < 0 ||
        pod_member(metadata, "annotations", cJSON_IsObject, &annotations) < 0)
        return -EINVAL;
    k8s_annotations_read(annotations, &ret_pod->mark);
    /* A terminating pod stays Running and Ready until its processes have ended. */
    ret_pod->is_terminating = deleted[0] != '\0';
    if (pod_parse_status(status, ret_pod) < 0)
        return -EINVAL;
    return pod_parse_container(object, status, agent_container, ret_pod);
}

int k8s_pod_parse(const cJSON *object, const char *agent_container, struct arena *arena,
                  struct k8s_pod *ret_pod)
{
    struct k8s_pod pod = {0};
    int err = pod_parse(object, agent_container, &pod);

    if (err < 0)
        return err;
    pod.name = arena_strdup(arena, pod.name);
    pod.uid = arena_strdup(arena, pod.uid);
    pod.ip = pod.ip[0] ? arena_strdup(arena, pod.ip) : "";
    if (!pod.name || !pod.uid || !pod.ip)
        return -ENOMEM;
    *ret_pod = pod;
    return 0;
}

int k8s_pod_parse_name(const cJSON *object, struct arena *arena, struct k8s_pod *ret_pod)
{
    const char *name = json_get_string(k8s_object_get(object, "metadata"), "name");
    char *copy;

    if (!name || !is_name(name))
        return -EINVAL;
    copy = arena_strdup(arena, name);
    if (!copy)
        return -ENOMEM;
    *ret_pod = (struct k8s_pod){.name = copy, .uid = "", .ip = "", .is_unreadable = true};
    return 0;
}

void k8s_pod_incarnation(const struct k8s_pod *pod, char text[K8S_POD_INCARNATION_MAX + 1])
{
    snprintf(text, K8S_POD_INCARNATION_MAX + 1, "%s:%" PRIu64, pod->uid, pod->restarts);
}
