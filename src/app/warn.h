/*
 * warn.h - warnings for the operator: settings that are allowed but unsafe, and exposed files.
 */
#ifndef APP_WARN_H
#define APP_WARN_H

#include "config/config.h"

/*
 * Logs what is unset or without effect, and variables of the environment that look like settings; names,
 * never values.
 */
void warn_of_settings(const struct config *config);

/*
 * Why no provider can open a stream at the URL that calls get; NULL: nothing speaks against it. *ret_url is
 * that URL, as far as the settings say it.
 */
const char *warn_why_unreachable(const struct settings *settings, const char **ret_url);

/* Names the secrets that could be guessed. */
void warn_of_short_secrets(const struct settings *settings);

/*
 * Logs a warning for each file with a secret that every user of the machine can read or change,
 * with the variable that names it: the files of secrets (NAME_FILE), TLS_KEY_FILE and KUBECONFIG. A
 * group that may read is no reason: that is how Kubernetes hands out secrets to a process that is
 * not root (fsGroup).
 */
void warn_of_exposed_files(const struct config *config);

/* The same for `check-config`, which prints them. */
typedef void (*exposed_file_fn)(void *arg, const char *variable, const char *path, const char *mode);
void find_exposed_files(const struct config *config, exposed_file_fn fn, void *arg);

#endif
