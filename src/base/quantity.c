/*
 * quantity.c - reads and writes numbers and durations as people write them.
 */
#include "base/quantity.h"

#include <ctype.h>

static const struct {
    const char *name;
    uint64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}};

bool quantity_digits(const char **text, uint64_t *ret_value)
{
    const char *at = *text;
    uint64_t value = 0;

    if (!isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at); at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    }
    *text = at;
    *ret_value = value;
    return true;
}

bool quantity_duration(const char *text, uint64_t *ret_ms)
{
    uint64_t total = 0;

    if (strcmp(text, "0") == 0) {
        *ret_ms = 0;
        return true;
    }
    do {
        uint64_t amount;
        size_t unit_len;
        size_t i = 0;

        if (!quantity_digits(&text, &amount))
            return false;
        unit_len = strcspn(text, "0123456789");
        while (i < ARRAY_LEN(units) &&
               (strlen(units[i].name) != unit_len || strncmp(units[i].name, text, unit_len) != 0))
            i++;
        if (i == ARRAY_LEN(units) || __builtin_mul_overflow(amount, units[i].ms, &amount) ||
            __builtin_add_overflow(total, amount, &total))
            return false;
        text += unit_len;
    } while (*text);
    *ret_ms = total;
    return true;
}

void quantity_append_duration(struct strbuf *buf, uint64_t ms)
{
    if (ms == 0) {
        strbuf_append_str(buf, "0");
        return;
    }
    for (size_t i = ARRAY_LEN(units); i-- > 0;) {
        if (ms < units[i].ms)
            continue;
        strbuf_append_u64(buf, ms / units[i].ms);
        strbuf_append_str(buf, units[i].name);
        ms %= units[i].ms;
    }
}
