/*
 * resp.c - measures and writes commands in Redis' protocol.
 */
#include "store/redis/resp.h"

static size_t digits_of(size_t number)
{
    size_t digits = 1;

    while (number >= 10) {
        number /= 10;
        digits++;
    }
    return digits;
}

static char *put_line(char *at, char type, size_t number)
{
    size_t digits = digits_of(number);

    *at++ = type;
    for (size_t i = digits; i > 0; i--) {
        at[i - 1] = (char)('0' + number % 10);
        number /= 10;
    }
    at += digits;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

size_t resp_head_size(size_t count)
{
    return 1 + digits_of(count) + 2;
}

size_t resp_arg_size(size_t len)
{
    return 1 + digits_of(len) + 2 + len + 2;
}

char *resp_head(char *at, size_t count)
{
    return put_line(at, '*', count);
}

char *resp_arg(char *at, struct slice arg)
{
    at = put_line(at, '$', arg.len);
    if (arg.len > 0)
        memcpy(at, arg.data, arg.len);
    at += arg.len;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

size_t resp_size(const struct slice *args, size_t count)
{
    size_t size = resp_head_size(count);

    for (size_t i = 0; i < count; i++)
        size += resp_arg_size(args[i].len);
    return size;
}

char *resp_write(char *at, const struct slice *args, size_t count)
{
    at = resp_head(at, count);
    for (size_t i = 0; i < count; i++)
        at = resp_arg(at, args[i]);
    return at;
}
