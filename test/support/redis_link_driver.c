/*
 * redis_link_driver.c - a link to Redis at the end of a pipe, for test/functional/test_redis_link.py.
 *
 * redis-link-driver URL TIMEOUT_MS WAIT_REPLICAS [SENTINELS MASTER_NAME]
 *
 * Lines in:                               Lines out:
 *   cmd ID WORD…                            done ID ERRNO REPLY   (once for each that was taken)
 *   script NAME SHA PATH                    refused ID ERRNO      (it was not taken)
 *   call ID NAME KEY WORD…                  change up|down
 *   wait ID                                 state up|down FAILURES DETAIL
 *   state                                   flood ANSWERED FAILED WRONG
 *   flood IN_FLIGHT NAME KEY                closed
 *   calm (stop the flood; prints it)
 *   close (as the end of the input does)
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "input_lines.h"

#include "base/log.h"
#include "base/strbuf.h"
#include "store/redis/link.h"

enum { DRIVER_WORDS_MAX = 64, DRIVER_SCRIPTS_MAX = 8, DRIVER_TEXT_MAX = 1 << 22 };

struct driver_script {
    char name[32];
    struct redis_script script;
};

struct driver {
    uv_loop_t loop;
    struct input_lines input;
    uv_timer_t timer; /* keeps the flood going while there is no connection */
    struct redis_link *link;
    struct driver_script scripts[DRIVER_SCRIPTS_MAX];
    size_t script_count;
    const struct redis_script *flood_script;
    char flood_key[64];
    size_t flood_max;
    size_t flood_now;
    uint64_t flood_sent;
    uint64_t flood_answered;
    uint64_t flood_failed;
    uint64_t flood_wrong;
    bool is_closing;
    bool is_closed;
    bool is_inside; /* a function of the link: no callback may come now */
};

struct command {
    struct driver *driver;
    char id[32];
    uint64_t number; /* of a flood */
};

static void print_reply(struct strbuf *buf, const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_INTEGER:
        strbuf_printf(buf, ":%lld", reply->integer);
        break;
    case REDIS_REPLY_NIL:
        strbuf_append_str(buf, "nil");
        break;
    case REDIS_REPLY_ARRAY:
        strbuf_append_char(buf, '[');
        for (size_t i = 0; i < reply->elements; i++) {
            if (i > 0)
                strbuf_append_char(buf, ' ');
            print_reply(buf, reply->element[i]);
        }
        strbuf_append_char(buf, ']');
        break;
    default:
        assert(reply->type != REDIS_REPLY_ERROR);
        for (size_t i = 0; i < reply->len; i++)
            strbuf_append_char(buf, (unsigned char)reply->str[i] < ' ' ? '.' : reply->str[i]);
        break;
    }
}

static void on_done(void *arg, int err, const redisReply *reply)
{
    struct command *command = arg;
    struct strbuf buf;

    assert(!command->driver->is_inside);
    assert((err == 0) == (reply != NULL));
    strbuf_init(&buf, NULL, DRIVER_TEXT_MAX);
    if (reply)
        print_reply(&buf, reply);
    printf("done %s %s %.*s\n", command->id, err ? strerrorname_np(-err) : "0", (int)buf.len,
           buf.data ? buf.data : "");
    strbuf_release(&buf);
    free(command);
}

static void on_change(void *arg, bool is_up)
{
    struct driver *driver = arg;

    assert(!driver->is_inside);
    assert(redis_link_is_up(driver->link) == is_up);
    printf("change %s\n", is_up ? "up" : "down");
}

static struct command *command_new(struct driver *driver, const char *id)
{
    struct command *command = calloc(1, sizeof(*command));

    assert(command);
    command->driver = driver;
    snprintf(command->id, sizeof(command->id), "%s", id);
    return command;
}

static void refuse(struct command *command, int rc)
{
    if (rc == 0)
        return;
    printf("refused %s %s\n", command->id, strerrorname_np(-rc));
    free(command);
}

static struct redis_script *find_script(struct driver *driver, const char *name)
{
    assert(name);
    for (size_t i = 0; i < driver->script_count; i++) {
        if (strcmp(driver->scripts[i].name, name) == 0)
            return &driver->scripts[i].script;
    }
    assert(!"no such script");
    return NULL;
}

static void add_script(struct driver *driver, const char *name, const char *sha, const char *path)
{
    struct driver_script *entry = &driver->scripts[driver->script_count++];
    char *text = calloc(1, DRIVER_TEXT_MAX);
    FILE *file = fopen(path, "rb");

    assert(driver->script_count <= DRIVER_SCRIPTS_MAX && text && file);
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    entry->script.name = entry->name;
    entry->script.text = text;
    entry->script.text_len = fread(text, 1, DRIVER_TEXT_MAX - 1, file);
    fclose(file);
    snprintf(entry->script.sha, sizeof(entry->script.sha), "%s", sha);
}

static void flood(struct driver *driver);

static void on_flood_done(void *arg, int err, const redisReply *reply)
{
    struct command *command = arg;
    struct driver *driver = command->driver;

    assert(!driver->is_inside);
    driver->flood_now--;
    if (err)
        driver->flood_failed++;
    else if (reply->type == REDIS_REPLY_STRING && strtoull(reply->str, NULL, 10) == command->number)
        driver->flood_answered++;
    else
        driver->flood_wrong++;
    free(command);
    flood(driver);
}

static void flood(struct driver *driver)
{
    while (driver->flood_now < driver->flood_max && !driver->is_closing) {
        struct command *command = command_new(driver, "flood");
        char number[24];
        struct slice arg = {number, 0};
        int rc;

        command->number = ++driver->flood_sent;
        arg.len = (size_t)snprintf(number, sizeof(number), "%" PRIu64, command->number);
        driver->is_inside = true;
        rc = redis_link_call(driver->link, driver->flood_script, driver->flood_key, &arg, 1, on_flood_done,
                             command);
        driver->is_inside = false;
        if (rc) {
            free(command);
            return;
        }
        driver->flood_now++;
    }
}

static void on_timer(uv_timer_t *timer)
{
    flood(timer->data);
}

static void on_closed(void *arg)
{
    struct driver *driver = arg;

    assert(!driver->is_inside && !driver->is_closed);
    driver->is_closed = true;
    printf("closed\n");
    input_lines_close(&driver->input);
    uv_close((uv_handle_t *)&driver->timer, NULL);
}

static void close_link(struct driver *driver)
{
    if (driver->is_closing)
        return;
    driver->is_closing = true;
    driver->is_inside = true;
    redis_link_close(driver->link, on_closed, driver);
    driver->is_inside = false;
}

static void run_command(struct driver *driver, const char **words, size_t count)
{
    struct slice args[DRIVER_WORDS_MAX];
    bool is_call = strcmp(words[0], "call") == 0;
    size_t first = is_call ? 4 : 2;
    struct command *command;
    int rc;

    assert(count >= first && words[1]);
    command = command_new(driver, words[1]);
    for (size_t i = first; i < count; i++)
        args[i - first] = slice_of(words[i]);
    if (is_call)
        rc = redis_link_call(driver->link, find_script(driver, words[2]), words[3], args, count - first,
                             on_done, command);
    else if (strcmp(words[0], "wait") == 0)
        rc = redis_link_wait(driver->link, NULL, on_done, command);
    else
        rc = redis_link_command(driver->link, args, count - first, count - first > 1 ? 1 : 0, on_done,
                                command);
    refuse(command, rc);
}

static void run_line(void *arg, char *line)
{
    struct driver *driver = arg;
    const char *words[DRIVER_WORDS_MAX] = {0};
    size_t count = input_words(line, words, DRIVER_WORDS_MAX);

    if (driver->is_closing)
        return;
    if (count == 0 || strcmp(words[0], "close") == 0) {
        close_link(driver);
    } else if (strcmp(words[0], "state") == 0) {
        printf("state %s %" PRIu64 " %s\n", redis_link_is_up(driver->link) ? "up" : "down",
               redis_link_failures(driver->link), redis_link_detail(driver->link));
    } else if (strcmp(words[0], "script") == 0 && count == 4) {
        add_script(driver, words[1], words[2], words[3]);
    } else if (strcmp(words[0], "flood") == 0 && count == 4) {
        driver->flood_max = (size_t)strtoul(words[1], NULL, 10);
        driver->flood_script = find_script(driver, words[2]);
        snprintf(driver->flood_key, sizeof(driver->flood_key), "%s", words[3]);
        uv_timer_start(&driver->timer, on_timer, 0, 5);
    } else if (strcmp(words[0], "calm") == 0) {
        driver->flood_max = 0;
        uv_timer_stop(&driver->timer);
        printf("flood %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", driver->flood_answered, driver->flood_failed,
               driver->flood_wrong);
    } else {
        driver->is_inside = true;
        run_command(driver, words, count);
        driver->is_inside = false;
    }
}

static int read_settings(int argc, char **argv, struct redis_link_settings *settings, char *credentials,
                         size_t size)
{
    char error[256];
    int rc = redis_link_parse_url(argv[1], settings, credentials, size, error, sizeof(error));

    settings->timeout_ms = strtoull(argv[2], NULL, 10);
    settings->wait_replicas = (int)strtol(argv[3], NULL, 10);
    if (rc == 0 && argc == 6) {
        rc = redis_link_parse_sentinels(argv[4], settings, error, sizeof(error));
        settings->master_name = argv[5];
    }
    if (rc)
        fprintf(stderr, "%s\n", error);
    return rc;
}

int main(int argc, char **argv)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    struct redis_link_settings settings = {0};
    char credentials[512];
    int rc;

    if (!driver || (argc != 4 && argc != 6) ||
        read_settings(argc, argv, &settings, credentials, sizeof(credentials))) {
        free(driver);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_configure(LOG_DEBUG, LOG_JSON);
    settings.on_change = on_change;
    settings.on_change_arg = driver;
    uv_loop_init(&driver->loop);
    uv_timer_init(&driver->loop, &driver->timer);
    driver->timer.data = driver;
    driver->is_inside = true;
    rc = redis_link_new(&driver->loop, &settings, &driver->link);
    assert(rc == 0);
    driver->is_inside = false;
    memset(credentials, 'x', sizeof(credentials)); /* it was copied */
    input_lines_start(&driver->input, &driver->loop, run_line, driver);
    while (uv_run(&driver->loop, UV_RUN_ONCE))
        log_flush();
    log_flush();
    assert(driver->is_closed && driver->flood_now == 0);
    rc = uv_loop_close(&driver->loop);
    assert(rc == 0);
    for (size_t i = 0; i < driver->script_count; i++)
        free((char *)(uintptr_t)driver->scripts[i].script.text);
    free(driver);
    return 0;
}
