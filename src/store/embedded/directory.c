/*
 * directory.c - locks the data directory, and opens, lists and removes its files.
 */
#include "store/embedded/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INDEX_DIGITS = 10 };

static const char *const prefixes[] = {[FILE_SEGMENT] = "log.", [FILE_SNAPSHOT] = "snapshot."};

void directory_name(char name[DIRECTORY_NAME_MAX], enum file_kind kind, uint64_t index)
{
    snprintf(name, DIRECTORY_NAME_MAX, "%s%0*llu", prefixes[kind], INDEX_DIGITS, (unsigned long long)index);
}

void directory_tmp_name(char name[DIRECTORY_NAME_MAX], enum file_kind kind, uint64_t index)
{
    snprintf(name, DIRECTORY_NAME_MAX, "%s%0*llu.tmp", prefixes[kind], INDEX_DIGITS,
             (unsigned long long)index);
}

/* Exactly the digits that directory_name writes; 0 is no index. */
static bool parse_name(const char *name, const char *prefix, uint64_t *ret_index)
{
    size_t prefix_len = strlen(prefix);
    uint64_t index = 0;

    if (strncmp(name, prefix, prefix_len) != 0 || strlen(name) != prefix_len + INDEX_DIGITS)
        return false;
    for (const char *at = name + prefix_len; *at; at++) {
        if (*at < '0' || *at > '9')
            return false;
        index = index * 10 + (uint64_t)(*at - '0');
    }
    *ret_index = index;
    return index > 0;
}

/*
 * The lock file says who it is, but anybody can remove it; so the directory itself is locked as
 * well. A file system that cannot lock directories (NFS wants a file that is open for writing)
 * leaves the file alone.
 */
static int directory_flock(const struct directory *dir)
{
    if (flock(dir->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return -1;
    return flock(dir->lock_fd, LOCK_EX | LOCK_NB);
}

/*
 * The pid is for people only; the lock holds without it, on a full disk too. What is known by
 * another name as well may be somebody's file that was linked here to have it overwritten.
 */
static void directory_write_pid(const struct directory *dir)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    struct stat st;

    if (fstat(dir->lock_fd, &st) < 0 || st.st_nlink != 1)
        return;
    if (ftruncate(dir->lock_fd, 0) == 0 && pwrite(dir->lock_fd, text, (size_t)len, 0) < len)
        (void)!ftruncate(dir->lock_fd, 0);
}

static int directory_lock(struct directory *dir, char *error, size_t error_size)
{
    char text[32] = "";
    ssize_t len;
    int err;

    dir->lock_fd = directory_open_file(dir, "lock", O_RDWR | O_CREAT);
    if (dir->lock_fd < 0) {
        err = -dir->lock_fd;
        if (err == ENXIO)
            snprintf(
                error, error_size,
                "lock in the data directory %s is not a regular file; look who put it there, and remove it",
                dir->path);
        else
            snprintf(error, error_size, "cannot write in the data directory %s: %s", dir->path,
                     strerror(err));
        return -err;
    }
    if (directory_flock(dir) < 0) {
        err = errno == EWOULDBLOCK ? EBUSY : errno;
        len = pread(dir->lock_fd, text, sizeof(text) - 1, 0);
        text[len > 0 ? len : 0] = '\0';
        text[strspn(text, "0123456789")] = '\0';
        if (err == EBUSY)
            snprintf(error, error_size,
                     "the data directory %s is in use by another process%s%s; stop it, or give this one a "
                     "directory of its own",
                     dir->path, *text ? ", pid " : "", text);
        else
            snprintf(error, error_size, "cannot lock the data directory %s: %s", dir->path, strerror(err));
        return -err;
    }
    directory_write_pid(dir);
    return 0;
}

/* So that a power cut right after the first start does not take the new directory with it. */
static void directory_sync_parent(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(copy);
}

int directory_open(struct directory *dir, const char *path, char *error, size_t error_size)
{
    int err;

    *dir = (struct directory){.path = strdup(path), .fd = -1, .lock_fd = -1};
    if (!dir->path) {
        snprintf(error, error_size, "out of memory");
        return -ENOMEM;
    }
    if (mkdir(path, 0700) == 0) {
        directory_sync_parent(path);
    } else if (errno != EEXIST) {
        err = -errno;
        snprintf(error, error_size, "cannot make the data directory %s: %s", path, strerror(-err));
        goto fail;
    }
    dir->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0) {
        err = -errno;
        snprintf(error, error_size, "cannot open the data directory %s: %s", path, strerror(-err));
        goto fail;
    }
    err = directory_lock(dir, error, error_size);
    if (err < 0)
        goto fail;
    return 0;
fail:
    directory_close(dir);
    return err;
}

void directory_close(struct directory *dir)
{
    if (dir->lock_fd >= 0)
        close(dir->lock_fd);
    if (dir->fd >= 0)
        close(dir->fd);
    free(dir->path);
    *dir = (struct directory){.fd = -1, .lock_fd = -1};
}

/* A stream of its own, so that two threads may list at the same time. */
static DIR *directory_stream(const struct directory *dir)
{
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream;

    if (fd < 0)
        return NULL;
    stream = fdopendir(fd);
    if (!stream)
        close(fd);
    return stream;
}

static int compare_indexes(const void *a, const void *b)
{
    const uint64_t *left = a;
    const uint64_t *right = b;

    return *left < *right ? -1 : *left > *right;
}

int directory_list(const struct directory *dir, enum file_kind kind, uint64_t **ret_indexes,
                   size_t *ret_count)
{
    DIR *stream = directory_stream(dir);
    uint64_t *indexes = NULL;
    size_t count = 0;
    size_t room = 0;
    struct dirent *entry;
    int err = 0;

    if (!stream)
        return -errno;
    while (errno = 0, (entry = readdir(stream))) {
        uint64_t index;

        if (!parse_name(entry->d_name, prefixes[kind], &index))
            continue;
        if (count == room) {
            uint64_t *grown;

            room = room ? room * 2 : 16;
            grown = room <= DIRECTORY_FILES_MAX * 2 ? reallocarray(indexes, room, sizeof(*indexes)) : NULL;
            if (!grown) {
                err = -ENOMEM;
                break;
            }
            indexes = grown;
        }
        indexes[count++] = index;
    }
    if (!entry && errno)
        err = -errno;
    closedir(stream);
    if (err < 0) {
        free(indexes);
        return err;
    }
    if (count)
        qsort(indexes, count, sizeof(*indexes), compare_indexes);
    *ret_indexes = indexes;
    *ret_count = count;
    return 0;
}

int directory_open_file(const struct directory *dir, const char *name, int flags)
{
    /*
     * Opening a FIFO would wait for its other end; a symbolic link would lead to somebody else's
     * file.
     */
    int fd = openat(dir->fd, name, flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
    struct stat st;
    int err = 0;

    if (fd < 0)
        return errno == ELOOP ? -ENXIO : -errno;
    if (fstat(fd, &st) < 0)
        err = -errno;
    else if (!S_ISREG(st.st_mode))
        err = -ENXIO;
    if (err < 0) {
        close(fd);
        return err;
    }
    return fd;
}

bool directory_is_exposed(const struct directory *dir)
{
    struct stat st;

    if (fstat(dir->fd, &st) < 0)
        return false;
    return (st.st_mode & S_IWOTH) || (st.st_uid != geteuid() && st.st_uid != 0);
}

bool directory_is_removed(const struct directory *dir)
{
    struct stat st;

    return fstat(dir->fd, &st) == 0 && st.st_nlink == 0;
}

int directory_sync(const struct directory *dir)
{
    return fsync(dir->fd) < 0 ? -errno : 0;
}

void directory_remove_before(const struct directory *dir, uint64_t index)
{
    /*
     * Snapshots last: without its segments a snapshot is of use, segments without their snapshot
     * are not.
     */
    for (int kind = FILE_SEGMENT; kind <= FILE_SNAPSHOT; kind++) {
        uint64_t *indexes = NULL;
        size_t count = 0;

        if (directory_list(dir, (enum file_kind)kind, &indexes, &count) < 0)
            continue;
        for (size_t i = 0; i < count && indexes[i] < index; i++) {
            char name[DIRECTORY_NAME_MAX];

            directory_name(name, (enum file_kind)kind, indexes[i]);
            unlinkat(dir->fd, name, 0);
        }
        free(indexes);
    }
}

void directory_remove_torn(const struct directory *dir)
{
    DIR *stream = directory_stream(dir);
    struct dirent *entry;
    uint64_t index;

    if (!stream)
        return;
    while ((entry = readdir(stream))) {
        if (parse_name(entry->d_name, DIRECTORY_TORN ".", &index))
            unlinkat(dir->fd, entry->d_name, 0);
    }
    closedir(stream);
}

void directory_remove_tmp(const struct directory *dir)
{
    DIR *stream = directory_stream(dir);
    struct dirent *entry;

    if (!stream)
        return;
    while ((entry = readdir(stream))) {
        size_t len = strlen(entry->d_name);

        if (len > 4 && strcmp(entry->d_name + len - 4, ".tmp") == 0 &&
            (strncmp(entry->d_name, prefixes[FILE_SEGMENT], 4) == 0 ||
             strncmp(entry->d_name, prefixes[FILE_SNAPSHOT], 9) == 0 ||
             strncmp(entry->d_name, DIRECTORY_TORN ".", 5) == 0))
            unlinkat(dir->fd, entry->d_name, 0);
    }
    closedir(stream);
}
