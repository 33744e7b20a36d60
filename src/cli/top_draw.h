/*
 * top_draw.h - draws the model of `smart-router top` on a canvas: a terminal (top_screen.c), or whatever a
 * test has.
 *
 * Only visible rows cost something. What reaches the canvas is printable ASCII, whatever the names are.
 */
#ifndef CLI_TOP_DRAW_H
#define CLI_TOP_DRAW_H

#include "cli/top_model.h"

enum {
    TOP_WIDTH_MIN = 80,
    TOP_HEIGHT_MIN = 24,
    TOP_WIDTH_MAX = 512, /* what a wider terminal has on its right stays empty */
};

enum top_style {
    TOP_PLAIN,
    TOP_BOLD,
    TOP_GREY,
    TOP_MARKED, /* the selected row, the current view */
    TOP_GOOD,
    TOP_BUSY,
    TOP_LEAVING,
    TOP_BAD,
    TOP_STYLES, /* how many */
};

/* `text` has `len` characters, all printable ASCII, and fits. The canvas is empty before a drawing. */
typedef void (*top_put_fn)(void *arg, unsigned row, unsigned column, enum top_style style, const char *text,
                           size_t len);

struct top_canvas {
    unsigned width;
    unsigned height;
    top_put_fn put;
    void *arg;
};

struct top_time {
    uint64_t wall_ms;
    uint64_t elapsed_ms;
};

void top_draw(struct top_model *model, const struct top_canvas *canvas, const struct top_time *now);

#endif
