/*
 * pod_record.h - the record of a pod, from its field in the hash `pods`.
 *
 * Pure functions. They return 0, or -EIO for a text that our scripts did not write.
 */
#ifndef STORE_REDIS_POD_RECORD_H
#define STORE_REDIS_POD_RECORD_H

#include "core/command.h"

struct pod_record {
    struct slice tier;
    struct slice source;
    struct slice incarnation;
    struct slice address;
    uint64_t held_until_ms;
    bool is_ready;
    bool is_terminating;
    bool is_pinned;
};

/* The slices point into `text`. */
int pod_record_read(struct slice text, struct pod_record *ret_record) MUST_CHECK;
int pod_record_source(const struct pod_record *record, enum pod_source *ret_source) MUST_CHECK;

/* One member of a record. */
int record_string(struct slice text, const char *key, struct slice *ret_value) MUST_CHECK;

/* A number of 1 to 19 digits. Inline: every answer has several. */
static inline int record_digits(struct slice text, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (text.len < 1 || text.len > 19)
        return -EIO;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -EIO;
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    *ret_number = number;
    return 0;
}

#endif
