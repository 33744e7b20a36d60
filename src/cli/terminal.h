/*
 * terminal.h - where the output goes: how wide it is, and whether it has colours.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "base/strbuf.h"

enum { TERMINAL_COLUMNS_DEFAULT = 80, TERMINAL_COLUMNS_MIN = 20 };

enum colour {
    COLOUR_NONE,
    COLOUR_GOOD,    /* green */
    COLOUR_WARNING, /* yellow */
    COLOUR_BAD,     /* red */
    COLOUR_DIM,
    COLOUR_BOLD,
};

struct terminal {
    size_t columns; /* SIZE_MAX: as wide as it gets */
    bool is_terminal;
    bool has_colours;
};

/*
 * Looks at standard output. The width is COLUMNS, else that of the terminal, else 80. What goes into a file
 * or a pipe is not cut, unless COLUMNS is set. Colours are for terminals only, and not with NO_COLOR or
 * TERM=dumb.
 */
void terminal_look(struct terminal *ret_terminal);

/* Appends a text, which is safe, in a colour. */
void terminal_append(const struct terminal *terminal, struct strbuf *buf, enum colour colour,
                     struct slice text);

/* Writes it to standard output at once. An exit status. */
int terminal_write(const struct strbuf *buf);

#endif
