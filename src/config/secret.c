/*
 * secret.c - reads a secret from the file that a NAME_FILE variable names.
 */
#include "config/config_internal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_MAX = 64 * 1024 };

/* Reads until the end or until `size` bytes are there. The number of bytes or a negative errno. */
static ssize_t secret_read(int fd, char *data, size_t size)
{
    size_t len = 0;

    while (len < size) {
        ssize_t n = read(fd, data + len, size - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

static size_t secret_trim(const char *data, size_t len)
{
    while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r'))
        len--;
    return len;
}

static int secret_read_file(struct config *config, int fd, const char **ret_text, struct strbuf *why)
{
    struct stat info;
    char *data;
    ssize_t len;

    if (fstat(fd, &info) < 0) {
        strbuf_printf(why, "cannot be read: %s", strerror(errno));
        return -EINVAL;
    }
    /* A pipe could keep the start waiting for ever. */
    if (!S_ISREG(info.st_mode)) {
        strbuf_append_str(why, "is not a regular file");
        return -EINVAL;
    }
    data = arena_alloc(&config->arena, SECRET_MAX + 1);
    if (!data)
        return -ENOMEM;
    len = secret_read(fd, data, SECRET_MAX + 1);
    if (len < 0) {
        strbuf_printf(why, "cannot be read: %s", strerror((int)-len));
        return -EINVAL;
    }
    if (len > SECRET_MAX) {
        strbuf_printf(why, "has more than %d bytes", SECRET_MAX);
        return -EINVAL;
    }
    len = (ssize_t)secret_trim(data, (size_t)len);
    if (len == 0) {
        strbuf_append_str(why, "is empty");
        return -EINVAL;
    }
    if (memchr(data, '\0', (size_t)len)) {
        strbuf_append_str(why, "is not a text");
        return -EINVAL;
    }
    data[len] = '\0';
    *ret_text = data;
    return 0;
}

int config_read_secret(struct config *config, const char *path, const char **ret_text, struct strbuf *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int err;

    if (fd < 0) {
        strbuf_printf(why, "cannot be opened: %s", strerror(errno));
        return -EINVAL;
    }
    err = secret_read_file(config, fd, ret_text, why);
    close(fd);
    return err;
}
