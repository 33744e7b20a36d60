/*
 * exposed.h - files with secrets that every user of the machine can read.
 */
#ifndef APP_EXPOSED_H
#define APP_EXPOSED_H

#include "config/config.h"

/*
 * Logs a warning for each such file, with the variable that names it: the files of secrets (NAME_FILE),
 * TLS_KEY_FILE and KUBECONFIG. A group that may read is no reason: that is how Kubernetes hands out secrets
 * to a process that is not root (fsGroup).
 */
void exposed_warn(const struct config *config);

#endif
