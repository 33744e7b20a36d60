/*
 * lease_object.c - parses and writes a Lease object, and keeps the fields that are not ours.
 */
#include "k8s/lease_object.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "k8s/object.h"

/* A tree of cJSON takes some ten times the memory of the shortest text there is for it ("[1,1,…]" takes
 * more). */
enum { LEASE_OBJECT_MEMORY_MAX = 64 * LEASE_OBJECT_MAX };

struct lease_object {
    struct arena arena;
    const cJSON *tree; /* in the arena, as the strings of the record are */
    struct lease_record record;
};

/* The members of spec that are ours to write. */
static const char *const lease_fields[] = {"holderIdentity", "leaseDurationSeconds", "acquireTime",
                                           "renewTime", "leaseTransitions"};

/* A whole number from 0 to INT32_MAX, as the schema has it; anything else is 0. */
static uint32_t lease_number(const cJSON *spec, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(spec, key);

    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= INT32_MAX))
        return 0;
    return (uint32_t)item->valuedouble;
}

static void lease_object_read(struct lease_object *object)
{
    const cJSON *spec = cJSON_GetObjectItemCaseSensitive(object->tree, "spec");
    const char *holder = json_get_string(spec, "holderIdentity");

    object->record = (struct lease_record){
        .holder = holder ? holder : "",
        .duration_s = lease_number(spec, "leaseDurationSeconds"),
        .transitions = lease_number(spec, "leaseTransitions"),
        .acquired_time = json_get_string(spec, "acquireTime"),
        .renewed_time = json_get_string(spec, "renewTime"),
    };
}

/* Only what can be written back is of use: that takes the version. */
static bool lease_object_is_lease(const cJSON *tree)
{
    const char *kind = json_get_string(tree, "kind");
    const cJSON *spec = cJSON_GetObjectItemCaseSensitive(tree, "spec");

    return cJSON_IsObject(tree) && kind && strcmp(kind, "Lease") == 0 && k8s_object_version(tree) &&
           (!spec || cJSON_IsNull(spec) || cJSON_IsObject(spec));
}

int lease_object_parse(struct slice text, struct lease_object **ret_object)
{
    struct lease_object *object;

    if (text.len > LEASE_OBJECT_MAX)
        return -EINVAL;
    object = calloc(1, sizeof(*object));
    if (!object)
        return -ENOMEM;
    arena_init(&object->arena, LEASE_OBJECT_MEMORY_MAX);
    object->tree = k8s_object_parse(&object->arena, text);
    if (!lease_object_is_lease(object->tree)) {
        lease_object_free(object);
        return -EINVAL;
    }
    lease_object_read(object);
    *ret_object = object;
    return 0;
}

struct lease_object *lease_object_free(struct lease_object *object)
{
    if (object) {
        arena_release(&object->arena);
        free(object);
    }
    return NULL;
}

const struct lease_record *lease_object_record(const struct lease_object *object)
{
    return &object->record;
}

static bool lease_text_equals(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool lease_record_equals(const struct lease_record *a, const struct lease_record *b)
{
    return strcmp(a->holder, b->holder) == 0 && a->duration_s == b->duration_s &&
           a->transitions == b->transitions && lease_text_equals(a->acquired_time, b->acquired_time) &&
           lease_text_equals(a->renewed_time, b->renewed_time);
}

static void lease_write_number(struct json_writer *json, double value)
{
    char text[32];
    int len = value >= -9007199254740992.0 && value <= 9007199254740992.0 && value == (double)(int64_t)value
                  ? snprintf(text, sizeof(text), "%lld", (long long)value)
                  : snprintf(text, sizeof(text), "%.17g", value);

    json_raw(json, (struct slice){text, (size_t)len});
}

/* The depth of a parsed tree is limited, so recursion is. */
static void lease_write_tree(struct json_writer *json, const cJSON *item) // NOLINT(misc-no-recursion)
{
    const cJSON *child;

    if (cJSON_IsObject(item)) {
        json_object_begin(json);
        cJSON_ArrayForEach(child, item)
        {
            json_key(json, child->string);
            lease_write_tree(json, child);
        }
        json_object_end(json);
    } else if (cJSON_IsArray(item)) {
        json_array_begin(json);
        cJSON_ArrayForEach(child, item)
        {
            lease_write_tree(json, child);
        }
        json_array_end(json);
    } else if (cJSON_IsString(item)) {
        json_string(json, item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        lease_write_number(json, item->valuedouble);
    } else if (cJSON_IsBool(item)) {
        json_bool(json, cJSON_IsTrue(item));
    } else {
        json_null(json);
    }
}

static bool lease_field_is_ours(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(lease_fields); i++) {
        if (strcmp(key, lease_fields[i]) == 0)
            return true;
    }
    return false;
}

/* `old` may be NULL: there is none. */
static void lease_write_spec(struct json_writer *json, const cJSON *old, const struct lease_record *record)
{
    const cJSON *child;

    json_object_begin(json);
    json_put_string(json, "holderIdentity", record->holder);
    json_put_u64(json, "leaseDurationSeconds", record->duration_s);
    json_put_string(json, "acquireTime", record->acquired_time);
    json_put_string(json, "renewTime", record->renewed_time);
    json_put_u64(json, "leaseTransitions", record->transitions);
    cJSON_ArrayForEach(child, old)
    {
        if (!lease_field_is_ours(child->string)) {
            json_key(json, child->string);
            lease_write_tree(json, child);
        }
    }
    json_object_end(json);
}

void lease_object_write_new(struct strbuf *buf, const char *namespace_name, const char *name,
                            const struct lease_record *record)
{
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    json_put_string(&json, "apiVersion", "coordination.k8s.io/v1");
    json_put_string(&json, "kind", "Lease");
    json_key(&json, "metadata");
    json_object_begin(&json);
    json_put_string(&json, "namespace", namespace_name);
    json_put_string(&json, "name", name);
    json_object_end(&json);
    json_key(&json, "spec");
    lease_write_spec(&json, NULL, record);
    json_object_end(&json);
}

void lease_object_write(struct strbuf *buf, const struct lease_object *object,
                        const struct lease_record *record)
{
    const cJSON *spec = cJSON_GetObjectItemCaseSensitive(object->tree, "spec");
    const cJSON *child;
    struct json_writer json;

    json_begin(&json, buf);
    json_object_begin(&json);
    cJSON_ArrayForEach(child, object->tree)
    {
        if (strcmp(child->string, "spec") != 0) {
            json_key(&json, child->string);
            lease_write_tree(&json, child);
        }
    }
    json_key(&json, "spec");
    lease_write_spec(&json, cJSON_IsObject(spec) ? spec : NULL, record);
    json_object_end(&json);
}

void lease_time_format(uint64_t wall_ms, char text[LEASE_TIME_MAX])
{
    clock_format_millis(wall_ms, text);
    memcpy(text + strlen(text) - 1, "000Z", sizeof("000Z"));
}

bool lease_time_is_valid(const char *text)
{
    static const char shape[] = "0000-00-00T00:00:00.000000Z";

    if (!text || strlen(text) != sizeof(shape) - 1)
        return false;
    for (size_t i = 0; i < sizeof(shape) - 1; i++) {
        bool is_digit = text[i] >= '0' && text[i] <= '9';

        if (shape[i] == '0' ? !is_digit : text[i] != shape[i])
            return false;
    }
    return true;
}
