/*
 * clients.c - counts connections for each client address, and refuses those above the limit.
 */
#include "http/clients.h"

#include <stdlib.h>

enum { CLIENT_BITS_V6 = 64 };

struct client {
    struct map_node node;
    size_t count;
    struct address address; /* the key: there is no padding in it */
};

_Static_assert(sizeof(struct address) == 17, "what is compared byte by byte must have no gaps");

void clients_init(struct clients *clients, size_t max, const struct trusted *trusted)
{
    map_init(&clients->map);
    clients->max = max;
    clients->trusted = trusted;
}

void clients_release(struct clients *clients)
{
    assert(clients->map.count == 0);
    map_release(&clients->map);
}

static int client_new(struct clients *clients, const struct address *address, struct client **ret_client)
{
    struct client *client = map_reserve(&clients->map) == 0 ? calloc(1, sizeof(*client)) : NULL;

    if (!client)
        return -ENOMEM;
    client->address = *address;
    map_put(&clients->map, &client->node, (const char *)&client->address, sizeof(client->address));
    *ret_client = client;
    return 0;
}

int clients_enter(struct clients *clients, const char *peer, struct client **ret_client)
{
    struct client *client = NULL;
    struct map_node *node;
    struct address address;

    if (clients->max == 0 || address_parse(slice_of(peer), &address) < 0 ||
        trusted_has(clients->trusted, &address)) {
        *ret_client = NULL;
        return 0;
    }
    if (!address.is_ipv4)
        address_cut(&address, CLIENT_BITS_V6);
    node = map_get(&clients->map, (const char *)&address, sizeof(address));
    if (node)
        client = CONTAINER_OF(node, struct client, node);
    else if (client_new(clients, &address, &client) < 0)
        return -ENOMEM;
    if (client->count >= clients->max)
        return -EAGAIN;
    client->count++;
    *ret_client = client;
    return 0;
}

void clients_leave(struct clients *clients, struct client *client)
{
    if (!client)
        return;
    assert(client->count > 0);
    if (--client->count > 0)
        return;
    map_remove(&clients->map, &client->node);
    free(client);
}
