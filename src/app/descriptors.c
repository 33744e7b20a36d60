#include "app/descriptors.h"

#include <sys/resource.h>

#include "http/http.h"

/* Beside those of clients: what each listener lets in beyond its limit, logs, the loop's own. */
enum { SPARE_DESCRIPTORS = 2 * HTTP_RESERVE_MAX + 64 };

/* Each connection is a descriptor, and the usual soft limit of 1024 is for programs that use select(). */
void app_raise_descriptors(const struct settings *settings)
{
    struct rlimit limit;
    uint64_t wanted;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    wanted = settings->max_connections + 2 * settings->gateway_max;
    if (settings->tls_cert_file[0]) /* and then with both ends of a pair of sockets */
        wanted += 2 * (settings->max_connections + settings->gateway_max + HTTP_RESERVE_MAX);
    if (limit.rlim_cur < wanted + METRICS_CONNECTIONS_MAX + SPARE_DESCRIPTORS)
        log_warn(
            "MAX_CONNECTIONS and GATEWAY_MAX are more than the process may open: raise its limit of open "
            "files",
            log_num("max_connections", (int64_t)settings->max_connections),
            log_num("gateway_max", (int64_t)settings->gateway_max),
            log_num("open_files_limit", (int64_t)limit.rlim_cur));
}
