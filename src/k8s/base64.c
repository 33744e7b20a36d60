/*
 * base64.c - decodes base64; line breaks and blanks in the text are skipped.
 */
#include "k8s/base64.h"

#include <stdlib.h>

#include "base/base64_digit.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static int decode(struct slice text, unsigned char *data, size_t *ret_len)
{
    uint32_t bits = 0;
    size_t digits = 0, padding = 0, len = 0;

    for (size_t i = 0; i < text.len; i++) {
        int digit = base64_value(text.data[i], "+/");

        if (is_space(text.data[i]))
            continue;
        if (text.data[i] == '=') {
            padding++;
            continue;
        }
        if (digit < 0 || padding > 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)digit;
        if (++digits % 4 == 0) {
            data[len++] = (unsigned char)(bits >> 16);
            data[len++] = (unsigned char)(bits >> 8);
            data[len++] = (unsigned char)bits;
        }
    }
    if (digits == 0 || padding > 2 || (digits + padding) % 4 != 0)
        return -EINVAL;
    if (padding == 2)
        data[len++] = (unsigned char)(bits >> 4);
    if (padding == 1) {
        data[len++] = (unsigned char)(bits >> 10);
        data[len++] = (unsigned char)(bits >> 2);
    }
    *ret_len = len;
    return 0;
}

int base64_decode(struct slice text, char **ret_data, size_t *ret_len)
{
    char *data = malloc(text.len / 4 * 3 + 4);
    int err;

    if (!data)
        return -ENOMEM;
    err = decode(text, (unsigned char *)data, ret_len);
    if (err < 0) {
        free(data);
        return err;
    }
    data[*ret_len] = '\0';
    *ret_data = data;
    return 0;
}
