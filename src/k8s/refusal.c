#include "k8s/refusal.h"

#include <stdio.h>

#include "base/json.h"
#include "k8s/object.h"

enum { REFUSAL_ARENA_MAX = 1024 * 1024 };

static bool refusal_is_version_too_large(const cJSON *details)
{
    const cJSON *cause;

    cJSON_ArrayForEach(cause, k8s_object_get(details, "causes"))
    {
        const char *reason = json_get_string(cause, "reason");

        if (reason && strcmp(reason, "ResourceVersionTooLarge") == 0)
            return true;
    }
    return false;
}

void k8s_refusal_read(const cJSON *object, struct k8s_refusal *ret_refusal)
{
    const cJSON *details = k8s_object_get(object, "details");
    const cJSON *code = k8s_object_get(object, "code");
    const cJSON *retry = k8s_object_get(details, "retryAfterSeconds");
    const char *reason = json_get_string(object, "reason");
    const char *message = json_get_string(object, "message");

    *ret_refusal = (struct k8s_refusal){0};
    snprintf(ret_refusal->reason, sizeof(ret_refusal->reason), "%s", reason ? reason : "");
    snprintf(ret_refusal->message, sizeof(ret_refusal->message), "%s", message ? message : "");
    if (cJSON_IsNumber(code) && code->valuedouble >= 100 && code->valuedouble <= 599)
        ret_refusal->code = (int)code->valuedouble;
    if (cJSON_IsNumber(retry) && retry->valuedouble > 0)
        ret_refusal->retry_after_ms =
            (uint64_t)(retry->valuedouble < K8S_REFUSAL_RETRY_MAX_S ? retry->valuedouble
                                                                    : K8S_REFUSAL_RETRY_MAX_S) *
            1000;
    ret_refusal->is_version_too_large = refusal_is_version_too_large(details);
}

void k8s_refusal_parse(struct slice text, struct k8s_refusal *ret_refusal)
{
    struct arena arena;

    arena_init(&arena, REFUSAL_ARENA_MAX);
    k8s_refusal_read(text.len > 0 ? k8s_object_parse(&arena, text) : NULL, ret_refusal);
    arena_release(&arena);
}
