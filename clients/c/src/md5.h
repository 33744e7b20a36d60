/*
 * md5.h - the MD5 of a text, for the rollout gate.
 *
 * The seeds' formula needs it. It protects nothing here, so it works also where a crypto library refuses MD5.
 */
#ifndef SR_MD5_H
#define SR_MD5_H

#include <stddef.h>
#include <stdint.h>

enum { SR_MD5_SIZE = 16 };

void sr_md5(const void *data, size_t size, uint8_t ret_digest[SR_MD5_SIZE]);

#endif
