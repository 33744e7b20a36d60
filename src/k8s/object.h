/*
 * object.h - texts of the API server as trees, and what all of its objects have. Any thread; nothing here
 * logs.
 */
#ifndef K8S_OBJECT_H
#define K8S_OBJECT_H

#include <cjson/cJSON.h>

#include "base/arena.h"

enum { K8S_VERSION_MAX = 127 }; /* of a resourceVersion: opaque, a number so far */

/*
 * Parses one object into the arena. An escaped NUL, which is allowed in an annotation and means nothing to
 * us, is read as U+FFFD: it must not hide the object. NULL: not JSON, or no memory.
 */
cJSON *k8s_object_parse(struct arena *arena, struct slice text) MUST_CHECK;

/* The member `key` of `object`; NULL if it is absent or null, as the server writes what is empty. */
const cJSON *k8s_object_get(const cJSON *object, const char *key);

/* metadata.resourceVersion, or NULL if there is none that could be sent back. */
const char *k8s_object_version(const cJSON *object);

/* metadata.name for a log line, whatever it is, cut to the size of `text`; "" if it is no string. */
void k8s_object_name(const cJSON *object, char *text, size_t size);

#endif
