/*
 * targets.c - the list of servers that a link may connect to, from the settings and from the
 * cluster.
 */
#include "store/redis/link_internal.h"

#include "store/redis/reply.h"

/* First the nodes of the cluster, then the settings. */
static const struct redis_address *target_at(const struct redis_link *link, size_t index)
{
    return index < link->node_count ? &link->nodes[index] : &link->settings.servers[index - link->node_count];
}

static bool target_is_repeated(const struct redis_link *link, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (address_equals(target_at(link, i), target_at(link, index)))
            return true;
    }
    return false;
}

size_t targets_count(const struct redis_link *link)
{
    size_t count = link->node_count;

    for (size_t i = 0; i < link->settings.server_count; i++)
        count += !target_is_repeated(link, link->node_count + i);
    return count;
}

void targets_next(struct redis_link *link)
{
    size_t total = link->node_count + link->settings.server_count;

    for (size_t i = 0; i < total; i++) {
        const struct redis_address *target;

        link->next_target = (link->next_target + 1) % total;
        target = target_at(link, link->next_target);
        if (!address_equals(target, &link->target) && !target_is_repeated(link, link->next_target)) {
            link->target = *target;
            return;
        }
    }
}

void targets_learn(struct redis_link *link, const redisReply *reply)
{
    /* A node that does not know its own address means the one at which it was asked; a socket is none. */
    const char *asked = link->target.port ? link->target.host : "";
    size_t count;

    link->nodes_asked_ms = uv_now(link->loop);
    if (reply->type == REDIS_REPLY_ERROR) {
        /* Other codes than ERR, such as NOPERM, say nothing about that. */
        if (reply_has_code(reply->str, "ERR"))
            link->is_cluster = false;
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY)
        return;
    link->is_cluster = true;
    count = reply_cluster_nodes(reply, asked, link->nodes, LINK_NODES_MAX);
    /* A node that was reset knows none: what is known already is better. */
    if (count > 0)
        link->node_count = count;
}

bool targets_need_master(const struct redis_link *link)
{
    return link->sentinels || link->settings.server_count > 1;
}
