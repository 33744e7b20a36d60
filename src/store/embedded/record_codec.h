/*
 * record_codec.h - core's records as bytes.
 *
 * A record is its type in one byte, then its members in order: texts end with a NUL, numbers are
 * varints (7 bits a byte, lowest first). Decoding copies nothing and trusts nothing.
 */
#ifndef STORE_EMBEDDED_RECORD_CODEC_H
#define STORE_EMBEDDED_RECORD_CODEC_H

#include "base/strbuf.h"
#include "core/record.h"

/* Appends the record; a text that is NULL is written as empty. Check strbuf_failed() at the end. */
void record_encode(struct strbuf *buf, const struct record *record);

/*
 * Reads the record at the start of `data`. Its texts point into `data`.
 *
 * 0: *ret_used bytes were read. -EBADMSG: these bytes are no record. -EOPNOTSUPP: a type that this
 * program does not know.
 */
int record_decode(const char *data, size_t len, struct record *ret_record, size_t *ret_used) MUST_CHECK;

#endif
