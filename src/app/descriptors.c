/*
 * descriptors.c - raises the limit of open files, and computes how many connections fit if it is
 * still too small.
 */
#include "app/descriptors.h"

#include <sys/resource.h>

#include "http/http.h"

/* Beside those of clients: what each listener lets in beyond its limit, logs, the loop's own. */
enum { SPARE_DESCRIPTORS = 2 * HTTP_RESERVE_MAX + 64 };

/*
 * With too few descriptors for everything, connections get what the streams of the gateway leave, and half at
 * least. Then those who are idle make room when a new one comes. If descriptors ran out first, nobody would.
 */
static uint64_t connections_that_fit(const struct settings *settings, uint64_t descriptors)
{
    /* Over TLS a client takes a pair of sockets beside its own. */
    unsigned more = settings->tls_cert_file[0] ? 2 : 0;
    uint64_t left = descriptors - min_u64(METRICS_CONNECTIONS_MAX + SPARE_DESCRIPTORS, descriptors / 2);
    uint64_t streams = settings->gateway_max * (2 + more);
    uint64_t rest = left > streams ? left - streams : 0;

    return max_u64(max_u64(rest, left / 2) / (1 + more), 1);
}

/* Each connection is a descriptor, and the usual soft limit of 1024 is for programs that use select(). */
size_t app_raise_descriptors(const struct settings *settings)
{
    struct rlimit limit;
    uint64_t wanted;
    uint64_t allowed;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return (size_t)settings->max_connections;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    wanted = settings->max_connections + 2 * settings->gateway_max;
    if (settings->tls_cert_file[0]) /* and then with both ends of a pair of sockets */
        wanted += 2 * (settings->max_connections + settings->gateway_max + HTTP_RESERVE_MAX);
    if (limit.rlim_cur >= wanted + METRICS_CONNECTIONS_MAX + SPARE_DESCRIPTORS)
        return (size_t)settings->max_connections;
    allowed = min_u64(settings->max_connections, connections_that_fit(settings, limit.rlim_cur));
    log_warn("MAX_CONNECTIONS and GATEWAY_MAX are more than the process may open: raise its limit of open "
             "files",
             log_num("max_connections", (int64_t)settings->max_connections),
             log_num("gateway_max", (int64_t)settings->gateway_max),
             log_num("open_files_limit", (int64_t)limit.rlim_cur),
             log_num("connections_allowed", (int64_t)allowed));
    return (size_t)allowed;
}
