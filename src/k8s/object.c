/*
 * object.c - parses the API server's JSON, and reads the metadata that all objects have.
 */
#include "k8s/object.h"

#include <stdio.h>

#include "base/json.h"

static const char escaped_nul[] = "\\u0000";
static const char escaped_unknown[] = "\\ufffd"; /* as long as the other */

cJSON *k8s_object_parse(struct arena *arena, struct slice text)
{
    char *copy, *at, *end;

    if (!memmem(text.data, text.len, escaped_nul, sizeof(escaped_nul) - 1))
        return json_parse(arena, text);

    copy = arena_copy(arena, text.data, text.len);
    if (!copy)
        return NULL;
    end = copy + text.len;
    for (at = copy; end - at >= (ptrdiff_t)sizeof(escaped_nul) - 1; at++) {
        if (*at != '\\')
            continue;
        if (memcmp(at, escaped_nul, sizeof(escaped_nul) - 1) == 0)
            memcpy(at, escaped_unknown, sizeof(escaped_unknown) - 1);
        /* What is escaped may be a backslash, which begins nothing. */
        at++;
    }
    return json_parse(arena, (struct slice){copy, text.len});
}

const cJSON *k8s_object_get(const cJSON *object, const char *key)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, key);

    return cJSON_IsNull(member) ? NULL : member;
}

const char *k8s_object_version(const cJSON *object)
{
    const char *version = json_get_string(k8s_object_get(object, "metadata"), "resourceVersion");

    return version && version[0] && strlen(version) <= K8S_VERSION_MAX ? version : NULL;
}

void k8s_object_name(const cJSON *object, char *text, size_t size)
{
    const char *name = json_get_string(k8s_object_get(object, "metadata"), "name");

    snprintf(text, size, "%s", name ? name : "");
}
