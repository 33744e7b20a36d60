/*
 * top_screen.h - the terminal of `smart-router top`, with ncurses. Only top_screen.c and top_guard.c know
 * ncurses.
 *
 * ncurses has its state in the process, so there is one screen at a time.
 */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include "cli/top_draw.h"

struct top_screen; /* opaque: see top_screen.c */

/* Takes the terminal. 0, -ENOMEM or -ENOTTY: it is none that ncurses can use. */
int top_screen_new(struct top_screen **ret_screen) MUST_CHECK;

/* Gives the terminal back. Accepts NULL; always returns NULL. */
struct top_screen *top_screen_free(struct top_screen *screen);
void top_screen_freep(struct top_screen **screen);

/* The terminal has another size. */
void top_screen_resize(struct top_screen *screen);

void top_screen_draw(struct top_screen *screen, struct top_model *model, const struct top_time *now);

/* The next key: see top_keys.h; 0: one without a meaning here; -1: there is none now. Never waits. */
int top_screen_key(struct top_screen *screen);

#endif
