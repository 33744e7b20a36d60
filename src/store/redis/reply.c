/*
 * reply.c - interprets Redis' replies: error codes, times, cluster nodes; and compares and prints
 * server addresses.
 */
#include "store/redis/reply.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *code;
    int err;
} reply_codes[] = {
    {"LOADING", -EAGAIN}, {"BUSY", -EAGAIN},        {"MASTERDOWN", -EAGAIN}, {"TRYAGAIN", -EAGAIN},
    {"ASK", -EAGAIN},     {"CLUSTERDOWN", -EAGAIN}, {"MOVED", -EAGAIN},      {"READONLY", -EROFS},
    {"OOM", -ENOSPC},     {"MISCONF", -ENOSPC},     {"NOAUTH", -EACCES},     {"WRONGPASS", -EACCES},
    {"NOPERM", -EACCES},  {"WRONGTYPE", -EBADMSG},  {"FENCED", -ECANCELED},  {"LATE", -ETIMEDOUT},
    {"STALE", -ESTALE},
};

bool reply_has_code(const char *text, const char *code)
{
    size_t len = strlen(code);

    return strncmp(text, code, len) == 0 && (text[len] == ' ' || text[len] == '\0');
}

static int reply_code_errno(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(reply_codes); i++) {
        if (reply_has_code(text, reply_codes[i].code))
            return reply_codes[i].err;
    }
    return 0;
}

/*
 * Redis 6 wraps what a command in a script said: the code stands behind the last place in the script, after
 * ": " or ": -".
 */
static int reply_script_errno(const char *text)
{
    int err = 0;

    for (const char *at = strstr(text, "user_script"); at && !err; at = strstr(at + 1, ": ")) {
        const char *word = at[0] == ':' ? at + 2 : at;

        err = reply_code_errno(*word == '-' ? word + 1 : word);
    }
    return err;
}

int reply_errno(const char *text)
{
    int err = reply_code_errno(text);

    if (!err && strncmp(text, "ERR Error running script", 24) == 0)
        err = reply_script_errno(text);
    return err ? err : -EIO;
}

bool reply_late_at(const char *text, uint64_t *ret_server_ms)
{
    const char *number = text + strlen("LATE ");
    unsigned long long server_ms;
    char *end;

    if (!reply_has_code(text, "LATE") || text[strlen("LATE")] == '\0' || *number < '0' || *number > '9')
        return false;
    errno = 0;
    server_ms = strtoull(number, &end, 10);
    if (errno || *end != ':')
        return false;
    *ret_server_ms = server_ms;
    return true;
}

bool reply_time(const redisReply *reply, uint64_t *ret_server_ms)
{
    unsigned long long parts[2];

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != ARRAY_LEN(parts))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const redisReply *part = reply->element[i];
        char *end;

        if (part->type != REDIS_REPLY_STRING || part->len == 0 || part->len > 12)
            return false;
        parts[i] = strtoull(part->str, &end, 10);
        if (*end != '\0')
            return false;
    }
    *ret_server_ms = parts[0] * 1000 + parts[1] / 1000;
    return true;
}

bool address_equals(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

const char *address_text(const struct redis_address *address, char *text, size_t size)
{
    if (address->port)
        snprintf(text, size, "%s:%u", address->host, (unsigned)address->port);
    else
        snprintf(text, size, "%s", address->host);
    return text;
}

bool address_set(struct redis_address *ret_address, struct slice host, long long port)
{
    if (host.len == 0 || host.len >= sizeof(ret_address->host) || memchr(host.data, 0, host.len) ||
        port < 1 || port > UINT16_MAX)
        return false;
    memmove(ret_address->host, host.data, host.len);
    ret_address->host[host.len] = '\0';
    ret_address->port = (uint16_t)port;
    return true;
}

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
    /* "?": it has no name, where names are what it should announce. */
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

        /* First slot, last slot, then the nodes that have the range: the master and its replicas. */
        for (size_t n = 2; range->type == REDIS_REPLY_ARRAY && n < range->elements && count < max; n++)
            count = nodes_add(range->element[n], asked, ret_nodes, count);
    }
    return count;
}
