/*
 * link.h - one way to Redis: finds the server, connects, pipelines, times out, reconnects.
 *
 * Knows nothing of the stored data. A request that was sent on a connection is answered by that
 * connection or fails with it: a reply is never taken for a request of another one. While there is
 * no connection, requests are refused at once. Loop thread only.
 */
#ifndef STORE_REDIS_LINK_H
#define STORE_REDIS_LINK_H

#include <hiredis/hiredis.h>
#include <uv.h>

#include "base/base.h"
#include "store/redis/script.h"

struct redis_link;         /* opaque: see link.c */
struct tls_client_context; /* see tls/client.h */

enum {
    REDIS_SENTINELS_MAX = 16,
    REDIS_SERVERS_MAX = 16,
    REDIS_WAITING_MAX = 16384, /* requests under way at once; beyond it -EBUSY */
    REDIS_ARGS_MAX = 4096,     /* of one request */
};

struct redis_address {
    char host[256]; /* a name, an address, or the path of a socket when port is 0 */
    uint16_t port;
};

/*
 * Borrowed for the call; data NULL: from here on no message is missed, as long as the connection
 * stands.
 */
typedef void (*redis_message_fn)(void *arg, struct slice message);

/* All strings are copied. */
struct redis_link_settings {
    struct redis_address servers[REDIS_SERVERS_MAX]; /* unused with sentinels; else at least one */
    size_t server_count;
    struct redis_address sentinels[REDIS_SENTINELS_MAX];
    size_t sentinel_count;
    const char *master_name;        /* with sentinels */
    const char *sentinel_user;      /* of the sentinels themselves; "" : none */
    const char *sentinel_password;  /* "" : none */
    bool is_tls;                    /* the servers speak TLS, and so do the sentinels … */
    bool sentinels_are_clear;       /* … unless this is said */
    struct tls_client_context *tls; /* with is_tls; borrowed, and outlives the link */
    const char *user;               /* "" : none */
    const char *password;           /* "" : none */
    int database;
    uint64_t timeout_ms; /* for a connection to come about, and for each reply */
    int wait_replicas;   /* REDIS_WAIT_REPLICAS: used by redis_link_wait */
    /*
     * A key that is set for settle_ms where the link comes to another server than before, ahead of everything
     * else: that one may not know what the last one was told. NULL: none.
     */
    const char *settle_key;
    uint64_t settle_ms;
    /* Called on every change, never inside a call of this header. May be NULL. */
    void (*on_change)(void *arg, bool is_up);
    void *on_change_arg;
    /*
     * Called once per turn of the loop after redis_link_wake, before what there is to send goes
     * out. May be NULL.
     */
    void (*on_turn)(void *arg);
    void *on_turn_arg;
    /* Set by redis_link_subscribe alone. */
    const char *channel;
    redis_message_fn on_message;
    void *on_message_arg;
};

/*
 * "redis://[user:password@]host[:port][,host[:port]…][/db]", or a list of such URLs, separated by
 * commas, whose users, passwords and databases are the same or left out; "unix:///path[?db=n]"
 * (also "unix://user:password@/path"), one alone; "rediss://…", as redis://, sets is_tls, and all
 * URLs of a list must be so. 0 or -EINVAL with a sentence. User and password are percent-decoded into
 * `credentials`, which the settings then point into. A server that is named twice counts once.
 */
int redis_link_parse_url(const char *url, struct redis_link_settings *settings, char *credentials,
                         size_t credentials_size, char *error, size_t error_size) MUST_CHECK;

/*
 * "host:port,host:port", port 26379 if left out: fills settings->sentinels. 0 or -EINVAL with a
 * sentence.
 */
int redis_link_parse_sentinels(const char *text, struct redis_link_settings *settings, char *error,
                               size_t error_size) MUST_CHECK;

/* Starts to connect at once and goes on trying, with backoff and jitter, until it is closed. */
int redis_link_new(uv_loop_t *loop, const struct redis_link_settings *settings,
                   struct redis_link **ret_link) MUST_CHECK;

/*
 * A second way to the same Redis, of its own, that only listens: what is published on `channel`,
 * which is borrowed and must stay, goes to `on_message`. It reconnects by itself, and data NULL
 * comes again then. It takes no requests.
 */
int redis_link_subscribe(const struct redis_link *link, const char *channel, redis_message_fn on_message,
                         void *arg, struct redis_link **ret_link) MUST_CHECK;

/*
 * Writes what was sent to the socket now, not at the end of the turn. Runs no callback: what fails
 * is reported at the end of the turn, too.
 */
void redis_link_flush(struct redis_link *link);

/* Asks for on_turn at the end of this turn of the loop. */
void redis_link_wake(struct redis_link *link);

bool redis_link_is_up(const struct redis_link *link);
/* For how long the present connection has been up, in ms; 0 while there is none. */
uint64_t redis_link_up_ms(const struct redis_link *link);
/* Why it is down: the last error, in words, without secrets. "" when it is up. */
const char *redis_link_detail(const struct redis_link *link);
/* How often a connection was lost or could not be made, since the start. */
uint64_t redis_link_failures(const struct redis_link *link);

/*
 * `err` 0: `reply` is Redis's answer, borrowed for the duration of the call; never of type
 * REDIS_REPLY_ERROR.
 * `err` < 0, `reply` NULL:
 *   -ENOTCONN   the connection was lost, or closed, before the answer came
 *   -ETIMEDOUT  no answer within timeout_ms; the connection is dropped, because its order is lost
 *   -EAGAIN     LOADING, BUSY, MASTERDOWN, TRYAGAIN, CLUSTERDOWN: not now
 *   -EROFS      READONLY: this server is a replica; the link looks for the master anew
 *   -ENOSPC     OOM, MISCONF: Redis cannot write
 *   -EACCES     NOAUTH, WRONGPASS, NOPERM
 *   -EBADMSG    WRONGTYPE: a key was made by hand with another type
 *   -ECANCELED  FENCED, of our own scripts: another router leads by now, and nothing was changed
 *   -ETIMEDOUT  LATE as well: Redis got it too late, and nothing was changed. (If only our idea of
 *               the server's time was wrong, it is sent once more.)
 *   -ESTALE     STALE, of our own scripts: the tiers are others by now, and nothing was changed
 *   -EIO        any other error; the text is logged
 * Every error that Redis itself reports is logged once per second at most, with its text.
 */
typedef void (*redis_reply_fn)(void *arg, int err, const redisReply *reply);

/*
 * Calls a script by its hash: EVALSHA sha 1 key args…. A script that the server does not know is
 * loaded and called again, once. Arguments are copied. 0; -ENOTCONN while there is no connection;
 * -EBUSY; -ENOMEM.
 *
 * A script that changes something gets one argument more: the time, by the server's clock, after
 * which this link has given the request up. It does nothing then. So a request that failed without
 * an answer may have been carried out until timeout_ms after it was sent, but not later.
 */
int redis_link_call(struct redis_link *link, const struct redis_script *script, const char *key,
                    const struct slice *args, size_t count, redis_reply_fn done, void *arg) MUST_CHECK;
/*
 * The same for a request that has waited here already: the script does nothing after `deadline_ms`, by the
 * clock of the loop (uv_now), either. Redis still has timeout_ms to answer before the connection is dropped.
 */
int redis_link_call_until(struct redis_link *link, const struct redis_script *script, const char *key,
                          const struct slice *args, size_t count, uint64_t deadline_ms, redis_reply_fn done,
                          void *arg) MUST_CHECK;

/*
 * A plain command, such as HGET or PUBLISH. The same otherwise. `key_index` says which argument is
 * a key, for a cluster.
 */
int redis_link_command(struct redis_link *link, const struct slice *args, size_t count, size_t key_index,
                       redis_reply_fn done, void *arg) MUST_CHECK;

/*
 * Waits until settings.wait_replicas replicas have everything that was sent before (WAIT). 0 with
 * them fewer than asked for within the timeout: err -ETIMEDOUT, and the connection stays. Does
 * nothing but answer when wait_replicas is 0.
 *
 * WAIT knows of writes of its own connection only. A caller that relies on writes of others gives
 * `mark_key`, which must stay: it is written first, so that WAIT waits for that and for all that
 * came before it. NULL: the write to wait for was made on this connection.
 */
int redis_link_wait(struct redis_link *link, const char *mark_key, redis_reply_fn done, void *arg) MUST_CHECK;

/*
 * An error that Redis reported inside of an answer to several operations: logs it and treats the
 * connection as after any such error. Returns the errno of redis_reply_fn.
 */
int redis_link_report(struct redis_link *link, const char *text);

/* Answers everything that is under way with -ENOTCONN, frees the link, then calls `closed`. */
void redis_link_close(struct redis_link *link, void (*closed)(void *arg), void *arg);

#endif
