/* input_lines.c - reads standard input and runs a callback for each line of it. */
#include "input_lines.h"

#include <unistd.h>

#include "base/base.h"

static void on_alloc(uv_handle_t *handle, size_t suggested UNUSED, uv_buf_t *ret_buf)
{
    struct input_lines *lines = handle->data;

    *ret_buf = uv_buf_init(lines->text + lines->len, (unsigned)(INPUT_LINE_MAX - lines->len));
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf UNUSED)
{
    struct input_lines *lines = stream->data;
    char *end;

    if (size < 0) {
        uv_read_stop(stream);
        lines->run(lines->arg, NULL);
        return;
    }
    lines->len += (size_t)size;
    while ((end = memchr(lines->text, '\n', lines->len)) != NULL) {
        size_t used = (size_t)(end - lines->text) + 1;

        *end = '\0';
        lines->run(lines->arg, lines->text);
        memmove(lines->text, lines->text + used, lines->len - used);
        lines->len -= used;
    }
}

void input_lines_start(struct input_lines *lines, uv_loop_t *loop, input_line_fn run, void *arg)
{
    int rc;

    lines->run = run;
    lines->arg = arg;
    uv_pipe_init(loop, &lines->pipe, 0);
    lines->pipe.data = lines;
    rc = uv_pipe_open(&lines->pipe, STDIN_FILENO);
    assert(rc == 0);
    rc = uv_read_start((uv_stream_t *)&lines->pipe, on_alloc, on_read);
    assert(rc == 0);
}

void input_lines_close(struct input_lines *lines)
{
    uv_close((uv_handle_t *)&lines->pipe, NULL);
}

size_t input_words(char *line, const char **words, size_t max)
{
    size_t count = 0;

    for (char *rest = line; count < max && (words[count] = strsep(&rest, " ")) != NULL;)
        count++;
    return count;
}
