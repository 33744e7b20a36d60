/*
 * terminal.c - looks at standard output, and colours texts.
 */
#include "cli/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/quantity.h"
#include "cli/cli.h"

enum { COLUMNS_MAX = 10000 };

static size_t columns_of_environment(void)
{
    const char *text = getenv("COLUMNS");
    uint64_t columns;

    if (!text || !quantity_digits(&text, &columns) || *text || columns == 0 || columns > COLUMNS_MAX)
        return 0;
    return columns < TERMINAL_COLUMNS_MIN ? TERMINAL_COLUMNS_MIN : (size_t)columns;
}

static size_t columns_of_terminal(void)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return TERMINAL_COLUMNS_DEFAULT;
    return size.ws_col < TERMINAL_COLUMNS_MIN ? TERMINAL_COLUMNS_MIN : size.ws_col;
}

void terminal_look(struct terminal *ret_terminal)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    bool is_terminal = isatty(STDOUT_FILENO) == 1;
    size_t columns = columns_of_environment();

    if (columns == 0)
        columns = is_terminal ? columns_of_terminal() : SIZE_MAX;
    *ret_terminal = (struct terminal){
        .columns = columns,
        .is_terminal = is_terminal,
        .has_colours = is_terminal && !(no_colour && no_colour[0]) && !(term && strcmp(term, "dumb") == 0),
    };
}

void terminal_append(const struct terminal *terminal, struct strbuf *buf, enum colour colour,
                     struct slice text)
{
    static const char *const codes[] = {
        [COLOUR_GOOD] = "\033[32m", [COLOUR_WARNING] = "\033[33m", [COLOUR_BAD] = "\033[31m",
        [COLOUR_DIM] = "\033[2m",   [COLOUR_BOLD] = "\033[1m",
    };
    bool is_coloured = terminal->has_colours && colour != COLOUR_NONE && text.len > 0;

    if (is_coloured)
        strbuf_append_str(buf, codes[colour]);
    strbuf_append(buf, text.data, text.len);
    if (is_coloured)
        strbuf_append_str(buf, "\033[0m");
}

int terminal_write(const struct strbuf *buf)
{
    struct slice text = strbuf_slice(buf);

    if (strbuf_failed(buf)) {
        cli_say("there is too much to show");
        return EXIT_FAILED;
    }
    return fwrite(text.data, 1, text.len, stdout) == text.len && fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED;
}
