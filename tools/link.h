/*
 * link.h - one TCP connection on the loop, with a bounded queue of what is not sent yet.
 *
 * A link lives inside its owner. The owner's memory may go only in `closed`, which comes once, some time
 * after link_close.
 */
#ifndef TOOLS_LINK_H
#define TOOLS_LINK_H

#include <uv.h>

#include "base/base.h"
#include "net.h"

enum {
    LINK_QUEUE_MAX = 4 << 20,  /* bytes; a write beyond it fails */
    LINK_QUEUE_HIGH = 1 << 20, /* link_is_full */
};

struct link;

struct link_ops {
    void (*connected)(struct link *link); /* after link_connect; NULL for links that were accepted */
    void (*data)(struct link *link, char *data, size_t len);
    void (*drained)(struct link *link); /* all is sent; may be NULL */
    void (*ended)(struct link *link,
                  int err); /* 0: the other side has closed. Once; nothing but `closed` follows */
    void (*closed)(struct link *link);
};

struct link {
    uv_tcp_t tcp;
    uv_connect_t connect;
    struct net *net;
    const struct link_ops *ops;
    int fd; /* -1 until it is connected */
    bool is_reading;
    bool has_ended;
};

/* 0: `connected` or `ended` follows. On failure `ended` does not follow; link_close is needed all the same.
 */
int link_connect(struct link *link, struct net *net, const struct link_ops *ops,
                 const struct sockaddr *address) MUST_CHECK;

/* Takes the next connection of a listener; as above. */
int link_accept(struct link *link, struct net *net, const struct link_ops *ops,
                uv_stream_t *listener) MUST_CHECK;

/* Copies what the kernel does not take at once. -ENOBUFS: the queue is full. */
int link_write(struct link *link, const char *data, size_t len) MUST_CHECK;

void link_read_stop(struct link *link);
void link_read_start(struct link *link);

bool link_is_full(const struct link *link);
bool link_is_closing(const struct link *link);

/* Both may be called again. What is queued is not sent; what the kernel has is, except after a reset. */
void link_close(struct link *link);
void link_reset(struct link *link);

#endif
