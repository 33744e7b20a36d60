/*
 * config_files.c - reads the files of a configuration: certificates, keys and tokens.
 */
#include "k8s/config_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/slice.h"

void config_free_secret(char *secret, size_t len)
{
    if (secret)
        explicit_bzero(secret, len);
    free(secret);
}

/* Reads until the end or until the buffer is full; gives the bytes, or a negative errno. */
static ssize_t read_all(int fd, char *data, size_t room)
{
    size_t len = 0;

    while (len < room) {
        ssize_t got = read(fd, data + len, room - len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    return (ssize_t)len;
}

int config_read_file(const char *path, size_t max, char **ret_data, size_t *ret_len)
{
    char *data = malloc(max + 2);
    ssize_t len = -EIO;
    int err = 0;
    int fd;

    if (!data)
        return -ENOMEM;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        len = read_all(fd, data, max + 1);
        close(fd);
    } else if (errno > 0) {
        len = -errno;
    }
    if (len < 0)
        err = (int)len;
    else if (len == 0)
        err = -ENODATA;
    else if ((size_t)len > max)
        err = -EMSGSIZE;
    if (err < 0) {
        free(data);
        return err;
    }
    data[len] = '\0';
    *ret_data = data;
    *ret_len = (size_t)len;
    return 0;
}

/* Errors of ours said better than strerror would. */
static const char *file_error(int err)
{
    switch (err) {
    case -ENODATA:
        return "the file is empty";
    case -EMSGSIZE:
        return "the file is too large";
    case -EINVAL:
        return "this is no token";
    default:
        return strerror(-err);
    }
}

int config_set_pem_path(struct k8s_pem *pem, const char *path, const char *where,
                        char error[K8S_CONFIG_ERROR_MAX])
{
    char *data = NULL;
    size_t len = 0;
    bool has_pem;
    int err = config_read_file(path, K8S_CONFIG_FILE_MAX, &data, &len);

    if (err < 0)
        return config_fail(error, err, "%s: cannot read %s: %s", where, path, file_error(err));
    has_pem = strstr(data, "-----BEGIN ") != NULL;
    config_free_secret(data, len);
    if (!has_pem)
        return config_fail(error, -EINVAL, "%s: %s is not a PEM file", where, path);
    pem->path = strdup(path);
    return pem->path ? 0 : -ENOMEM;
}

/* ---- tokens ---- */

bool config_is_token(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= K8S_TOKEN_MAX && slice_is_printable((struct slice){text, len});
}

int k8s_token_read(const char *path, char **ret_token)
{
    char *data = NULL, *start, *end;
    size_t len = 0;
    int err = config_read_file(path, K8S_TOKEN_MAX, &data, &len);

    if (err < 0)
        return err == -ENODATA ? -EINVAL : err;
    start = data + strspn(data, " \t\r\n");
    end = data + len;
    while (end > start && strchr(" \t\r\n", end[-1]))
        end--;
    *end = '\0';
    /* A NUL inside would hide what stands behind it. */
    if (strlen(start) != (size_t)(end - start) || !config_is_token(start)) {
        config_free_secret(data, len);
        return -EINVAL;
    }
    memmove(data, start, (size_t)(end - start) + 1);
    *ret_token = data;
    return 0;
}

int config_set_token_file(struct k8s_config *config, const char *path, const char *where,
                          char error[K8S_CONFIG_ERROR_MAX])
{
    char *token = NULL;
    int err = k8s_token_read(path, &token);

    if (err < 0)
        return config_fail(error, err, "%s: cannot read a token from %s: %s", where, path, file_error(err));
    free(config->token);
    config->token = token;
    config->token_file = strdup(path);
    return config->token_file ? 0 : -ENOMEM;
}
