/* replay_raw.c - a second connection to Redis; scripts that arrive too late: see replay.c. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "replay.h"

int raw_connect(struct replay *replay)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", replay->server.socket);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
        REPLAY_FAIL(replay, "no second connection to Redis: %s", strerror(errno));
    return fd;
}

void raw_send(struct replay *replay, int fd, const char *line)
{
    if (dprintf(fd, "%s\r\n", line) < 0)
        REPLAY_FAIL(replay, "cannot write to Redis: %s", strerror(errno));
}

/* The next line, without its end, in the arena. */
char *raw_line(struct replay *replay, int fd)
{
    struct strbuf line;
    char c;

    strbuf_init(&line, &replay->arena, TEXT_MAX);
    while (read(fd, &c, 1) == 1 && c != '\n') {
        if (c != '\r')
            strbuf_append_char(&line, c);
    }
    if (strbuf_failed(&line) || line.len == 0)
        REPLAY_FAIL(replay, "nothing from Redis");
    return line.data;
}

/* Any step that changes something, watched from outside: the script that it calls is kept, to be sent again.
 */
void step_watched(struct replay *replay)
{
    static void (*const steps[])(struct replay * replay) = {
        step_allocate, step_wait,  step_keep,      step_depart,        step_line_leave,
        step_release,  step_hold,  step_undo,      step_renew_carried, step_leave,
        step_move,     step_drain, step_heartbeat, step_pod_seen,      step_merchant};
    int fd = raw_connect(replay);
    char *line;

    raw_send(replay, fd, "MONITOR");
    (void)raw_line(replay, fd);
    steps[pick(replay, (unsigned)ARRAY_LEN(steps))](replay);
    /* A marker behind it: a step may have asked for nothing, or for several scripts. */
    {
        int marker = raw_connect(replay);

        raw_send(replay, marker, "ECHO watched");
        (void)raw_line(replay, marker);
        (void)close(marker);
    }
    for (line = raw_line(replay, fd); !strstr(line, "\"watched\""); line = raw_line(replay, fd)) {
        char *script = strstr(line, "] \"EVALSHA\"");

        if (!script || strstr(line, " lua] ") || replay->late_count == LATE_MAX)
            continue;
        replay->late[replay->late_count].line = strdup(script + 2);
        replay->late[replay->late_count++].sent_at_ms = replay->now_ms;
    }
    (void)close(fd);
}

/* A script arrives long after its router has given it up. */
void step_late(struct replay *replay)
{
    size_t at = replay->late_count ? pick(replay, (unsigned)replay->late_count) : 0;
    const char *answer;
    int fd;

    if (replay->late_count == 0 ||
        replay->now_ms <= replay->late[at].sent_at_ms + (TIMEOUT_S + 1) * UINT64_C(1000))
        return;
    fd = raw_connect(replay);
    raw_send(replay, fd, replay->late[at].line);
    answer = raw_line(replay, fd);
    /* What only looks is answered; what changes something says that it comes too late. */
    if (strncmp(answer, "-LATE ", 6) != 0 && strncmp(answer, "*", 1) != 0 &&
        strncmp(answer, "-NOSCRIPT", 9) != 0)
        REPLAY_FAIL(replay, "a late script is answered with %s:\n%s", answer, replay->late[at].line);
    replay->late_sent += strncmp(answer, "-LATE ", 6) == 0;
    (void)close(fd);
    free(replay->late[at].line);
    replay->late[at] = replay->late[--replay->late_count];
}
