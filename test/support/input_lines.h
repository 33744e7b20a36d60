/*
 * input_lines.h - the lines of standard input, on a loop: the commands of a driver program.
 *
 * Only for the programs of test/support that functional tests drive.
 */
#ifndef TEST_SUPPORT_INPUT_LINES_H
#define TEST_SUPPORT_INPUT_LINES_H

#include <uv.h>

enum { INPUT_LINE_MAX = 65536 };

/* `line` is NULL at the end of the input. The callee may change the text; it is gone afterwards. */
typedef void (*input_line_fn)(void *arg, char *line);

struct input_lines {
    uv_pipe_t pipe;
    input_line_fn run;
    void *arg;
    size_t len;
    char text[INPUT_LINE_MAX];
};

/* Asserts that standard input can be read. `lines` stays where it is until it is closed. */
void input_lines_start(struct input_lines *lines, uv_loop_t *loop, input_line_fn run, void *arg);
void input_lines_close(struct input_lines *lines);

/* Splits a line at its spaces, in place. Returns the number of words; 0 for NULL. */
size_t input_words(char *line, const char **words, size_t max);

#endif
