/*
 * status_object.c - reads the Status object by which the API server explains an error.
 */
#include "k8s/status_object.h"

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

void k8s_status_read(const cJSON *object, struct k8s_status *ret_status)
{
    const cJSON *details = k8s_object_get(object, "details");
    const cJSON *code = k8s_object_get(object, "code");
    const cJSON *retry = k8s_object_get(details, "retryAfterSeconds");

    *ret_status = (struct k8s_status){0};
    copy_text(object, "reason", ret_status->reason, sizeof(ret_status->reason));
    copy_text(object, "message", ret_status->message, sizeof(ret_status->message));
    copy_text(details, "kind", ret_status->kind, sizeof(ret_status->kind));
    copy_text(details, "name", ret_status->name, sizeof(ret_status->name));
    if (cJSON_IsNumber(code) && code->valuedouble >= 100 && code->valuedouble <= 599)
        ret_status->code = (int)code->valuedouble;
    if (cJSON_IsNumber(retry))
        ret_status->retry_after_ms = k8s_retry_after_ms(retry->valuedouble);
}

void k8s_status_parse(struct slice text, struct k8s_status *ret_status)
{
    struct arena arena;

    arena_init(&arena, REFUSAL_ARENA_MAX);
    k8s_status_read(text.len > 0 ? k8s_object_parse(&arena, text) : NULL, ret_status);
    arena_release(&arena);
}
