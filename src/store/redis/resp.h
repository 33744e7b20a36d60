/*
 * resp.h - commands in Redis's protocol, into memory that was measured before.
 */
#ifndef STORE_REDIS_RESP_H
#define STORE_REDIS_RESP_H

#include "base/base.h"

/* How long the head of a command with `count` arguments is, and one argument of `len` bytes. */
size_t resp_head_size(size_t count);
size_t resp_arg_size(size_t len);

/* Write them; return where the next one goes. */
char *resp_head(char *at, size_t count);
char *resp_arg(char *at, struct slice arg);

/* A whole command. */
size_t resp_size(const struct slice *args, size_t count);
char *resp_write(char *at, const struct slice *args, size_t count);

#endif
