/*
 * random.h - random bytes of the kernel, and times that are spread at random.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include "base/base.h"

/*
 * Never waits. False: the kernel has no random bytes yet, because the machine has just booted; all
 * are zero.
 */
bool random_bytes(void *bytes, size_t len);

/* Waits in that case. False only on kernels that are older than we support. */
bool random_bytes_wait(void *bytes, size_t len) MUST_CHECK;

/* 0 if there are no random bytes: for numbers that only spread something. */
uint32_t random_u32(void);

/* Between half of `ms` and all of it, so that many processes do not come back at the same time. */
uint64_t random_jitter_ms(uint64_t ms);

#endif
