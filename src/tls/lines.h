/*
 * lines.h - the order in which connections go on, turn after turn of the loop.
 * Internal to the module.
 *
 * Connections that could go on and may not yet are in one of four lines. A turn takes so many of each:
 *
 * - hellos (nothing was sent to the client yet) and answered (something was): at most LINES_STEPS_MAX steps
 * of handshakes together, and none begins after LINES_STEPS_NS. The two lines take steps in turns.
 * - owing (open, and they owe data: see work.h): one, in turns with the handshakes.
 * - again (open): all who were in line when the turn began, as long as LINES_SHARE_NS are not over.
 *
 * The first in line always goes on, however long the others took. No I/O, no OpenSSL; the clock is
 * clock_elapsed_ns.
 */
#ifndef TLS_LINES_H
#define TLS_LINES_H

#include "base/list.h"

enum {
    LINES_STEPS_MAX = 8,          /* of handshakes, in one turn of the loop */
    LINES_STEPS_NS = 500 * 1000,  /* no further step begins after so long */
    LINES_SHARE_NS = 1000 * 1000, /* likewise, for connections in line, and for those that were polled */
};

/* Takes the connection of `link` out of its line and goes on with it. It may get in line again. */
typedef void (*tls_lines_fn)(struct list *link);

struct tls_lines {
    tls_lines_fn go_on; /* for those that are open */
    tls_lines_fn step;  /* for handshakes */
    struct list hellos;
    struct list answered;
    struct list owing;
    struct list again;
    size_t line_max;        /* of hellos and of answered: beyond it nobody should be accepted */
    bool owing_had_turn;    /* then it is the handshakes' turn */
    bool answered_had_step; /* then it is the hellos' turn */
    uint64_t polled_ms;     /* uv_now of the poll whose clients are being served */
    uint64_t polled_ns;     /* when the first of them was */
};

void tls_lines_init(struct tls_lines *lines, size_t line_max, tls_lines_fn go_on, tls_lines_fn step);

/* Gets in line; `link` is in none. */
void tls_lines_add(struct list *line, struct list *link);

/* One turn. */
void tls_lines_turn(struct tls_lines *lines);

bool tls_lines_are_empty(const struct tls_lines *lines);

/* Do so many handshakes wait that nobody new should be accepted? */
bool tls_lines_are_behind(const struct tls_lines *lines);

/*
 * May those whose sockets the loop has polled still be served at once? `now_ms` is the same for all of one
 * poll.
 */
bool tls_lines_have_time(struct tls_lines *lines, uint64_t now_ms) MUST_CHECK;

#endif
