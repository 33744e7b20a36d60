/*
 * directory.h - DATA_DIR: its lock and its files.
 *
 * log.NNNNNNNNNN are the segments of the log, snapshot.NNNNNNNNNN is the state before the first
 * frame of the segment with the same number. Files that end in .tmp are unfinished and belong to
 * nobody after a crash. torn.NNNNNNNNNN is what was cut off the end of that segment, kept for
 * whoever wants to look at it.
 */
#ifndef STORE_EMBEDDED_DIRECTORY_H
#define STORE_EMBEDDED_DIRECTORY_H

#include "store/embedded/disk.h"
#include "store/embedded/frame.h"

enum {
    DIRECTORY_NAME_MAX = 32,
    DIRECTORY_FILES_MAX = 100000, /* more of one kind, and something is very wrong */
};

#define DIRECTORY_TORN "torn"

struct directory {
    char *path;
    int fd;
    int lock_fd;
};

/*
 * Makes the directory if it is not there (not its parents) and takes the lock.
 *
 * 0; -EBUSY: another process has it; a negative errno. Then `error` says what is wrong.
 */
int directory_open(struct directory *dir, const char *path, char *error, size_t error_size) MUST_CHECK;
void directory_close(struct directory *dir);

void directory_name(char name[DIRECTORY_NAME_MAX], enum file_kind kind, uint64_t index);
void directory_tmp_name(char name[DIRECTORY_NAME_MAX], enum file_kind kind, uint64_t index);

/*
 * The numbers of the files of one kind, ascending. The caller frees *ret_indexes. 0 or a negative
 * errno.
 */
int directory_list(const struct directory *dir, enum file_kind kind, uint64_t **ret_indexes,
                   size_t *ret_count) MUST_CHECK;

/* Was it removed since it was opened? Then what is written in it is gone with this process. */
bool directory_is_removed(const struct directory *dir);

/*
 * Can any user of this machine, or an owner that is neither this process's user nor root, put files
 * into it? The group may: that is how Kubernetes hands out volumes (fsGroup).
 */
bool directory_is_exposed(const struct directory *dir);

/*
 * A file descriptor or a negative errno. -ENXIO: there is something else than a file under that
 * name, such as a symbolic link, which is never followed.
 */
int directory_open_file(const struct directory *dir, const char *name, int flags) MUST_CHECK;

/* Makes the names durable. 0 or a negative errno. */
int directory_sync(const struct directory *dir) MUST_CHECK;

/*
 * Removes what a complete snapshot `index` makes superfluous. What cannot be removed stays for the
 * next time.
 */
void directory_remove_before(const struct directory *dir, uint64_t index);

/* Removes what was kept of a tail that was cut off earlier. */
void directory_remove_torn(const struct directory *dir);

/* Removes unfinished files. */
void directory_remove_tmp(const struct directory *dir);

#endif
