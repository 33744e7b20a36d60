/*
 * top_screen.c - draws on the terminal and reads its keys, with ncurses.
 */
#include "cli/top_screen.h"

#include <curses.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/top_keys.h"

enum {
    ESCAPE_MS = 25, /* so long ncurses waits for the rest of a key that begins with Escape */
    CTRL_L = 12,
    CTRL_H = 8,
};

struct top_screen {
    SCREEN *screen;
    bool has_colours;
};

/* The colours of a style, and what it has without them. */
static const struct {
    short colour; /* -1: none */
    attr_t always;
    attr_t without_colours;
} styles[TOP_STYLES] = {
    [TOP_PLAIN] = {-1, A_NORMAL, A_NORMAL},
    [TOP_BOLD] = {-1, A_BOLD, A_BOLD},
    [TOP_GREY] = {-1, A_DIM, A_DIM},
    [TOP_MARKED] = {-1, A_REVERSE, A_REVERSE},
    [TOP_GOOD] = {COLOR_GREEN, A_NORMAL, A_NORMAL},
    [TOP_BUSY] = {COLOR_YELLOW, A_NORMAL, A_NORMAL},
    [TOP_LEAVING] = {COLOR_MAGENTA, A_NORMAL, A_BOLD},
    [TOP_BAD] = {COLOR_RED, A_BOLD, A_BOLD},
};

static void set_colours(struct top_screen *screen)
{
    const char *no_color = getenv("NO_COLOR");

    if ((no_color && no_color[0]) || !has_colors() || start_color() == ERR)
        return;
    screen->has_colours = true;
    use_default_colors();
    for (int i = 0; i < TOP_STYLES; i++) {
        if (styles[i].colour >= 0)
            init_pair((short)(i + 1), styles[i].colour, -1);
    }
}

int top_screen_new(struct top_screen **ret_screen)
{
    CLEANUP(top_screen_freep) struct top_screen *screen = calloc(1, sizeof(*screen));

    if (!screen)
        return -ENOMEM;
    screen->screen = newterm(NULL, stdout, stdin);
    if (!screen->screen)
        return -ENOTTY;
    cbreak();
    noecho();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    curs_set(0);
    set_colours(screen);
    *ret_screen = TAKE(screen);
    return 0;
}

struct top_screen *top_screen_free(struct top_screen *screen)
{
    if (!screen)
        return NULL;
    if (screen->screen) {
        /* If our parent was killed, the shell has the terminal already, and would not let us restore it. */
        signal(SIGTTOU, SIG_IGN);
        endwin();
        delscreen(screen->screen);
    }
    free(screen);
    return NULL;
}

void top_screen_freep(struct top_screen **screen)
{
    *screen = top_screen_free(*screen);
}

void top_screen_resize(struct top_screen *screen UNUSED)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
}

static void put(void *arg, unsigned row, unsigned column, enum top_style style, const char *text, size_t len)
{
    const struct top_screen *screen = arg;
    attr_t attributes = screen->has_colours ? styles[style].always : styles[style].without_colours;
    short pair = screen->has_colours && styles[style].colour >= 0 ? (short)(style + 1) : 0;

    attr_set(attributes, pair, NULL);
    mvaddnstr((int)row, (int)column, text, (int)len);
}

void top_screen_draw(struct top_screen *screen, struct top_model *model, const struct top_time *now)
{
    const struct top_canvas canvas = {
        .width = (unsigned)COLS,
        .height = (unsigned)LINES,
        .put = put,
        .arg = screen,
    };

    attr_set(A_NORMAL, 0, NULL);
    erase();
    top_draw(model, &canvas, now);
    refresh(); /* sends the difference to what the terminal shows */
}

int top_screen_key(struct top_screen *screen UNUSED)
{
    int key = getch();

    switch (key) {
    case ERR:
        return -1;
    case KEY_UP:
        return TOP_KEY_UP;
    case KEY_DOWN:
        return TOP_KEY_DOWN;
    case KEY_PPAGE:
        return TOP_KEY_PAGE_UP;
    case KEY_NPAGE:
        return TOP_KEY_PAGE_DOWN;
    case KEY_HOME:
        return TOP_KEY_HOME;
    case KEY_END:
        return TOP_KEY_END;
    case KEY_BTAB:
        return TOP_KEY_BACK_TAB;
    case KEY_BACKSPACE:
    case CTRL_H:
        return TOP_KEY_BACKSPACE;
    case KEY_ENTER:
    case '\r':
        return TOP_KEY_ENTER;
    case CTRL_L:
        clearok(curscr, TRUE);
        return 0;
    default:
        return key < 128 ? key : 0;
    }
}
