/*
 * exposed.c - warns of files with secrets that every user of the machine can read or change.
 */
#include "app/exposed.h"

#include <stdio.h>
#include <sys/stat.h>

enum {
    MODE_TEXT_MAX = 16,
    VARIABLE_MAX = 64,
};

static void exposed_check(const char *name, const char *suffix, const char *path)
{
    char variable[VARIABLE_MAX];
    char mode[MODE_TEXT_MAX];
    struct stat st;

    /* One that cannot be looked at is a matter for whoever reads it. */
    if (!path[0] || stat(path, &st) < 0 || !(st.st_mode & (S_IROTH | S_IWOTH)))
        return;
    snprintf(variable, sizeof(variable), "%s%s", name, suffix);
    snprintf(mode, sizeof(mode), "%04o", (unsigned)(st.st_mode & 07777));
    log_warn("every user of this machine can read or change a file with a secret: give it to the router's "
             "user with mode 0600, or to a group of its own with 0440",
             log_str("variable", variable), log_str("file", path), log_str("mode", mode));
}

void exposed_warn(const struct config *config)
{
    const struct settings *settings = config_settings(config);
    const char *name, *path;

    for (size_t i = 0; config_secret_file(config, &i, &name, &path);)
        exposed_check(name, "_FILE", path);
    exposed_check("TLS_KEY_FILE", "", settings->tls_key_file);
    exposed_check("KUBECONFIG", "", settings->kubeconfig);
}
