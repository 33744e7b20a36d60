/* client.c - the client of client.h: a socket pair, whose other end the server accepts. */
#include "client.h"

#include "base/log.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TURNS_MAX = 100000,
    QUIET_TURNS = 3, /* of the loop, without anything to read, after which nothing more is on its way */
    PIECES_MAX = 64,
};

/* Takes what there is. False: the end. */
static bool client_read(int fd, struct strbuf *answer, bool *ret_any)
{
    *ret_any = false;
    for (;;) {
        static char data[64 * 1024];
        ssize_t len = recv(fd, data, sizeof(data), MSG_DONTWAIT);

        if (len <= 0)
            return len < 0 && errno == EAGAIN;
        strbuf_append(answer, data, (size_t)len);
        *ret_any = true;
    }
}

/* Runs the loop until nothing happens any more. False: the server has closed. */
static bool client_settle(const struct client *client, int fd, struct strbuf *answer)
{
    unsigned quiet = 0;
    bool is_open = true;

    for (unsigned turn = 0; quiet < QUIET_TURNS; turn++) {
        bool any = false;

        assert(turn < TURNS_MAX);
        (void)uv_run(client->loop, UV_RUN_NOWAIT);
        if (is_open)
            is_open = client_read(fd, answer, &any);
        quiet = any || (client->is_busy && client->is_busy(client->arg)) ? 0 : quiet + 1;
    }
    return is_open;
}

static size_t client_piece(unsigned *random, size_t left, unsigned pieces)
{
    size_t len;

    if (*random == CLIENT_BYTES)
        return 1;
    if (*random == CLIENT_WHOLE || pieces >= PIECES_MAX)
        return left;
    *random = *random * 1103515245 + 12345;
    len = 1 + (*random >> 16) % ((*random >> 8) % 3 ? 7 : 499);
    return len < left ? len : left;
}

void client_server_init(uv_loop_t *loop, struct http_server **ret_server)
{
    static const struct http_settings settings = {
        .read_timeout_ms = 3600000,
        .write_timeout_ms = 3600000,
        .idle_timeout_ms = 3600000,
        .max_connections = 10,
    };
    int rc;

    log_set_fd(-1);
    rc = uv_loop_init(loop);
    assert(rc == 0);
    rc = http_server_new(loop, &settings, ret_server);
    assert(rc == 0);
}

void client_talk(const struct client *client, struct slice data, unsigned cut, struct strbuf *answer)
{
    unsigned pieces = 0;
    bool is_open = true;
    int fds[2];
    int rc;

    rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);
    assert(rc == 0);
    rc = http_server_adopt(client->server, fds[1], client->peer, client->is_tls ? fds[0] : -1);
    assert(rc == 0);
    while (is_open && data.len > 0) {
        size_t len = client_piece(&cut, data.len, pieces++);
        ssize_t sent = send(fds[0], data.data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN)
            break;
        if (sent > 0) {
            data.data += sent;
            data.len -= (size_t)sent;
        }
        is_open = client_settle(client, fds[0], answer);
        assert(pieces < TURNS_MAX);
    }
    (void)shutdown(fds[0], SHUT_WR);
    for (unsigned turn = 0; is_open || http_server_connections(client->server) > 0; turn++) {
        assert(turn < TURNS_MAX);
        is_open = client_settle(client, fds[0], answer);
    }
    close(fds[0]);
    assert(!strbuf_failed(answer));
}

static struct slice take(struct slice *data, size_t len)
{
    struct slice part = {data->data, len};

    assert(len <= data->len);
    data->data += len;
    data->len -= len;
    return part;
}

static struct slice take_line(struct slice *data)
{
    const char *end = memmem(data->data, data->len, "\r\n", 2);
    struct slice line;

    assert(end);
    line = take(data, (size_t)(end - data->data));
    (void)take(data, 2);
    for (size_t i = 0; i < line.len; i++)
        assert((unsigned char)line.data[i] >= ' ' && line.data[i] != 127);
    return line;
}

static size_t number_of(struct slice text, int base)
{
    char digits[16];
    char *end;
    size_t number;

    assert(text.len > 0 && text.len < sizeof(digits));
    memcpy(digits, text.data, text.len);
    digits[text.len] = '\0';
    number = strtoull(digits, &end, base);
    assert(*end == '\0');
    return number;
}

struct slice client_header(const struct client_answer *answer, const char *name)
{
    struct slice left = answer->head;
    struct slice found = {NULL, 0};
    size_t name_len = strlen(name);

    while (left.len > 0) {
        struct slice line = take_line(&left);

        if (line.len < name_len + 2 || strncasecmp(line.data, name, name_len) != 0 ||
            memcmp(line.data + name_len, ": ", 2) != 0)
            continue;
        assert(!found.data);
        found = (struct slice){line.data + name_len + 2, line.len - name_len - 2};
    }
    return found;
}

/* The chunks move together over what stands between them. */
static struct slice take_chunks(struct slice *data)
{
    char *body = (char *)(uintptr_t)data->data;
    size_t len = 0;

    for (;;) {
        size_t size = number_of(take_line(data), 16);
        struct slice end;

        if (size > 0)
            memmove(body + len, take(data, size).data, size);
        len += size;
        end = take(data, 2);
        assert(memcmp(end.data, "\r\n", 2) == 0);
        if (size == 0)
            return (struct slice){body, len};
    }
}

static struct slice take_body(struct slice *data, const struct client_answer *answer)
{
    struct slice length = client_header(answer, "Content-Length");
    struct slice coding = client_header(answer, "Transfer-Encoding");
    /* No body of ours begins like an answer. */
    bool is_next = data->len == 0 || (data->len >= 9 && memcmp(data->data, "HTTP/1.1 ", 9) == 0);

    assert(!length.data || !coding.data);
    /* Nobody but us ends these. */
    if (answer->status == 101 || slice_equals(answer->type, "text/event-stream"))
        return take(data, data->len);
    if (coding.data) {
        assert(slice_equals(coding, "chunked"));
        return is_next ? (struct slice){"", 0} : take_chunks(data);
    }
    if (!length.data && answer->status != 204 && answer->status != 304) {
        /* A stream for HTTP/1.0 ends with its connection. */
        assert(slice_equals(client_header(answer, "Connection"), "close"));
        return take(data, data->len);
    }
    return take(data, length.data && !is_next ? number_of(length, 10) : 0);
}

bool client_next(struct slice *data, struct client_answer *ret_answer)
{
    struct client_answer answer = {0};
    struct slice line, left;

    do {
        if (data->len == 0)
            return false;
        line = take_line(data);
        assert(line.len > 13 && memcmp(line.data, "HTTP/1.1 ", 9) == 0 && line.data[12] == ' ');
        answer.status = (int)number_of((struct slice){line.data + 9, 3}, 10);
        left = *data;
        while (take_line(&left).len > 0)
            ;
        answer.head = take(data, (size_t)(left.data - data->data) - 2);
        (void)take(data, 2);
    } while (answer.status == 100);
    answer.type = client_header(&answer, "Content-Type");
    answer.body = take_body(data, &answer);
    *ret_answer = answer;
    return true;
}
