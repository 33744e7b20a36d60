/*
 * top.c - smart-router top: a live full-screen view of pools, pods, calls and events.
 *
 * One loop waits for keys, signals and answers at once. A key is handled and drawn before anything else; data
 * is drawn at most ten times a second, because a busy router has thousands of events.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/top_fetch.h"
#include "cli/top_guard.h"
#include "cli/top_keys.h"
#include "cli/top_screen.h"

enum {
    DRAW_PAUSE_MS = 100,
    TICK_MS = 1000, /* ages grow */
};

struct top {
    struct top_model model;
    struct top_fetch *fetch;
    struct top_screen *screen;
    int signals;       /* a signalfd */
    uint64_t drawn_ms; /* clock_elapsed_ms */
    uint64_t drawn;    /* the version of the model */
    bool is_urgent;    /* a key or a new size: draw at once */
    bool is_over;
};

static void take_signals(struct top *top)
{
    struct signalfd_siginfo info;

    while (read(top->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH) {
            top_screen_resize(top->screen);
            top->is_urgent = true;
        } else {
            top->is_over = true;
        }
    }
}

/* A terminal that is gone can always be read, and gives nothing. */
static bool is_terminal_gone(void)
{
    struct winsize size;

    return ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0;
}

static void take_keys(struct top *top)
{
    int key = top_screen_key(top->screen);

    if (key < 0 && is_terminal_gone())
        top->is_over = true;
    for (; key >= 0 && !top->is_over; key = top_screen_key(top->screen)) {
        enum top_answer answer = top_key(&top->model, key);

        top->is_urgent = true;
        if (answer == TOP_SEND)
            top_fetch_send(top->fetch);
        top->is_over = answer == TOP_QUIT;
    }
}

/* Draws if it is time. Returns how many milliseconds are left until it is. */
static uint64_t draw(struct top *top, uint64_t now_ms)
{
    uint64_t pause_ms = top->model.version != top->drawn ? DRAW_PAUSE_MS : TICK_MS;
    const struct top_time now = {.wall_ms = clock_wall_ms(), .elapsed_ms = now_ms};

    if (!top->is_urgent && now_ms - top->drawn_ms < pause_ms)
        return pause_ms - (now_ms - top->drawn_ms);
    top->is_urgent = false;
    top->drawn_ms = now_ms;
    top->drawn = top->model.version;
    top_screen_draw(top->screen, &top->model, &now);
    return TICK_MS;
}

static void loop(struct top *top)
{
    const int fds[] = {STDIN_FILENO, top->signals};

    top->is_urgent = true;
    while (!top->is_over) {
        uint64_t now_ms = clock_elapsed_ms();
        uint64_t wait_ms = top_fetch_step(top->fetch, now_ms);

        if (top_fetch_is_refused(top->fetch))
            return;
        wait_ms = min_u64(wait_ms, draw(top, now_ms));
        top_fetch_wait(top->fetch, fds, ARRAY_LEN(fds), wait_ms);
        take_signals(top);
        take_keys(top);
    }
}

static int open_signals(void)
{
    sigset_t signals;

    top_guard_signals(&signals);
    return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int run_on_screen(struct top *top)
{
    int err = top_screen_new(&top->screen);

    if (err < 0) {
        cli_say("top cannot use this terminal: %s", strerror(-err));
        return err == -ENOTTY ? EXIT_USAGE : EXIT_FAILED;
    }
    loop(top);
    top->screen = top_screen_free(top->screen);
    if (top->model.has_status)
        return EXIT_OK;
    if (top_fetch_is_refused(top->fetch)) {
        cli_say("%s: %s", top->model.url, top->model.link_error);
        return EXIT_FAILED;
    }
    cli_say("no answer from %s: %s", top->model.url,
            top->model.link_error[0] ? top->model.link_error : "it was not waited for");
    return EXIT_UNREACHABLE;
}

/* In the child: `arg` is the client. */
static int run(void *arg)
{
    struct client *client = arg;
    struct top top = {.signals = open_signals()};
    int status = EXIT_FAILED;

    top_model_init(&top.model, client_url(client));
    if (top.signals < 0 || top_fetch_new(client, &top.model, &top.fetch) < 0)
        cli_say("no memory");
    else
        status = run_on_screen(&top);
    top.fetch = top_fetch_free(top.fetch);
    top_model_release(&top.model);
    if (top.signals >= 0)
        close(top.signals);
    client_free(client);
    return status;
}

int command_top(const struct cli_options *options)
{
    CLEANUP(client_freep) struct client *client = NULL;
    int status = client_new(options, CLIENT_API, &client);

    return status == EXIT_OK ? top_guard_run(run, client) : status;
}
