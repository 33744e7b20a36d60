/*
 * show.c - prints the settings in force (check-config), and the reference of all settings
 * (docs/CONFIG.md).
 */
#include "base/wrap.h"
#include "config/config_internal.h"
#include "config/value.h"

enum { SHOW_PARAGRAPH_MAX = 64 * 1024 };

static void show_origin(const struct config *config, size_t i, struct strbuf *buf)
{
    strbuf_append_str(buf, "  # ");
    strbuf_append_str(buf, !config->is_set[i] ? "default" : config->is_from_file[i] ? "file" : "environment");
    if (config->notes[i]) {
        strbuf_append_str(buf, ", ");
        strbuf_append_str(buf, config->notes[i]);
    }
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

/* Without memory for the paragraph the whole text fails. */
static void show_paragraph(struct strbuf *buf, struct strbuf *text, const char *indent)
{
    if (strbuf_failed(text))
        buf->failed = true;
    else
        wrap_append(buf, text->data, indent);
    strbuf_reset(text);
}

static void show_entry(const struct setting *setting, struct strbuf *text)
{
    strbuf_printf(text, "- **`%s`** (", setting->name);
    value_describe(setting, text);
    if (setting->fallback[0])
        strbuf_printf(text, "; default `%s`", setting->fallback);
    strbuf_printf(text, "): %s", setting->help);
    if (setting->state == SETTING_INERT)
        strbuf_append_str(text, " *No effect in this version.*");
}

static void show_secret_files(struct strbuf *text)
{
    bool is_first = true;

    strbuf_append_str(text,
                      "A secret can be in a file instead. The variable with `_FILE` at its end names the "
                      "file: ");
    for (size_t i = 0; i < config_table_len; i++) {
        if (!config_table[i].is_secret)
            continue;
        strbuf_printf(text, "%s`%s_FILE`", is_first ? "" : ", ", config_table[i].name);
        is_first = false;
    }
    strbuf_append_str(
        text, ". The router reads the file at start. On SIGHUP it reads the files of `API_KEY`, "
              "`API_KEYS`, `GATEWAY_SECRET` and of the providers' tokens again, and uses all of them; "
              "if one is bad, it uses none of them. It reads Redis passwords at start only. A file has "
              "at most 64 KiB; newlines at its end do not count. It is an error to set both variables, "
              "and a file that is missing, not readable or empty is an error too. Secrets are never "
              "logged or shown.");
}

static const char show_intro[] =
    "Settings are environment variables. The router reads them once, at start. An empty value counts as "
    "unset. "
    "Durations are written `500ms`, `30s`, `6m`, `24h` or `1h30m`. If a value is not allowed, the router "
    "does "
    "not start: it prints one line for each bad variable and exits with code 2. `smart-router check-config` "
    "prints the effective settings and where they come from. It also reads the files that settings name "
    "(certificates, keys, the kubeconfig, secrets), prints what is wrong with them by the name of the "
    "setting, and exits with code 1 then.";

static const char show_unknown[] =
    "A variable that looks like a setting and is none has no effect. The router warns about it at start, "
    "with "
    "the nearest name: `HTTP_PROT` is one letter away from `HTTP_PORT`; `LEADER_ELECTION_`, `GATEWAY_`, "
    "`HOLD_` and `REDIS_` are prefixes of settings. The variables that Kubernetes sets for services are left "
    "out. One "
    "that has the name of a port of ours (`VOICE_AGENT_PORT=tcp://10.0.0.1:8080`, for a service "
    "`voice-agent`) is ignored, with a warning.";

static const char show_modes[] =
    "The router warns, at start and on SIGHUP, about a file that every user of the machine can read. The "
    "same "
    "applies to `TLS_KEY_FILE` and `KUBECONFIG`. The right mode is 0600, or 0440 with a group of its own "
    "(`fsGroup` in Kubernetes).";

void config_show_markdown(struct strbuf *buf)
{
    const char *group = "";
    struct strbuf text; /* a paragraph, before it is wrapped */

    strbuf_init(&text, NULL, SHOW_PARAGRAPH_MAX);
    strbuf_append_str(
        buf, "# Configuration\n"
             "\n"
             "<!-- Made by `smart-router check-config --markdown` from src/config/table.c: do not edit. -->\n"
             "\n");
    wrap_append(buf, show_intro, "");
    strbuf_append_char(buf, '\n');
    wrap_append(buf, show_unknown, "");
    for (size_t i = 0; i < config_table_len; i++) {
        const struct setting *setting = &config_table[i];

        if (setting->group != group) {
            strbuf_printf(buf, "\n## %s\n\n", setting->group);
            group = setting->group;
        }
        show_entry(setting, &text);
        show_paragraph(buf, &text, "  ");
    }
    strbuf_append_str(buf, "\n## Secrets from files\n\n");
    show_secret_files(&text);
    show_paragraph(buf, &text, "");
    strbuf_append_char(buf, '\n');
    wrap_append(buf, show_modes, "");
    strbuf_release(&text);
}
