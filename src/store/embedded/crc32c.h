/*
 * crc32c.h - the Castagnoli checksum, by the processor's own instruction where it has one.
 */
#ifndef STORE_EMBEDDED_CRC32C_H
#define STORE_EMBEDDED_CRC32C_H

#include "base/base.h"

/* Continues from `crc`, which is 0 at the start. */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);

/* The same by table, on every machine. Public for the tests, which compare the two. */
uint32_t crc32c_table(uint32_t crc, const void *data, size_t len);

#endif
