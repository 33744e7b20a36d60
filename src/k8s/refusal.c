/*
 * refusal.c - reads the Status object by which the API server explains an error.
 */
#include "k8s/refusal.h"

#include <stdio.h>

#include "base/json.h"
#include "k8s/backoff.h"
#include "k8s/object.h"

enum { REFUSAL_ARENA_MAX = 1024 * 1024 };

static void copy_text(const cJSON *object, const char *key, char *text, size_t size)
{
    const char *value = json_get_string(object, key);

    snprintf(text, size, "%s", value ? value : "");
}

void k8s_refusal_read(const cJSON *object, struct k8s_refusal *ret_refusal)
{
    const cJSON *details = k8s_object_get(object, "details");
    const cJSON *code = k8s_object_get(object, "code");
    const cJSON *retry = k8s_object_get(details, "retryAfterSeconds");

    *ret_refusal = (struct k8s_refusal){0};
    copy_text(object, "reason", ret_refusal->reason, sizeof(ret_refusal->reason));
    copy_text(object, "message", ret_refusal->message, sizeof(ret_refusal->message));
    copy_text(details, "kind", ret_refusal->kind, sizeof(ret_refusal->kind));
    copy_text(details, "name", ret_refusal->name, sizeof(ret_refusal->name));
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
