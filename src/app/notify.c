/*
 * notify.c - the messages of sd_notify(3), and the timer that sends the watchdog's pings and asks for more
 * time while the router stops.
 */
#include "app/notify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

enum {
    MESSAGE_MAX = 512,
    PINGS_PER_WATCHDOG = 3, /* two may be late */
    EXTEND_EVERY_MS = 5 * 1000,
    EXTEND_BY_MS = 30 * 1000,
};

PRINTF_LIKE(2, 3) static bool notify_send(const struct notify *notify, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list args;
    int len;

    if (notify->fd < 0)
        return true;
    va_start(args, format);
    len = vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (len < 0 || len >= MESSAGE_MAX)
        return false;
    /* Never waits: a manager that does not read must not hold up calls. */
    return sendto(notify->fd, message, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL, &notify->to.any,
                  notify->to_len) == len;
}

static bool notify_set_address(struct notify *notify, const char *path)
{
    size_t len = strlen(path);

    if ((path[0] != '/' && path[0] != '@') || len < 2 || len >= sizeof(notify->to.un.sun_path))
        return false;
    notify->to.un.sun_family = AF_UNIX;
    memcpy(notify->to.un.sun_path, path, len);
    if (path[0] == '@')
        notify->to.un.sun_path[0] = '\0'; /* an abstract name; it has no zero at its end */
    notify->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (path[0] == '/'));
    return true;
}

static bool notify_parse(const char *text, uint64_t *ret_value)
{
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *ret_value = strtoull(text, &end, 10);
    return errno == 0 && !*end;
}

/* WATCHDOG_PID names another process if somebody between systemd and us has left it in the environment. */
static uint64_t notify_watchdog_ms(void)
{
    const char *usec_text = getenv("WATCHDOG_USEC");
    const char *pid_text = getenv("WATCHDOG_PID");
    uint64_t usec, pid;

    if (!usec_text || (pid_text && (!notify_parse(pid_text, &pid) || pid != (uint64_t)getpid())))
        return 0;
    if (notify_parse(usec_text, &usec) && usec >= 1000)
        return usec / 1000;
    log_warn("WATCHDOG_USEC is no number of microseconds: no pings are sent", log_str("value", usec_text));
    return 0;
}

void notify_init(struct notify *notify, uv_loop_t *loop)
{
    const char *path = getenv("NOTIFY_SOCKET");

    *notify = (struct notify){.fd = -1};
    (void)uv_timer_init(loop, &notify->timer);
    notify->timer.data = notify;
    uv_unref((uv_handle_t *)&notify->timer);
    if (!path || !path[0])
        return;
    if (!notify_set_address(notify, path)) {
        log_warn("NOTIFY_SOCKET is no path and no abstract name: nobody is told that the router is ready",
                 log_str("value", path));
        return;
    }
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (notify->fd < 0)
        log_warn("there is no socket for NOTIFY_SOCKET: nobody is told that the router is ready",
                 log_str("error", strerror(errno)));
    else
        notify->watchdog_ms = notify_watchdog_ms();
}

static void notify_tick(uv_timer_t *timer)
{
    struct notify *notify = timer->data;

    if (notify->watchdog_ms > 0)
        (void)notify_send(notify, "WATCHDOG=1");
    if (notify->is_stopping)
        (void)notify_send(notify, "EXTEND_TIMEOUT_USEC=%" PRIu64, (uint64_t)EXTEND_BY_MS * 1000);
}

static void notify_start_timer(struct notify *notify)
{
    uint64_t every_ms = notify->watchdog_ms > 0 ? max_u64(notify->watchdog_ms / PINGS_PER_WATCHDOG, 1) : 0;

    if (notify->is_stopping)
        every_ms = every_ms > 0 ? min_u64(every_ms, EXTEND_EVERY_MS) : EXTEND_EVERY_MS;
    if (notify->fd >= 0 && every_ms > 0)
        uv_timer_start(&notify->timer, notify_tick, 0, every_ms);
}

void notify_ready(struct notify *notify, uint16_t port)
{
    if (!notify_send(notify, "READY=1\nSTATUS=Serving on port %u", port))
        log_warn("NOTIFY_SOCKET takes no message: whoever started the router does not know that it is ready",
                 log_str("error", strerror(errno)));
    notify_start_timer(notify);
}

void notify_stopping(struct notify *notify)
{
    notify->is_stopping = true;
    (void)notify_send(notify, "STOPPING=1\nSTATUS=Stopping");
    notify_start_timer(notify);
}

void notify_streams(struct notify *notify, size_t streams, uint64_t cut_after_s)
{
    (void)notify_send(notify, "STATUS=Stopping: %zu open streams, cut after %" PRIu64 " s", streams,
                      cut_after_s);
}

void notify_close(struct notify *notify)
{
    uv_close((uv_handle_t *)&notify->timer, NULL);
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}
