/*
 * main.c - the entry point, and the commands that need the whole program.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/api.h"
#include "app/app.h"
#include "app/check.h"
#include "app/check_files.h"
#include "app/metric_list.h"
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

/* The settings go to standard output, what is wrong with the files that they name to standard error. */
static int print_config(const struct config *config)
{
    struct strbuf buf, findings;
    struct slice text;
    bool is_well;
    int status;

    strbuf_init(&buf, NULL, OUTPUT_MAX);
    config_show(config, &buf);
    status = print(&buf);
    strbuf_init(&findings, NULL, OUTPUT_MAX);
    is_well = check_files(config, &findings) && !strbuf_failed(&findings);
    text = strbuf_slice(&findings);
    fwrite(text.data, 1, text.len, stderr);
    strbuf_release(&findings);
    return status == EXIT_OK && !is_well ? EXIT_FAILED : status;
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

static int print_openapi(void)
{
    struct strbuf buf;

    strbuf_init(&buf, NULL, OUTPUT_MAX);
    api_write_openapi(&buf);
    strbuf_append_char(&buf, '\n');
    return print(&buf);
}

static int print_metrics(bool as_markdown)
{
    struct metrics *metrics = NULL;
    const char *label = NULL;
    struct strbuf buf;
    bool is_known = true;
    int status;

    if (metrics_new(&metrics) < 0 || metric_list_fill(metrics) < 0) {
        cli_say("no memory for the metrics");
        metrics_free(metrics);
        return EXIT_FAILED;
    }
    strbuf_init(&buf, NULL, OUTPUT_MAX);
    if (as_markdown)
        is_known = metrics_write_reference(metrics, &buf, &label);
    else
        metrics_write_list(metrics, &buf);
    if (!is_known)
        cli_say("src/metrics/reference.c does not describe the label %s", label);
    status = print(&buf);
    metrics_free(metrics);
    return is_known ? status : EXIT_FAILED;
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

static int load_settings(struct config **ret_config)
{
    CLEANUP(config_freep) struct config *config = NULL;
    struct slice errors;

    if (config_load(environment, NULL, &config) < 0) {
        cli_say("no memory for the settings");
        return EXIT_FAILED;
    }
    check_settings(config);
    errors = config_errors(config);
    if (errors.len > 0) {
        fwrite(errors.data, 1, errors.len, stderr);
        return EXIT_USAGE;
    }
    *ret_config = TAKE(config);
    return EXIT_OK;
}

static int command_serve(const struct cli_options *options UNUSED)
{
    CLEANUP(config_freep) struct config *config = NULL;
    int status = load_settings(&config);

    return status == EXIT_OK ? app_run(config) : status;
}

static int command_check_config(const struct cli_options *options)
{
    CLEANUP(config_freep) struct config *config = NULL;
    int status;

    if (options->flags & CLI_MARKDOWN)
        return print_markdown();
    status = load_settings(&config);
    return status == EXIT_OK ? print_config(config) : status;
}

static int command_routes(const struct cli_options *options)
{
    return options->flags & CLI_OPENAPI ? print_openapi() : print_routes();
}

static int command_metrics(const struct cli_options *options)
{
    return print_metrics(options->flags & CLI_MARKDOWN);
}

/* The commands that need the whole program; src/cli has the others. The first is what runs without a name. */
static const struct cli_command commands[] = {
    {.name = "serve", .help = "serve the API (the default)", .run = command_serve},
    {
        .name = "check-config",
        .options = CLI_MARKDOWN,
        .help = "print the effective settings and their origin, or the errors in them; read the\n"
                "files that they name, and say what is wrong with these",
        .run = command_check_config,
    },
    {
        .name = "routes",
        .options = CLI_OPENAPI,
        .help = "print every route of the API and the roles of the keys that may use it;\n"
                "with --openapi print the OpenAPI document, which GET /openapi.json serves",
        .run = command_routes,
    },
    {
        .name = "metrics",
        .options = CLI_MARKDOWN,
        .help = "print every metric of the router: its labels, its type and its meaning",
        .run = command_metrics,
    },
};

int main(int argc, char **argv)
{
    open_standard_descriptors();
    return cli_run(argc, argv, commands, ARRAY_LEN(commands));
}
