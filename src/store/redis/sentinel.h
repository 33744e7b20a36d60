/*
 * sentinel.h - asks the sentinels where the master is.
 *
 * One after the other, until one knows; the one that answered is asked first the next time, on the
 * same connection if that still stands. One that refuses the password is passed over like one that
 * is away. Functions in this file do not log.
 */
#ifndef STORE_REDIS_SENTINEL_H
#define STORE_REDIS_SENTINEL_H

#include "store/redis/link.h"

struct sentinels; /* opaque: see sentinel.c */

struct sentinel_hooks {
    void (*found)(void *arg, const struct redis_address *master);
    void (*failed)(void *arg, const char *reason); /* none of them knows */
    void (*dirty)(void *arg);                      /* call sentinels_flush before the loop waits */
    void (*closed)(void *arg);                     /* after sentinels_close; it is freed */
    void *arg;
};

/* Copies the settings that it needs. 0, -ENOMEM. */
int sentinels_new(uv_loop_t *loop, const struct redis_link_settings *settings,
                  const struct sentinel_hooks *hooks, struct sentinels **ret_sentinels) MUST_CHECK;

/* `found` or `failed` follows, later. Not while another question is under way. */
void sentinels_ask(struct sentinels *sentinels);
bool sentinels_is_asking(const struct sentinels *sentinels);

/* The master that the first one named was none: it comes last from now on. */
void sentinels_distrust(struct sentinels *sentinels);

void sentinels_flush(struct sentinels *sentinels);

/* A question under way stays without an answer. */
void sentinels_close(struct sentinels *sentinels);

#endif
