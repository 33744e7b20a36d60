#include "k8s/refusal.h"

#include <stdio.h>

#include "base/json.h"
#include "k8s/backoff.h"
#include "k8s/object.h"

enum { REFUSAL_ARENA_MAX = 1024 * 1024 };

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
    if (cJSON_IsNumber(retry))
        ret_refusal->retry_after_ms = k8s_retry_after_ms(retry->valuedouble);
}

void k8s_refusal_parse(struct slice text, struct k8s_refusal *ret_refusal)
{
    struct arena arena;

    arena_init(&arena, REFUSAL_ARENA_MAX);
    k8s_refusal_read(text.len > 0 ? k8s_object_parse(&arena, text) : NULL, ret_refusal);
    arena_release(&arena);
}
