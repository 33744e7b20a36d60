/*
 * show.c - prints the settings in force (check-config), and the reference of all settings
 * (docs/CONFIG.md).
 */
#include "config/config_internal.h"
#include "config/value.h"

static void show_origin(const struct config *config, size_t i, struct strbuf *buf)
{
    strbuf_append_str(buf, "  # ");
    strbuf_append_str(buf, !config->is_set[i] ? "default" : config->is_from_file[i] ? "file" : "environment");
    if (config->is_raised[i])
        strbuf_append_str(buf, ", raised to LEASE_TTL");
    if (config->is_set[i] && config_table[i].state == SETTING_INERT)
        strbuf_append_str(buf, ", no effect in this version");
}

void config_show(const struct config *config, struct strbuf *buf)
{
    const char *group = "";

    for (size_t i = 0; i < config_table_len; i++) {
        const struct setting *setting = &config_table[i];

        if (setting->group != group) {
            strbuf_printf(buf, "%s# %s\n", i > 0 ? "\n" : "", setting->group);
            group = setting->group;
        }
        strbuf_printf(buf, "%s=", setting->name);
        strbuf_append_str(buf, setting->is_secret && config->is_set[i] ? "********" : config->texts[i]);
        show_origin(config, i, buf);
        strbuf_append_char(buf, '\n');
    }
}

/* A cell of a table: a pipe would end it. */
static void show_cell(struct strbuf *buf, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            strbuf_append_char(buf, '\\');
        strbuf_append_char(buf, *text);
    }
}

static void show_row(const struct setting *setting, struct strbuf *buf)
{
    strbuf_printf(buf, "| `%s` | ", setting->name);
    if (setting->fallback[0])
        strbuf_printf(buf, "`%s`", setting->fallback);
    else
        strbuf_append_str(buf, "unset");
    strbuf_append_str(buf, " | ");
    value_describe(setting, buf);
    strbuf_append_str(buf, " | ");
    show_cell(buf, setting->help);
    if (setting->state == SETTING_INERT)
        strbuf_append_str(buf, " *No effect in this version.*");
    strbuf_append_str(buf, " |\n");
}

static void show_secret_files(struct strbuf *buf)
{
    bool is_first = true;

    strbuf_append_str(buf, "\n## Secrets from files\n\nA secret can be in a file instead, which the variable "
                           "with `_FILE` at its end names: ");
    for (size_t i = 0; i < config_table_len; i++) {
        if (!config_table[i].is_secret)
            continue;
        strbuf_printf(buf, "%s`%s_FILE`", is_first ? "" : ", ", config_table[i].name);
        is_first = false;
    }
    strbuf_append_str(
        buf,
        ".\nThe file is read at start. On SIGHUP the files of `API_KEY`, `API_KEYS`, "
        "`GATEWAY_SECRET` and of the providers' tokens are\nread again: all of them count from then on, or, "
        "if one is bad, none. Redis passwords are read at start only. A file\nhas at most 64 "
        "KiB; newlines at its end do not "
        "count. Setting both variables is an error,\nand so is a file that is missing, "
        "not readable or empty. Secrets are never logged or shown.\n");
}

void config_show_markdown(struct strbuf *buf)
{
    const char *group = "";

    strbuf_append_str(
        buf,
        "# Configuration\n"
        "\n"
        "<!-- Made by `smart-router check-config --markdown` from src/config/table.c: do not edit. -->\n"
        "\n"
        "Settings are environment variables, read once at start. An empty value counts as unset. Durations "
        "are\n"
        "written `500ms`, `30s`, `6m`, `24h` or `1h30m`. A value that is not allowed stops the start with "
        "exit\n"
        "code 2 and one line for each bad variable. `smart-router check-config` prints what is in force and\n"
        "where it comes from.\n");
    for (size_t i = 0; i < config_table_len; i++) {
        const struct setting *setting = &config_table[i];

        if (setting->group != group) {
            strbuf_printf(buf,
                          "\n## %s\n\n| variable | default | allowed | what it does |\n|---|---|---|---|\n",
                          setting->group);
            group = setting->group;
        }
        show_row(setting, buf);
    }
    show_secret_files(buf);
    strbuf_append_str(buf,
                      "\nA file that every user of the machine can read is warned about at the start and on "
                      "SIGHUP; so are `TLS_KEY_FILE`\nand `KUBECONFIG`. Mode 0600 is right, or 0440 with a "
                      "group of its own (`fsGroup` in Kubernetes).\n");
}
