/*
 * open_loop.c - sends requests at a constant rate and measures each from the moment at which it was due.
 *
 * A closed-loop client such as wrk waits for an answer before it sends the next request. When the server
 * pauses, such a client pauses as well, and the requests that it should have sent meanwhile are never
 * measured. Here request number i is due at start + i / rate. If no connection is free at that moment the
 * request waits in a queue, and the wait is part of its latency.
 *
 * Every second request allocates a call, and every other one releases a call that was allocated before. Each
 * connection has one request under way. A burst is of allocations that are all due at the same moment; the
 * calls are released before the next burst.
 *
 * open_loop --port N --rate N --seconds N --connections N --prefix TEXT
 * open_loop --port N --burst N --repeat N --connections N --prefix TEXT
 *
 * Prints one line of JSON. Loopback only. Linux only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MAX = 16384,
    REQUEST_MAX = 512,
    EVENTS_MAX = 256,
    PREFIX_MAX = 64,
    CONNECTIONS_MAX = 10000,
    DRAIN_SECONDS = 10, /* how long answers are waited for at the end */
    SPREAD_MS = 200,    /* between two bursts */
};

struct options {
    unsigned port;
    unsigned connections;
    double rate;
    double seconds;
    unsigned burst;
    unsigned repeat;
    char prefix[PREFIX_MAX];
};

struct connection {
    int fd;
    bool is_busy;
    bool is_release;
    uint64_t call; /* number of the call that the request under way is about */
    uint64_t due_ns;
    size_t got;
    char answer[ANSWER_MAX + 1];
};

/* A queue of numbers: calls that can be released, requests that are due. */
struct queue {
    uint64_t *items;
    size_t first, count, room;
};

enum kind { ALTERNATE, ALLOCATE, RELEASE };

struct run {
    struct options options;
    struct connection *connections;
    unsigned *idle; /* a stack of free connections */
    unsigned idle_count;
    int epoll;
    struct queue live;
    struct queue due;
    uint64_t calls; /* allocated so far */
    uint64_t sent;
    uint32_t *latencies_us;
    size_t latency_count, latency_room;
    size_t refused, failed;
    uint64_t queue_most;
    bool alternate;
    bool is_measuring;
};

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "open_loop: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void queue_put(struct queue *queue, uint64_t item)
{
    if (queue->count == queue->room) {
        size_t room = queue->room ? queue->room * 2 : 1024;
        uint64_t *items = malloc(room * sizeof(*items));

        if (!items)
            die("memory");
        for (size_t i = 0; i < queue->count; i++)
            items[i] = queue->items[(queue->first + i) % queue->room];
        free(queue->items);
        queue->items = items;
        queue->first = 0;
        queue->room = room;
    }
    queue->items[(queue->first + queue->count++) % queue->room] = item;
}

static uint64_t queue_take(struct queue *queue)
{
    uint64_t item = queue->items[queue->first];

    queue->first = (queue->first + 1) % queue->room;
    queue->count--;
    return item;
}

static void note_latency(struct run *run, uint64_t ns)
{
    if (run->latency_count == run->latency_room) {
        run->latency_room = run->latency_room ? run->latency_room * 2 : 65536;
        run->latencies_us = realloc(run->latencies_us, run->latency_room * sizeof(*run->latencies_us));
        if (!run->latencies_us)
            die("memory");
    }
    run->latencies_us[run->latency_count++] = (uint32_t)(ns / 1000);
}

static void open_connection(struct run *run, unsigned number)
{
    struct connection *connection = &run->connections[number];
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)run->options.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    int on = 1;

    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 || connect(connection->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        die("connect");
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (epoll_ctl(run->epoll, EPOLL_CTL_ADD, connection->fd, &event) < 0)
        die("epoll_ctl");
    run->idle[run->idle_count++] = number;
}

static void send_request(struct run *run, uint64_t due_ns, enum kind kind)
{
    unsigned number = run->idle[--run->idle_count];
    struct connection *connection = &run->connections[number];
    char body[128], text[REQUEST_MAX];
    int body_len, len;

    run->alternate = !run->alternate;
    connection->is_release =
        run->live.count > 0 && (kind == RELEASE || (kind == ALTERNATE && run->alternate));
    connection->call = connection->is_release ? queue_take(&run->live) : ++run->calls;
    connection->due_ns = due_ns;
    connection->is_busy = true;
    connection->got = 0;
    body_len = snprintf(body, sizeof(body), "{\"call_sid\":\"%s%010llu\"}", run->options.prefix,
                        (unsigned long long)connection->call);
    len = snprintf(text, sizeof(text),
                   "POST /api/v1/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                   "Content-Length: %d\r\n\r\n%s",
                   connection->is_release ? "release" : "allocate", body_len, body);
    if (send(connection->fd, text, (size_t)len, MSG_NOSIGNAL) != len)
        die("send");
    run->sent++;
}

/* The length of the whole answer, or 0 while its header is not complete. */
static size_t answer_size(const struct connection *connection)
{
    const char *end = strstr(connection->answer, "\r\n\r\n");
    const char *length = end ? strcasestr(connection->answer, "\r\ncontent-length:") : NULL;

    if (!end)
        return 0;
    if (!length || length > end) {
        errno = EPROTO;
        die("an answer without Content-Length");
    }
    return (size_t)(end + 4 - connection->answer) + strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
}

static void take_answer(struct run *run, unsigned number)
{
    struct connection *connection = &run->connections[number];
    ssize_t got = recv(connection->fd, connection->answer + connection->got, ANSWER_MAX - connection->got,
                       MSG_DONTWAIT);
    size_t size;

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("the server has closed a connection");
    connection->got += (size_t)got;
    connection->answer[connection->got] = '\0';
    size = answer_size(connection);
    if (size == 0 || connection->got < size)
        return;
    if (run->is_measuring)
        note_latency(run, now_ns() - connection->due_ns);
    if (strncmp(connection->answer, "HTTP/1.1 200", 12) != 0)
        run->refused++;
    else if (!connection->is_release)
        queue_put(&run->live, connection->call);
    connection->is_busy = false;
    run->idle[run->idle_count++] = number;
}

static void wait_until(struct run *run, uint64_t until_ns)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t now = now_ns();
    uint64_t left = until_ns > now ? until_ns - now : 0;
    struct timespec timeout = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
    int count = epoll_pwait2(run->epoll, events, EVENTS_MAX, &timeout, NULL);

    if (count < 0 && errno != EINTR)
        die("epoll_pwait2");
    for (int i = 0; i < count; i++)
        take_answer(run, events[i].data.u32);
}

static void send_due(struct run *run)
{
    if (run->due.count > run->queue_most)
        run->queue_most = run->due.count;
    while (run->due.count > 0 && run->idle_count > 0)
        send_request(run, queue_take(&run->due), run->options.burst ? ALLOCATE : ALTERNATE);
}

/* Everything that was sent or is due is answered. */
static void drain(struct run *run)
{
    uint64_t end_ns = now_ns() + (uint64_t)DRAIN_SECONDS * 1000000000;

    while ((run->due.count > 0 || run->idle_count < run->options.connections) && now_ns() < end_ns) {
        send_due(run);
        wait_until(run, now_ns() + 10000000);
    }
    run->failed += run->due.count + (run->options.connections - run->idle_count);
}

static void run_constant(struct run *run)
{
    uint64_t start_ns = now_ns(), number = 0;
    uint64_t total = (uint64_t)(run->options.rate * run->options.seconds);
    double step_ns = 1e9 / run->options.rate;

    while (number < total) {
        uint64_t now = now_ns();
        uint64_t due_ns = start_ns + (uint64_t)((double)number * step_ns);

        while (number < total && due_ns <= now) {
            queue_put(&run->due, due_ns);
            due_ns = start_ns + (uint64_t)((double)++number * step_ns);
        }
        send_due(run);
        /* While requests wait for a connection only an answer helps. */
        wait_until(run, due_ns);
    }
    drain(run);
}

/* Outside the measurement, so that the next one finds all pods free. */
static void release_all(struct run *run)
{
    bool was_measuring = run->is_measuring;

    run->is_measuring = false;
    while (run->live.count > 0 && run->failed == 0) {
        while (run->live.count > 0 && run->idle_count > 0)
            send_request(run, now_ns(), RELEASE);
        wait_until(run, now_ns() + 10000000);
    }
    drain(run);
    run->is_measuring = was_measuring;
}

static void run_bursts(struct run *run)
{
    for (unsigned i = 0; i < run->options.repeat; i++) {
        uint64_t due_ns = now_ns() + (uint64_t)SPREAD_MS * 1000000;

        while (now_ns() < due_ns)
            wait_until(run, due_ns);
        for (unsigned j = 0; j < run->options.burst; j++)
            queue_put(&run->due, due_ns);
        drain(run);
        release_all(run);
    }
}

static int compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

static double percentile_ms(const struct run *run, double part)
{
    size_t at = (size_t)(part * (double)(run->latency_count - 1) + 0.5);

    return run->latency_count ? run->latencies_us[at] / 1000.0 : 0;
}

static void report(struct run *run, double took_s, size_t refused)
{
    if (run->latency_count)
        qsort(run->latencies_us, run->latency_count, sizeof(*run->latencies_us), compare);
    printf("{\"requests\":%zu,\"seconds\":%.3f,\"requests_per_s\":%.1f,\"p50_ms\":%.3f,\"p90_ms\":%.3f,"
           "\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f,\"refused\":%zu,\"failed\":%zu,"
           "\"queue_most\":%llu}\n",
           run->latency_count, took_s, took_s > 0 ? (double)run->latency_count / took_s : 0,
           percentile_ms(run, 0.5), percentile_ms(run, 0.9), percentile_ms(run, 0.99),
           percentile_ms(run, 0.999), percentile_ms(run, 1), refused, run->failed,
           (unsigned long long)run->queue_most);
}

static void parse(struct options *options, int argc, char **argv)
{
    *options = (struct options){.connections = 64, .repeat = 1, .prefix = "open-"};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--port") == 0)
            options->port = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--rate") == 0)
            options->rate = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--seconds") == 0)
            options->seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--connections") == 0)
            options->connections = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--burst") == 0)
            options->burst = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--repeat") == 0)
            options->repeat = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--prefix") == 0)
            snprintf(options->prefix, sizeof(options->prefix), "%s", argv[i + 1]);
        else
            options->port = 0;
    }
    if (options->port == 0 || options->connections == 0 || options->connections > CONNECTIONS_MAX ||
        (options->burst == 0 && (options->rate <= 0 || options->seconds <= 0))) {
        fprintf(stderr, "usage: open_loop --port N (--rate N --seconds N | --burst N --repeat N) "
                        "[--connections N] [--prefix TEXT]\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct run run = {.is_measuring = true};
    uint64_t start_ns;
    double took_s;
    size_t refused;

    parse(&run.options, argc, argv);
    prctl(PR_SET_TIMERSLACK, 1); /* the default, 50 us, would be in every latency */
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    run.connections = calloc(run.options.connections, sizeof(*run.connections));
    run.idle = calloc(run.options.connections, sizeof(*run.idle));
    if (run.epoll < 0 || !run.connections || !run.idle)
        die("start");
    for (unsigned i = 0; i < run.options.connections; i++)
        open_connection(&run, i);
    start_ns = now_ns();
    if (run.options.burst)
        run_bursts(&run);
    else
        run_constant(&run);
    took_s = (double)(now_ns() - start_ns) / 1e9;
    refused = run.refused;
    release_all(&run);
    report(&run, took_s, refused);
    return run.failed == 0 ? 0 : 1;
}
