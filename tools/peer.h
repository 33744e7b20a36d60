/*
 * peer.h - one WebSocket connection, either side of it: handshake, messages, pings, close.
 *
 * A peer lives inside its owner, whose memory may go only in `closed`. A ping is answered by itself.
 */
#ifndef TOOLS_PEER_H
#define TOOLS_PEER_H

#include "link.h"
#include "ws/handshake.h"
#include "ws/reader.h"

enum {
    PEER_HEAD_MAX = 16 * 1024,  /* of a request or of an answer */
    PEER_MESSAGE_MAX = 1 << 20, /* a longer message ends the connection */
};

struct peer;
struct url;

struct peer_ops {
    /* Server: a request came; peer_accept or peer_refuse answers it, now or later. */
    void (*request)(struct peer *peer, struct slice method, struct slice target);
    void (*open)(struct peer *peer); /* client: the handshake is done */
    void (*message)(struct peer *peer, enum ws_opcode opcode, char *data, size_t len); /* text or binary */
    void (*drained)(struct peer *peer);                                                /* may be NULL */
    /*
     * It is over; once, and never after peer_close. `code` is that of the close frame, or WS_CLOSE_ABNORMAL
     * with an error, or with the status of the answer that refused the handshake.
     */
    void (*ended)(struct peer *peer, int code, int err, int status);
    void (*closed)(struct peer *peer);
};

struct peer {
    struct link link;
    const struct peer_ops *ops;
    struct ws_reader reader;
    struct strbuf head;
    char key[WS_KEY_LEN + 1]; /* that came or was sent with the request */
    bool is_server;
    bool has_request; /* server: its head is complete */
    bool is_upgrade;  /* server: the request asks for a WebSocket */
    bool is_open;
    bool has_sent_close;
    bool has_ended;
    uint32_t mask; /* a client's next one */
};

/* As link_connect; asks for the URL's path. `extra` is further header lines, each with its CRLF, or "". */
int peer_connect(struct peer *peer, struct net *net, const struct peer_ops *ops,
                 const struct sockaddr *address, const struct url *url, const char *extra) MUST_CHECK;

/* A header of the request, in `request`: its value. `.data` is NULL if there is none. */
struct slice peer_header(const struct peer *peer, const char *name);

/* As link_accept. */
int peer_take(struct peer *peer, struct net *net, const struct peer_ops *ops,
              uv_stream_t *listener) MUST_CHECK;

void peer_accept(struct peer *peer);

/* Answers with a body and closes when it is sent. */
void peer_answer(struct peer *peer, int status, const char *content_type, struct slice body);

/* `data` has WS_HEADER_MAX bytes of room in front of it, and is changed. */
int peer_send(struct peer *peer, enum ws_opcode opcode, char *data, size_t len) MUST_CHECK;

/* Sends the first half of the frame only: for peers that are about to fail. */
void peer_send_half(struct peer *peer, enum ws_opcode opcode, char *data, size_t len);

/* Sends a close frame; `ended` follows when the other side has answered or gone. */
void peer_say_goodbye(struct peer *peer, int code);

/* Closes without another word; `ended` will not come any more. */
void peer_close(struct peer *peer);
void peer_reset(struct peer *peer);

#endif
