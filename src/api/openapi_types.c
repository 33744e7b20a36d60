/*
 * openapi_types.c - writes the types of the reference as JSON Schema.
 */
#include "api/openapi.h"

#include <ctype.h>
#include <stdio.h>

#include "api/reference.h"

#define SCHEMAS "#/components/schemas/"

enum { REF_SIZE = 64 };

void openapi_put_ref(struct json_writer *json, const char *folder, struct slice name)
{
    char text[REF_SIZE];

    snprintf(text, sizeof(text), "%s%.*s", folder, (int)name.len, name.data);
    json_put_string(json, "$ref", text);
}

/* Finds `separator` outside of brackets and braces; NULL: it is not there. */
static const char *find_outside(struct slice type, const char *separator)
{
    size_t len = strlen(separator);
    int depth = 0;

    for (size_t i = 0; i + len <= type.len; i++) {
        depth += type.data[i] == '[' || type.data[i] == '{';
        depth -= type.data[i] == ']' || type.data[i] == '}';
        if (depth == 0 && memcmp(type.data + i, separator, len) == 0)
            return type.data + i;
    }
    return NULL;
}

void openapi_put_type(struct json_writer *json, struct slice type)
{
    json_object_begin(json);
    openapi_put_type_members(json, type);
    json_object_end(json);
}

/* The parts of "a|b" or of "T or U", each as a value of the array `key`. */
static void put_parts(struct json_writer *json, const char *key, struct slice type, const char *separator)
{
    const char *end = type.data + type.len;

    json_key(json, key);
    json_array_begin(json);
    while (type.data) {
        const char *at = find_outside(type, separator);
        struct slice part = {type.data, at ? (size_t)(at - type.data) : type.len};

        if (separator[0] == '|')
            json_slice(json, part);
        else
            openapi_put_type(json, part);
        type.data = at ? at + strlen(separator) : NULL;
        type.len = at ? (size_t)(end - type.data) : 0;
    }
    json_array_end(json);
}

/* The members of the schema of a type: see reference.h. */
void openapi_put_type_members(struct json_writer *json, struct slice type)
{
    struct slice inner = {type.data + 1, type.len >= 2 ? type.len - 2 : 0};

    if (slice_equals(type, "any"))
        return;
    if (find_outside(type, " or ")) {
        put_parts(json, "anyOf", type, " or ");
    } else if (type.data[0] == '[') {
        json_put_string(json, "type", "array");
        json_key(json, "items");
        openapi_put_type(json, inner);
    } else if (type.data[0] == '{') {
        json_put_string(json, "type", "object");
        json_key(json, "additionalProperties");
        openapi_put_type(json, inner);
    } else if (find_outside(type, "|")) {
        json_put_string(json, "type", "string");
        put_parts(json, "enum", type, "|");
    } else if (slice_equals(type, "time")) {
        json_put_string(json, "type", "string");
        json_put_string(json, "format", "date-time");
    } else if (isupper((unsigned char)type.data[0])) {
        openapi_put_ref(json, SCHEMAS, type);
    } else {
        json_key(json, "type");
        json_slice(json, type);
    }
}

static void put_members(struct json_writer *json, const struct reference_member *members)
{
    json_put_string(json, "type", "object");
    json_key(json, "properties");
    json_object_begin(json);
    for (const struct reference_member *member = members; member->name; member++) {
        json_key(json, member->name);
        json_object_begin(json);
        openapi_put_type_members(json, slice_of(member->type));
        json_put_string(json, "description", member->about);
        json_object_end(json);
    }
    json_object_end(json);
    json_key(json, "required");
    json_array_begin(json);
    for (const struct reference_member *member = members; member->name; member++) {
        if (!member->is_optional)
            json_string(json, member->name);
    }
    json_array_end(json);
}

void openapi_put_schemas(struct json_writer *json)
{
    json_key(json, "schemas");
    json_object_begin(json);
    for (size_t i = 0; i < reference_objects_count; i++) {
        const struct reference_object *object = &reference_objects[i];

        json_key(json, object->name);
        json_object_begin(json);
        json_put_string(json, "description", object->about);
        if (object->members)
            put_members(json, object->members);
        else
            openapi_put_type_members(json, slice_of(object->type));
        if (object->pattern)
            json_put_string(json, "pattern", object->pattern);
        json_object_end(json);
    }
    json_object_end(json);
}
