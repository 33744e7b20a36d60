/*
 * log.c - formats log lines, gathers them in a buffer, and writes the buffer without blocking.
 */
#include "base/log.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log_limit.h"

enum { LOG_BUFFER_MAX = 1024 * 1024 };

static struct {
    enum log_level level;
    enum log_format format;
    int fd;
    struct strbuf buf;
    uint64_t dropped;
    uint64_t dropped_reported;
} the_log = {.level = LOG_INFO, .fd = STDERR_FILENO, .buf = {.max = LOG_BUFFER_MAX}};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_configure(enum log_level level, enum log_format format)
{
    the_log.level = level;
    the_log.format = format;
}

void log_set_fd(int fd)
{
    the_log.fd = fd;
}

bool log_enabled(enum log_level level)
{
    return level >= the_log.level;
}

uint64_t log_dropped(void)
{
    return the_log.dropped;
}

static void log_line_json(enum log_level level, const char *time, const char *message,
                          const struct log_field *fields, size_t count)
{
    struct json_writer json;

    json_begin(&json, &the_log.buf);
    json_object_begin(&json);
    json_put_string(&json, "level", level_names[level]);
    json_put_string(&json, "time", time);
    json_put_string(&json, "msg", message);
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].is_text) {
            json_key(&json, fields[i].key);
            json_i64(&json, fields[i].number);
        } else if (fields[i].text && fields[i].text[0] && fields[i].is_json) {
            json_key(&json, fields[i].key);
            json_raw(&json, slice_of(fields[i].text));
        } else if (fields[i].text && fields[i].text[0]) {
            json_put_string(&json, fields[i].key, fields[i].text);
        }
    }
    json_object_end(&json);
}

static void log_line_console(enum log_level level, const char *time, const char *message,
                             const struct log_field *fields, size_t count)
{
    struct strbuf *buf = &the_log.buf;

    strbuf_printf(buf, "%s %-5s ", time, level_names[level]);
    json_escape(buf, slice_of(message));
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].is_text) {
            strbuf_printf(buf, " %s=%lld", fields[i].key, (long long)fields[i].number);
        } else if (fields[i].text && fields[i].text[0]) {
            /* Between quotes where a value could be taken for several: what clients send is among them. */
            bool is_quoted = strpbrk(fields[i].text, " =") != NULL;

            strbuf_printf(buf, " %s=%s", fields[i].key, is_quoted ? "\"" : "");
            json_escape(buf, slice_of(fields[i].text));
            if (is_quoted)
                strbuf_append_char(buf, '"');
        }
    }
}

void log_write(enum log_level level, const char *message, const struct log_field *fields, size_t count)
{
    struct strbuf *buf = &the_log.buf;
    char time[CLOCK_TEXT_MAX];
    size_t start = buf->len;

    clock_format_millis(clock_wall_ms(), time);
    if (the_log.format == LOG_JSON)
        log_line_json(level, time, message, fields, count);
    else
        log_line_console(level, time, message, fields, count);
    strbuf_append_char(buf, '\n');
    if (strbuf_failed(buf)) {
        buf->failed = false;
        buf->len = start;
        the_log.dropped++;
    }
    if (level == LOG_ERROR || buf->len > LOG_BUFFER_MAX / 2)
        log_flush();
}

/*
 * Writes what the descriptor takes without blocking and returns how much that was. A pipe that polls as
 * writable has room for PIPE_BUF bytes, so pieces of that size never block; a file takes everything at once.
 */
static size_t log_drain(const char *data, size_t len)
{
    struct stat st;
    size_t piece_max = fstat(the_log.fd, &st) == 0 && S_ISREG(st.st_mode) ? len : PIPE_BUF;
    size_t done = 0;

    while (done < len) {
        struct pollfd poller = {.fd = the_log.fd, .events = POLLOUT};
        size_t piece = len - done < piece_max ? len - done : piece_max;
        ssize_t n;

        if (poll(&poller, 1, 0) != 1 || !(poller.revents & POLLOUT))
            break;
        n = write(the_log.fd, data + done, piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0)
            return len; /* nobody will ever read it: forget it rather than keep it for good */
        done += (size_t)n;
    }
    return done;
}

bool log_is_waiting(void)
{
    return the_log.buf.len > 0;
}

void log_finish(uint64_t patience_ms)
{
    uint64_t until = clock_elapsed_ms() + patience_ms;

    log_limit_tell(true);
    log_flush();
    while (log_is_waiting() && clock_elapsed_ms() < until) {
        struct pollfd poller = {.fd = the_log.fd, .events = POLLOUT};

        (void)poll(&poller, 1, 10);
        log_flush();
    }
}

void log_flush(void)
{
    struct strbuf *buf = &the_log.buf;
    size_t done;

    log_limit_tell(false);
    if (buf->len == 0)
        return;
    done = log_drain(buf->data, buf->len);
    if (done && done < buf->len)
        memmove(buf->data, buf->data + done, buf->len - done);
    buf->len -= done;
    if (buf->len == 0 && the_log.dropped > the_log.dropped_reported) {
        uint64_t lost = the_log.dropped - the_log.dropped_reported;

        the_log.dropped_reported = the_log.dropped;
        log_warn("log lines were dropped: they came faster than they could be written",
                 log_num("lines", (int64_t)lost));
    }
}
