/*
 * lease_object.h - a coordination.k8s.io Lease as it travels: read, compared, written.
 *
 * Only the election's own fields are ever changed; whatever else somebody put into the object, known to us or
 * not, goes back as it came. No I/O; nothing here logs.
 */
#ifndef K8S_LEASE_OBJECT_H
#define K8S_LEASE_OBJECT_H

#include "base/strbuf.h"

enum {
    LEASE_OBJECT_MAX =
        512 * 1024, /* bytes of JSON: etcd's own limit is 1.5 MiB, an ordinary one has 500 bytes */
    LEASE_TIME_MAX = 40,
};

/* What the election is about. The strings are borrowed. */
struct lease_record {
    const char *holder;        /* "": nobody */
    uint32_t duration_s;       /* 0: not given */
    uint32_t transitions;      /* how often the holder changed */
    const char *acquired_time; /* as it was written; NULL: not given */
    const char *renewed_time;
};

struct lease_object; /* opaque: see lease_object.c */

/*
 * A field that is missing, null or of the wrong type counts as not given: who wrote it may be anybody.
 *
 * -EINVAL: this is not a Lease that could be written back; -ENOMEM.
 */
int lease_object_parse(struct slice text, struct lease_object **ret_object) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct lease_object *lease_object_free(struct lease_object *object);

const struct lease_record *lease_object_record(const struct lease_object *object);

bool lease_record_equals(const struct lease_record *a, const struct lease_record *b);

/* A new Lease for POST. Check strbuf_failed() afterwards. */
void lease_object_write_new(struct strbuf *buf, const char *namespace_name, const char *name,
                            const struct lease_record *record);

/* `object` with another record, for PUT: the same version of it, so that a change in between is a conflict.
 */
void lease_object_write(struct strbuf *buf, const struct lease_object *object,
                        const struct lease_record *record);

/* The API server's MicroTime: it wants exactly six digits of a second. */
void lease_time_format(uint64_t wall_ms, char text[LEASE_TIME_MAX]);

/* Is it a time that the API server would take back? */
bool lease_time_is_valid(const char *text);

#endif
