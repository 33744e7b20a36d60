/*
 * pod_record.c - reads the record of a pod, which is JSON that our scripts have written.
 *
 * It looks for each member by its name, and does not parse the whole text.
 */
#include "store/redis/pod_record.h"

#include <stdio.h>

#include "store/redis/script_interface.h"

/* The text after "key": in the record. */
static int record_value(struct slice text, const char *key, struct slice *ret_value)
{
    char pattern[32];
    const char *at;
    const char *end = text.data + text.len;
    int len = snprintf(pattern, sizeof(pattern), "\"%s\":", key);

    at = memmem(text.data, text.len, pattern, (size_t)len);
    if (!at)
        return -EIO;
    at += len;
    *ret_value = (struct slice){at, (size_t)(end - at)};
    return 0;
}

static int record_bool(struct slice text, const char *key, bool *ret_value)
{
    struct slice value;

    if (record_value(text, key, &value))
        return -EIO;
    *ret_value = value.len >= 4 && memcmp(value.data, "true", 4) == 0;
    return *ret_value || (value.len >= 5 && memcmp(value.data, "false", 5) == 0) ? 0 : -EIO;
}

/* No name in a record has anything that JSON would escape. */
int record_string(struct slice text, const char *key, struct slice *ret_value)
{
    struct slice value;
    const char *end;

    if (record_value(text, key, &value) || value.len < 2 || value.data[0] != '"')
        return -EIO;
    end = memchr(value.data + 1, '"', value.len - 1);
    if (!end)
        return -EIO;
    *ret_value = (struct slice){value.data + 1, (size_t)(end - value.data - 1)};
    return 0;
}

static int record_number(struct slice text, const char *key, uint64_t *ret_value)
{
    struct slice value;
    size_t digits = 0;

    if (record_value(text, key, &value))
        return -EIO;
    while (digits < value.len && value.data[digits] >= '0' && value.data[digits] <= '9')
        digits++;
    return record_digits((struct slice){value.data, digits}, ret_value);
}

int pod_record_read(struct slice text, struct pod_record *ret_record)
{
    struct pod_record record;

    if (record_bool(text, SCRIPT_POD_READY, &record.is_ready) ||
        record_bool(text, SCRIPT_POD_TERMINATING, &record.is_terminating) ||
        record_bool(text, SCRIPT_POD_PINNED, &record.is_pinned) ||
        record_number(text, SCRIPT_POD_HELD_UNTIL, &record.held_until_ms) ||
        record_string(text, SCRIPT_POD_TIER, &record.tier) ||
        record_string(text, SCRIPT_POD_SOURCE, &record.source) ||
        record_string(text, SCRIPT_POD_INCARNATION, &record.incarnation) ||
        record_string(text, SCRIPT_POD_ADDRESS, &record.address))
        return -EIO;
    *ret_record = record;
    return 0;
}

int pod_record_source(const struct pod_record *record, enum pod_source *ret_source)
{
    for (int source = POD_SOURCE_API; source <= POD_SOURCE_KUBERNETES; source++) {
        if (slice_equals(record->source, pod_source_name((enum pod_source)source))) {
            *ret_source = (enum pod_source)source;
            return 0;
        }
    }
    return -EIO;
}
