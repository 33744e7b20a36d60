/*
 * targets.c - the list of servers that a link may connect to, from the settings and from the
 * cluster.
 */
#include "store/redis/link_internal.h"

#include "store/redis/address.h"
#include "store/redis/cluster.h"
#include "store/redis/reply.h"

/* First the nodes of the cluster, then the settings. */
static const struct redis_address *target_at(const struct redis_link *link, size_t index)
{
    return index < link->targets.node_count ? &link->targets.nodes[index]
                                            : &link->settings.servers[index - link->targets.node_count];
}

static bool target_is_repeated(const struct redis_link *link, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (address_equals(target_at(link, i), target_at(link, index)))
            return true;
    }
    return false;
}

/* With a choice, a server must say that it is a master before it is used. */
static bool targets_need_master(const struct redis_link *link)
{
    return link->sentinels || link->settings.server_count > 1;
}

void targets_init(struct redis_link *link)
{
    link->targets.current = link->settings.servers[0];
    link->targets.must_be_master = targets_need_master(link);
}

void targets_copy(struct redis_link *link, const struct redis_link *from)
{
    memcpy(link->targets.nodes, from->targets.nodes, sizeof(from->targets.nodes));
    link->targets.node_count = from->targets.node_count;
    link->targets.is_cluster = from->targets.is_cluster;
}

void targets_set(struct redis_link *link, const struct redis_address *target)
{
    link->targets.current = *target;
}

void targets_set_cluster(struct redis_link *link)
{
    link->targets.is_cluster = true;
}

void targets_require_master(struct redis_link *link)
{
    link->targets.must_be_master = true;
}

void targets_found_master(struct redis_link *link)
{
    link->targets.must_be_master = targets_need_master(link);
}

bool targets_are_due(struct redis_link *link)
{
    uint64_t now_ms = uv_now(link->loop);

    if (link->targets.node_count == 0 || now_ms - link->targets.nodes_asked_ms < LINK_NODES_EVERY_MS)
        return false;
    link->targets.nodes_asked_ms = now_ms;
    return true;
}

size_t targets_count(const struct redis_link *link)
{
    size_t count = link->targets.node_count;

    for (size_t i = 0; i < link->settings.server_count; i++)
        count += !target_is_repeated(link, link->targets.node_count + i);
    return count;
}

void targets_next(struct redis_link *link)
{
    size_t total = link->targets.node_count + link->settings.server_count;

    for (size_t i = 0; i < total; i++) {
        const struct redis_address *target;

        link->targets.next = (link->targets.next + 1) % total;
        target = target_at(link, link->targets.next);
        if (!address_equals(target, &link->targets.current) &&
            !target_is_repeated(link, link->targets.next)) {
            link->targets.current = *target;
            return;
        }
    }
}

void targets_learn(struct redis_link *link, const redisReply *reply)
{
    /*
     * A node that does not know its own address means the one at which it was asked; a socket is
     * none.
     */
    const char *asked = link->targets.current.port ? link->targets.current.host : "";
    size_t count;

    link->targets.nodes_asked_ms = uv_now(link->loop);
    if (reply->type == REDIS_REPLY_ERROR) {
        /* Other codes than ERR, such as NOPERM, say nothing about that. */
        if (reply_has_code(reply->str, "ERR"))
            link->targets.is_cluster = false;
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY)
        return;
    link->targets.is_cluster = true;
    count = reply_cluster_nodes(reply, asked, link->targets.nodes, LINK_NODES_MAX);
    /* A node that was reset knows no nodes: the known ones are better. */
    if (count > 0)
        link->targets.node_count = count;
}
