/*
 * error.c - says in words why a store did not answer. The texts of errno would be about sockets and
 * files, which mean nothing to the reader of a log.
 */
#include "store/store.h"

const char *store_error_text(int err)
{
    assert(err < 0);
    switch (-err) {
    case ENOTCONN:
        return "there is no connection to Redis";
    case ETIMEDOUT:
        return "Redis did not answer within REDIS_TIMEOUT";
    case EAGAIN:
        return "Redis cannot answer now: it is loading its data, is busy, or has no master";
    case EROFS:
        return "the store is read-only: this Redis is a replica";
    case ENOSPC:
        return "the store has no room: the disk or the memory of Redis is full, or Redis cannot save";
    case EACCES:
        return "Redis refuses the router's user: its password is wrong, or it lacks a right";
    case EBADMSG:
        return "a key in Redis has the wrong type: it was made by hand, or by another program";
    case EBUSY:
        return "too many requests wait for the store";
    case ECANCELED:
        return "this router does not lead any more, or is stopping";
    case ESTALE:
        return "the stored tiers change again and again";
    case EIO:
        return "the store has failed, or gave an answer that cannot be read: see the error lines before";
    case ENOMEM:
        return "the router has no memory for it";
    default:
        return strerror(-err);
    }
}
