/*
 * log_size.h - the largest size of the records of a command.
 *
 * The space is reserved before the command is executed. If an estimate is too small, nothing is
 * lost: the batch is then written into space that was not reserved.
 */
#ifndef STORE_EMBEDDED_LOG_SIZE_H
#define STORE_EMBEDDED_LOG_SIZE_H

#include "core/core.h"

size_t log_size_max(const struct command *command, const struct core *core);

#endif
