/*
 * bound.h - how many bytes of log a command can cause at most.
 *
 * Room for them is made before the command is carried out. An estimate that is too small loses nothing: the
 * batch is then written into space that was not reserved.
 */
#ifndef STORE_EMBEDDED_BOUND_H
#define STORE_EMBEDDED_BOUND_H

#include "core/core.h"

size_t bound_effects(const struct command *command, const struct core *core);

#endif
