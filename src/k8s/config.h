/*
 * config.h - the address of the Kubernetes API server and our credentials: from inside a cluster,
 * from a kubeconfig, or a plain http URL (as `kubectl proxy` gives). Reads files; blocks; meant for
 * the start of the process.
 *
 * Credentials are taken for https only: over plain http they would be everybody's.
 */
#ifndef K8S_CONFIG_H
#define K8S_CONFIG_H

#include "base/base.h"

enum {
    K8S_CONFIG_ERROR_MAX = 512,
    K8S_CONFIG_FILE_MAX = 1 << 20, /* a kubeconfig, a certificate or a key */
    K8S_TOKEN_MAX = 32 * 1024,
    K8S_TOKEN_FRESH_MS = 50 * 1000, /* a token that rotates is read again when it is older */
};

#define K8S_SERVICE_ACCOUNT_DIRECTORY "/var/run/secrets/kubernetes.io/serviceaccount"

/* PEM text: in a file that is read again with each connection, or in memory. Both NULL: there is none. */
struct k8s_pem {
    char *path;
    char *data; /* NUL-terminated for convenience */
    size_t len;
};

/* All of it is owned by whoever made it; nothing changes afterwards. Texts are NULL where there is none. */
struct k8s_config {
    char *server;         /* "https://10.0.0.1:443", "http://127.0.0.1:8001/prefix": no slash at the end */
    char *namespace_name; /* "": nothing says */
    char *tls_server_name;
    bool is_insecure;  /* the server's certificate is not verified */
    struct k8s_pem ca; /* none: those that the system trusts */
    struct k8s_pem client_certificate;
    struct k8s_pem client_key;
    char *token;      /* of a token_file: what was in it when it was first read */
    char *token_file; /* wins over `token` as long as it can be read */
    uint64_t token_fresh_ms;
};

/*
 * These give -ENOMEM, -ENOENT and other errors of files, or -EINVAL for what is wrong inside them; `error`
 * then is a sentence that names the file and the field, and never contains a secret.
 */

/* `host` and `port` are KUBERNETES_SERVICE_HOST and _PORT; an IPv6 address comes without brackets. */
int k8s_config_in_cluster(const char *host, const char *port, const char *directory,
                          struct k8s_config **ret_config, char error[K8S_CONFIG_ERROR_MAX]) MUST_CHECK;

/* The current context of one kubeconfig file. */
int k8s_config_load(const char *path, struct k8s_config **ret_config,
                    char error[K8S_CONFIG_ERROR_MAX]) MUST_CHECK;

/* Without credentials. */
int k8s_config_from_url(const char *url, struct k8s_config **ret_config,
                        char error[K8S_CONFIG_ERROR_MAX]) MUST_CHECK;

/* Accepts NULL; always returns NULL. */
struct k8s_config *k8s_config_free(struct k8s_config *config);

/*
 * Reads a token, without the whitespace around it, into a text that the caller frees. -EINVAL: empty, or with
 * characters that no header can hold; -EMSGSIZE: longer than K8S_TOKEN_MAX; or an error of the file.
 */
int k8s_token_read(const char *path, char **ret_token) MUST_CHECK;

#endif
