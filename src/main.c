/*
 * main.c - the entry point: parses the arguments, loads and checks the settings, and runs the
 * command.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/api.h"
#include "app/app.h"
#include "app/check.h"
#include "cli/cli.h"

enum { OUTPUT_MAX = 1024 * 1024 };

static const char *environment(void *arg UNUSED, const char *name)
{
    return getenv(name);
}

static int print(struct strbuf *buf)
{
    struct slice text = strbuf_slice(buf);
    int status = EXIT_OK;

    if (strbuf_failed(buf) || fwrite(text.data, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        status = EXIT_FAILED;
    strbuf_release(buf);
    return status;
}

static int print_config(const struct config *config)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, OUTPUT_MAX);
    config_show(config, &buf);
    return print(&buf);
}

static int print_markdown(void)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, OUTPUT_MAX);
    config_show_markdown(&buf);
    return print(&buf);
}

static int print_routes(void)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, OUTPUT_MAX);
    api_write_routes(&buf);
    return print(&buf);
}

/*
 * Somebody may have started us with a standard descriptor closed. The next one that is opened would take its
 * place, and the log would be written into a socket.
 */
static void open_standard_descriptors(void)
{
    int fd = open("/dev/null", O_RDWR);

    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    CLEANUP(config_freep) struct config *config = NULL;
    int status = EXIT_OK;
    enum cli_action action;
    struct slice errors;

    open_standard_descriptors();
    action = cli_parse(argc, argv, &status);
    if (action == CLI_EXIT)
        return status;
    if (action == CLI_CONFIG_MARKDOWN)
        return print_markdown();
    if (action == CLI_ROUTES)
        return print_routes();

    if (config_load(environment, NULL, &config) < 0) {
        fputs("smart-router: no memory for the settings\n", stderr);
        return EXIT_FAILED;
    }
    check_settings(config);
    errors = config_errors(config);
    if (errors.len > 0) {
        fwrite(errors.data, 1, errors.len, stderr);
        return EXIT_USAGE;
    }
    return action == CLI_CHECK_CONFIG ? print_config(config) : app_run(config);
}
