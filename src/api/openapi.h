/*
 * openapi.h - the OpenAPI document: what its files share. api_write_openapi (api.h) writes it.
 *
 * Internal to the module.
 */
#ifndef API_OPENAPI_H
#define API_OPENAPI_H

#include "base/json.h"

enum { OPENAPI_SIZE_MAX = 512 * 1024 };

/* "$ref": the component of that name in `folder`. */
void openapi_put_ref(struct json_writer *json, const char *folder, struct slice name);

/* The schema of a type (see reference.h) as an object, or its members alone. */
void openapi_put_type(struct json_writer *json, struct slice type);
void openapi_put_type_members(struct json_writer *json, struct slice type);

/* "schemas": all objects of the reference. */
void openapi_put_schemas(struct json_writer *json);

#endif
