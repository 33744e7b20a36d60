/*
 * cluster.h - the nodes of a cluster, as replies name them. Pure functions.
 */
#ifndef STORE_REDIS_CLUSTER_H
#define STORE_REDIS_CLUSTER_H

#include "store/redis/link.h"

/*
 * "MOVED 3999 127.0.0.1:6381": where the slot is. An empty host means the one that was asked,
 * `asked`. False: not such a text.
 */
bool reply_moved_to(const char *text, const char *asked, struct redis_address *ret_address);

/*
 * Reads the nodes out of the answer to CLUSTER SLOTS, each once; returns how many, `max` at most.
 */
size_t reply_cluster_nodes(const redisReply *reply, const char *asked, struct redis_address *ret_nodes,
                           size_t max);

#endif
