/* put_slice.h - a member of a JSON object that is null where there is no text. */
#ifndef TEST_SUPPORT_PUT_SLICE_H
#define TEST_SUPPORT_PUT_SLICE_H

#include "base/json.h"

static inline void put_slice(struct json_writer *json, const char *key, struct slice value)
{
    json_key(json, key);
    if (value.data)
        json_slice(json, value);
    else
        json_null(json);
}

#endif
