/*
 * cluster.c - reads the addresses of a cluster's nodes from replies.
 */
#include "store/redis/cluster.h"

#include <stdlib.h>

#include "store/redis/address.h"
#include "store/redis/reply.h"

bool reply_moved_to(const char *text, const char *asked, struct redis_address *ret_address)
{
    const char *host;
    const char *colon;
    char *end;
    long port;

    if (!reply_has_code(text, "MOVED"))
        return false;
    host = strchr(text + 5, ' ');
    host = host ? strchr(host + 1, ' ') : NULL;
    if (!host)
        return false;
    host++;
    /* The last one: an IPv6 address has colons itself, and no brackets here. */
    colon = strrchr(host, ':');
    if (!colon)
        return false;
    errno = 0;
    port = strtol(colon + 1, &end, 10);
    if (errno || end == colon + 1 || (*end != '\0' && *end != ' '))
        return false;
    if (colon == host)
        return address_set(ret_address, slice_of(asked), port);
    return address_set(ret_address, (struct slice){host, (size_t)(colon - host)}, port);
}

static size_t nodes_add(const redisReply *node, const char *asked, struct redis_address *nodes, size_t count)
{
    struct redis_address address;
    struct slice host = slice_of(asked);

    if (node->type != REDIS_REPLY_ARRAY || node->elements < 2 ||
        node->element[1]->type != REDIS_REPLY_INTEGER)
        return count;
    if (node->element[0]->type == REDIS_REPLY_STRING && node->element[0]->len > 0)
        host = (struct slice){node->element[0]->str, node->element[0]->len};
    /* "?": the node should announce a name, but has none. */
    if (slice_equals(host, "?") || !address_set(&address, host, node->element[1]->integer))
        return count;
    for (size_t i = 0; i < count; i++) {
        if (address_equals(&nodes[i], &address))
            return count;
    }
    nodes[count] = address;
    return count + 1;
}

size_t reply_cluster_nodes(const redisReply *reply, const char *asked, struct redis_address *ret_nodes,
                           size_t max)
{
    size_t count = 0;

    if (reply->type != REDIS_REPLY_ARRAY)
        return 0;
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *range = reply->element[i];

        /*
         * First slot, last slot, then the nodes that have the range: the master and its replicas.
         */
        for (size_t n = 2; range->type == REDIS_REPLY_ARRAY && n < range->elements && count < max; n++)
            count = nodes_add(range->element[n], asked, ret_nodes, count);
    }
    return count;
}
