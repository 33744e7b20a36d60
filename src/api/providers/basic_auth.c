/*
 * basic_auth.c - decodes Basic authentication.
 */
#include "api/providers/basic_auth.h"

#include <openssl/evp.h>
#include <strings.h>

#include "base/slice.h"

enum { BASIC_AUTH_MAX = 4 * 1024 };

static const char scheme[] = "Basic ";

static bool begins_with_scheme(struct slice text)
{
    return text.len >= sizeof(scheme) - 1 && strncasecmp(text.data, scheme, sizeof(scheme) - 1) == 0;
}

bool basic_auth_read(struct arena *arena, struct slice authorization, struct slice *ret_pair,
                     struct slice *ret_password)
{
    unsigned char *decoded;
    const char *colon;
    struct slice text, pair;
    size_t padding = 0;
    int len;

    if (!begins_with_scheme(authorization) || authorization.len > BASIC_AUTH_MAX)
        return false;
    text = slice_trim(
        (struct slice){authorization.data + (sizeof(scheme) - 1), authorization.len - (sizeof(scheme) - 1)});
    while (padding < 2 && padding < text.len && text.data[text.len - 1 - padding] == '=')
        padding++;
    decoded = arena_alloc(arena, text.len + 1);
    if (!decoded || text.len == 0 || text.len % 4 != 0)
        return false;
    len = EVP_DecodeBlock(decoded, (const unsigned char *)text.data, (int)text.len);
    if (len < 0 || (size_t)len < padding)
        return false;
    pair = (struct slice){(const char *)decoded, (size_t)len - padding};
    colon = memchr(pair.data, ':', pair.len);
    if (!colon)
        return false;
    *ret_pair = pair;
    *ret_password = (struct slice){colon + 1, pair.len - (size_t)(colon + 1 - pair.data)};
    return true;
}
