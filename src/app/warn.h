/*
 * warn.h - warnings for the operator: settings that are allowed but unsafe, and exposed files.
 */
#ifndef APP_WARN_H
#define APP_WARN_H

#include "config/config.h"

enum { WARN_NAMES_MAX = 256 };

/* What to do about what warn_missing_for_waiting names. */
#define WARN_WAITING                                                                                         \
    "It needs GATEWAY_SECRET, PUBLIC_BASE_URL, RESCUE=true, and a WS_URL_TEMPLATE with /ws/pod/{pod}, and "  \
    "with {pod} nowhere else"

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

/*
 * The settings without which calls of providers can neither wait nor resume, separated by spaces; NULL: all
 * are there.
 */
const char *warn_missing_for_waiting(const struct settings *settings, char names[WARN_NAMES_MAX]);

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
