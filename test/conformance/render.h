/*
 * render.h - an answer as text, so that the answers of two stores can be compared and shown.
 *
 * Lists that have no order are sorted. What may differ between stores is left out: which of several
 * calls of a shared pod counts as its newest, and whether a pod that nobody has looked at since its drain
 * ended still stands among the draining ones or among the suspended.
 */
#ifndef TEST_CONFORMANCE_RENDER_H
#define TEST_CONFORMANCE_RENDER_H

#include "base/strbuf.h"
#include "core/command.h"

void render_command(struct strbuf *buf, const struct command *command);
void render_result(struct strbuf *buf, const struct command *command, const struct result *result,
                   struct arena *arena);
/* The lines of the buffer, sorted. */
const char *render_sorted(const struct strbuf *buf, struct arena *arena);

/* A valid command of this type. Its texts are static. */
struct command sample_command(enum command_type type);

#endif
