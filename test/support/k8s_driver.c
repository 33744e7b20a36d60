/*
 * k8s_driver.c - a client of the Kubernetes API at the end of a pipe, for test/functional/test_k8s_client.py.
 *
 * k8s-driver url URL | kubeconfig PATH | cluster HOST PORT DIRECTORY
 *
 * Lines in:                                            Lines out, each a JSON object with "event":
 *   send ID METHOD PATH TIMEOUT_MS BODY_MAX [BODY]       done: id, err, status, body, len, retry_after_ms,
 * error stream ID PATH TIMEOUT_MS STALL_MS                   data: id, text (of a stream) cancel ID refused:
 * id, err (it was not taken) in data|done ID LINE   (runs LINE in the next        closed callback of that
 * kind)       config: err, error (and the driver ends) fresh MS   (of a token; before the first request)
 *   close      (as the end of the input does)
 */
#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "input_lines.h"

#include "base/log.h"
#include "k8s/client.h"

enum { DRIVER_WORDS_MAX = 8, DRIVER_ID_MAX = 32, DRIVER_ACTIONS_MAX = 16 };

struct command {
    struct driver *driver;
    struct command *next;
    char id[DRIVER_ID_MAX];
    struct k8s_request *request; /* NULL: not under way any more */
};

struct action {
    char kind[8];
    char id[DRIVER_ID_MAX];
    char *line;
};

struct driver {
    uv_loop_t loop;
    struct input_lines input;
    struct k8s_config *config;
    struct k8s_client *client;
    struct command *commands;
    struct action actions[DRIVER_ACTIONS_MAX];
    bool is_inside; /* a function of the client: no callback may come now */
    bool is_closing;
    bool is_closed;
};

static void run_line(void *arg, char *line);

/* ---- lines out ---- */

static cJSON *event_new(const char *event, const char *id)
{
    cJSON *object = cJSON_CreateObject();

    assert(object);
    cJSON_AddStringToObject(object, "event", event);
    if (id)
        cJSON_AddStringToObject(object, "id", id);
    return object;
}

static void event_add(cJSON *object, const char *key, struct slice text)
{
    char *copy = strndup(text.data, text.len);

    assert(copy);
    cJSON_AddStringToObject(object, key, copy);
    free(copy);
}

static void event_add_err(cJSON *object, int err)
{
    cJSON_AddStringToObject(object, "err", err ? strerrorname_np(-err) : "");
}

static void event_print(cJSON *object)
{
    char *text = cJSON_PrintUnformatted(object);

    assert(text);
    puts(text);
    free(text);
    cJSON_Delete(object);
}

/* ---- callbacks ---- */

/* Runs what was asked for in this callback; it may cancel, send and close. */
static void run_actions(struct driver *driver, const char *kind, const char *id)
{
    for (size_t i = 0; i < DRIVER_ACTIONS_MAX; i++) {
        struct action *action = &driver->actions[i];

        if (action->line && strcmp(action->kind, kind) == 0 && strcmp(action->id, id) == 0) {
            char *line = TAKE(action->line);

            run_line(driver, line);
            free(line);
        }
    }
}

static void on_data(void *arg, struct slice data)
{
    struct command *command = arg;
    cJSON *event = event_new("data", command->id);

    assert(!command->driver->is_inside && command->request);
    run_actions(command->driver, "data", command->id);
    /* Whatever that did, the bytes are ours until we return. */
    event_add(event, "text", data);
    event_print(event);
}

static void on_done(void *arg, const struct k8s_answer *answer)
{
    struct command *command = arg;
    cJSON *event = event_new("done", command->id);

    assert(!command->driver->is_inside && command->request);
    assert((answer->err == 0) == (answer->error == NULL));
    command->request = NULL;
    run_actions(command->driver, "done", command->id);
    event_add_err(event, answer->err);
    cJSON_AddNumberToObject(event, "status", answer->status);
    cJSON_AddNumberToObject(event, "len", (double)answer->body.len);
    event_add(event, "body",
              (struct slice){answer->body.data, answer->body.len < 4096 ? answer->body.len : 4096});
    cJSON_AddNumberToObject(event, "retry_after_ms", (double)answer->retry_after_ms);
    if (answer->error)
        cJSON_AddStringToObject(event, "error", answer->error);
    event_print(event);
}

static void on_closed(void *arg)
{
    struct driver *driver = arg;

    assert(!driver->is_inside && !driver->is_closed);
    driver->is_closed = true;
    event_print(event_new("closed", NULL));
    input_lines_close(&driver->input);
}

/* ---- lines in ---- */

static void close_client(struct driver *driver)
{
    if (driver->is_closing)
        return;
    driver->is_closing = true;
    driver->is_inside = true;
    k8s_client_close(driver->client, on_closed, driver);
    driver->is_inside = false;
}

static enum k8s_method method_of(const char *name)
{
    static const char *const names[] = {"GET", "POST", "PUT", "PATCH"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return (enum k8s_method)i;
    }
    assert(!"no such method");
    return K8S_GET;
}

static void send_request(struct driver *driver, const char **words, size_t count)
{
    bool is_stream = strcmp(words[0], "stream") == 0;
    struct command *command = calloc(1, sizeof(*command));
    struct k8s_request_spec spec = {0};
    cJSON *event;
    int rc;

    assert(command && count >= (is_stream ? 5 : 6) && words[1]);
    command->driver = driver;
    command->next = driver->commands;
    driver->commands = command;
    snprintf(command->id, sizeof(command->id), "%s", words[1]);
    if (is_stream) {
        spec = (struct k8s_request_spec){.path = words[2],
                                         .timeout_ms = strtoull(words[3], NULL, 10),
                                         .stall_ms = strtoull(words[4], NULL, 10),
                                         .body_max = 65536,
                                         .on_data = on_data};
    } else {
        spec = (struct k8s_request_spec){.method = method_of(words[2]),
                                         .path = words[3],
                                         .timeout_ms = strtoull(words[4], NULL, 10),
                                         .body_max = strtoull(words[5], NULL, 10),
                                         .body = slice_of(count > 6 ? words[6] : "")};
    }
    driver->is_inside = true;
    rc = k8s_client_send(driver->client, &spec, on_done, command, &command->request);
    driver->is_inside = false;
    if (rc == 0)
        return;
    event = event_new("refused", command->id);
    event_add_err(event, rc);
    event_print(event);
}

static void cancel_request(struct driver *driver, const char *id)
{
    for (struct command *command = driver->commands; command; command = command->next) {
        if (command->request && strcmp(command->id, id) == 0) {
            driver->is_inside = true;
            k8s_request_cancel(TAKE(command->request));
            driver->is_inside = false;
            return;
        }
    }
    assert(!"no such request is under way");
}

/* "data|done ID LINE" */
static void add_action(struct driver *driver, char *rest)
{
    const char *kind = strsep(&rest, " ");
    const char *id = strsep(&rest, " ");

    assert(kind && id && rest);
    for (size_t i = 0; i < DRIVER_ACTIONS_MAX; i++) {
        struct action *action = &driver->actions[i];

        if (!action->line) {
            snprintf(action->kind, sizeof(action->kind), "%s", kind);
            snprintf(action->id, sizeof(action->id), "%s", id);
            action->line = strdup(rest);
            return;
        }
    }
    assert(!"too many actions");
}

static void run_line(void *arg, char *line)
{
    struct driver *driver = arg;
    const char *words[DRIVER_WORDS_MAX] = {0};
    size_t count;

    if (driver->is_closing)
        return;
    if (!line) {
        close_client(driver);
        return;
    }
    if (strncmp(line, "in ", 3) == 0) {
        add_action(driver, line + 3);
        return;
    }
    count = input_words(line, words, DRIVER_WORDS_MAX);
    assert(count > 0);
    if (strcmp(words[0], "close") == 0)
        close_client(driver);
    else if (strcmp(words[0], "cancel") == 0 && count == 2)
        cancel_request(driver, words[1]);
    else if (strcmp(words[0], "fresh") == 0 && count == 2)
        driver->config->token_fresh_ms = strtoull(words[1], NULL, 10);
    else
        send_request(driver, words, count);
}

static int make_config(int argc, char **argv, struct k8s_config **ret_config)
{
    char error[K8S_CONFIG_ERROR_MAX] = "";
    cJSON *event;
    int rc = -EINVAL;

    if (argc == 3 && strcmp(argv[1], "url") == 0)
        rc = k8s_config_from_url(argv[2], ret_config, error);
    else if (argc == 3 && strcmp(argv[1], "kubeconfig") == 0)
        rc = k8s_config_load(argv[2], ret_config, error);
    else if (argc == 5 && strcmp(argv[1], "cluster") == 0)
        rc = k8s_config_in_cluster(argv[2], argv[3], argv[4], ret_config, error);
    if (rc == 0)
        return 0;
    event = event_new("config", NULL);
    event_add_err(event, rc);
    cJSON_AddStringToObject(event, "error", error);
    event_print(event);
    return rc;
}

static void driver_free(struct driver *driver)
{
    struct command *next;

    for (struct command *command = driver->commands; command; command = next) {
        next = command->next;
        free(command);
    }
    for (size_t i = 0; i < DRIVER_ACTIONS_MAX; i++)
        free(driver->actions[i].line);
    k8s_config_free(driver->config);
    free(driver);
}

int main(int argc, char **argv)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    int rc;

    assert(driver);
    if (make_config(argc, argv, &driver->config) < 0) {
        driver_free(driver);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_configure(LOG_DEBUG, LOG_JSON);
    uv_loop_init(&driver->loop);
    rc = k8s_client_new(&driver->loop, driver->config, &driver->client);
    assert(rc == 0);
    input_lines_start(&driver->input, &driver->loop, run_line, driver);
    while (uv_run(&driver->loop, UV_RUN_ONCE))
        log_flush();
    log_flush();
    assert(driver->is_closed);
    rc = uv_loop_close(&driver->loop);
    assert(rc == 0);
    driver_free(driver);
    return 0;
}
