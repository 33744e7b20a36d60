/*
 * side.h - one socket of a stream: what is read from it, and what waits to be written to it.
 *
 * What is sent goes to the kernel at once; only what it does not take is kept, and whoever sends is
 * told when that is gone. All sides of a loop read into the same memory. Inside the module only.
 */
#ifndef GATEWAY_SIDE_H
#define GATEWAY_SIDE_H

#include <uv.h>

#include "base/base.h"

struct side;

enum { SIDE_BUFFER = 64 * 1024, SIDE_PARTS_MAX = 8 };

/* What happens to a side. None of these runs inside a function of this header. */
struct side_events {
    /* `data` may be changed. */
    void (*received)(struct side *side, char *data, size_t len);
    /* Nothing more comes. `err` 0: the other end has finished. < 0: the socket is broken. */
    void (*ended)(struct side *side, int err);
    /* Nothing waits to be written any more; < 0: it could not be written, the socket is broken. */
    void (*drained)(struct side *side, int err);
    /* side_finish is done: all was written, and the other end knows that nothing more comes. */
    void (*finished)(struct side *side);
    /* After side_close. The side is gone. */
    void (*closed)(void *arg);
};

struct side_settings {
    uv_loop_t *loop;
    const struct side_events *events; /* borrowed */
    void *arg;
    char *scratch;        /* SIDE_BUFFER bytes that all sides of a loop may share; borrowed */
    uint64_t patience_ms; /* the kernel gives up on a peer that acknowledges nothing for so long */
};

struct side {
    unsigned magic;
    uv_tcp_t *tcp;
    int fd;
    struct side_settings settings;
    uint64_t bytes;   /* that were sent to it */
    size_t pending;   /* bytes that the kernel has not taken yet */
    unsigned handles; /* that must come back before it is freed */
    uv_shutdown_t shutdown;
    bool is_reading;
    bool has_ended;    /* sends nothing more */
    bool is_finishing; /* nothing more is sent to it */
    bool is_finished;  /* and it knows that */
    bool is_closing;
};

/* Takes the socket, which nobody reads, in memory of its own. -ENOMEM: it is still the caller's. */
int side_new(const struct side_settings *settings, uv_tcp_t *tcp, struct side **ret_side) MUST_CHECK;

/* Frees a side that was never used; the socket is the caller's again. */
void side_give_back(struct side *side);

/* 0, or a negative errno: the socket is broken. */
int side_read(struct side *side) MUST_CHECK;
void side_stop_reading(struct side *side);

/* A piece of what is sent. One that lasts stays where it is until the side is closed, and is never copied. */
struct side_part {
    const char *data;
    size_t len;
    bool lasts;
};

/*
 * Sends them, in order, behind what waits already. 0: they are sent, or `pending` says how much waits, and
 * `drained` runs later. A negative errno: the socket is broken, or there is no memory; nothing can be sent
 * any more. At most SIDE_PARTS_MAX parts.
 */
int side_send(struct side *side, const struct side_part *parts, size_t count) MUST_CHECK;

/*
 * Nothing more comes for this side: it is told so once it has all that waits, and then `finished` runs. If
 * that is not possible `is_finished` is set at once, and nothing runs. Once is enough.
 */
void side_finish(struct side *side);

/* Closes the socket at once; `closed` runs later, and nothing else does from now on. */
void side_close(struct side *side);

/*
 * Nobody is interested in the side any more: sends `last`, if there is any, and closes the socket when all
 * is written, a little later at the latest. Nothing is told from now on; the side frees itself.
 */
void side_leave(struct side *side, struct slice last);

#endif
