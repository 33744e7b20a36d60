/*
 * config_internal.h - what config.c, config_files.c and kubeconfig.c share.
 */
#ifndef K8S_CONFIG_INTERNAL_H
#define K8S_CONFIG_INTERNAL_H

#include "k8s/config.h"

void k8s_config_freep(struct k8s_config **config);

/* Writes the sentence and returns `err`. */
int config_fail(char error[K8S_CONFIG_ERROR_MAX], int err, const char *format, ...) PRINTF_LIKE(3, 4);

/* NULL: no memory. */
struct k8s_config *config_new(void);

/*
 * Takes the URL of the server if it is one; `where` says in the sentence where it comes from.
 */
int config_set_server(struct k8s_config *config, const char *url, const char *where,
                      char error[K8S_CONFIG_ERROR_MAX]) MUST_CHECK;
bool config_is_https(const struct k8s_config *config);

/* Overwrites it before it frees it; accepts NULL. */
void config_free_secret(char *secret, size_t len);

/* The whole of a file that is neither empty nor longer than `max`, with a NUL behind it; the caller frees it.
 */
int config_read_file(const char *path, size_t max, char **ret_data, size_t *ret_len) MUST_CHECK;

/* Sees that the file can be read, and keeps the path. */
int config_set_pem_path(struct k8s_pem *pem, const char *path, const char *where,
                        char error[K8S_CONFIG_ERROR_MAX]) MUST_CHECK;

/* Reads the token once and keeps the path. */
int config_set_token_file(struct k8s_config *config, const char *path, const char *where,
                          char error[K8S_CONFIG_ERROR_MAX]) MUST_CHECK;

/* Can it stand in a header? */
bool config_is_token(const char *text);

#endif
