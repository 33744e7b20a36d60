/*
 * reply.c - interprets Redis' replies: error codes and times.
 */
#include "store/redis/reply.h"

#include <stdlib.h>

#include "store/redis/script_interface.h"

static const struct {
    const char *code;
    int err;
} reply_codes[] = {
    {"LOADING", -EAGAIN},
    {"BUSY", -EAGAIN},
    {"MASTERDOWN", -EAGAIN},
    {"TRYAGAIN", -EAGAIN},
    {"ASK", -EAGAIN},
    {"CLUSTERDOWN", -EAGAIN},
    {"MOVED", -EAGAIN},
    {"READONLY", -EROFS},
    {"OOM", -ENOSPC},
    {"MISCONF", -ENOSPC},
    {"NOAUTH", -EACCES},
    {"WRONGPASS", -EACCES},
    {"NOPERM", -EACCES},
    {"WRONGTYPE", -EBADMSG},
    {SCRIPT_ERROR_FENCED, -ECANCELED},
    {SCRIPT_ERROR_LATE, -ETIMEDOUT},
    {SCRIPT_ERROR_SETTLING, -EAGAIN},
    {SCRIPT_ERROR_STALE, -ESTALE},
};

bool reply_has_code(const char *text, const char *code)
{
    size_t len = strlen(code);

    return strncmp(text, code, len) == 0 && (text[len] == ' ' || text[len] == '\0');
}

static int reply_code_errno(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(reply_codes); i++) {
        if (reply_has_code(text, reply_codes[i].code))
            return reply_codes[i].err;
    }
    return 0;
}

/*
 * Redis 6 wraps the error of a command in a script: the code follows the last place in the script,
 * after ": " or ": -".
 */
static int reply_script_errno(const char *text)
{
    int err = 0;

    for (const char *at = strstr(text, "user_script"); at && !err; at = strstr(at + 1, ": ")) {
        const char *word = at[0] == ':' ? at + 2 : at;

        err = reply_code_errno(*word == '-' ? word + 1 : word);
    }
    return err;
}

int reply_errno(const char *text)
{
    int err = reply_code_errno(text);

    /* Redis 7 says it without a code. */
    if (!err && strstr(text, "The user executing the script can't "))
        err = -EACCES;
    if (!err && strncmp(text, SCRIPT_ERROR_IN_SCRIPT, strlen(SCRIPT_ERROR_IN_SCRIPT)) == 0)
        err = reply_script_errno(text);
    return err ? err : -EIO;
}

bool reply_late_at(const char *text, uint64_t *ret_server_ms)
{
    const char *number = text + strlen(SCRIPT_ERROR_LATE " ");
    unsigned long long server_ms;
    char *end;

    if (!reply_has_code(text, SCRIPT_ERROR_LATE) || text[strlen(SCRIPT_ERROR_LATE)] == '\0' ||
        *number < '0' || *number > '9')
        return false;
    errno = 0;
    server_ms = strtoull(number, &end, 10);
    if (errno || *end != ':')
        return false;
    *ret_server_ms = server_ms;
    return true;
}

bool reply_time(const redisReply *reply, uint64_t *ret_server_ms)
{
    unsigned long long parts[2];

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != ARRAY_LEN(parts))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const redisReply *part = reply->element[i];
        char *end;

        if (part->type != REDIS_REPLY_STRING || part->len == 0 || part->len > 12)
            return false;
        parts[i] = strtoull(part->str, &end, 10);
        if (*end != '\0')
            return false;
    }
    *ret_server_ms = parts[0] * 1000 + parts[1] / 1000;
    return true;
}
