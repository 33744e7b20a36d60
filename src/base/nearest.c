/*
 * nearest.c - finds the known name that a misspelt one probably means.
 */
#include "base/nearest.h"

#include <ctype.h>

enum { SHORT_LEN = 3 };

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* The rows of the table of distances between the beginnings of both texts. */
struct rows {
    size_t before[NEAREST_LEN_MAX + 1];
    size_t last[NEAREST_LEN_MAX + 1];
    size_t next[NEAREST_LEN_MAX + 1];
};

/* Makes the row of the first `i` letters of `a`. Returns its least distance. */
static size_t rows_next(struct rows *rows, const char *a, size_t i, const char *b, size_t b_len)
{
    size_t least = i;

    rows->next[0] = i;
    for (size_t k = 1; k <= b_len; k++) {
        size_t cost = rows->last[k - 1] + (is_same(a[i - 1], b[k - 1]) ? 0 : 1);

        cost = min_size(cost, min_size(rows->last[k], rows->next[k - 1]) + 1);
        if (i > 1 && k > 1 && is_same(a[i - 1], b[k - 2]) && is_same(a[i - 2], b[k - 1]))
            cost = min_size(cost, rows->before[k - 2] + 1);
        rows->next[k] = cost;
        least = min_size(least, cost);
    }
    memcpy(rows->before, rows->last, (b_len + 1) * sizeof(rows->last[0]));
    memcpy(rows->last, rows->next, (b_len + 1) * sizeof(rows->next[0]));
    return least;
}

size_t edit_distance(const char *a, const char *b, size_t max)
{
    struct rows rows = {{0}, {0}, {0}};
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);
    size_t before = 0;

    if (a_len > NEAREST_LEN_MAX || b_len > NEAREST_LEN_MAX || a_len > b_len + max || b_len > a_len + max)
        return max + 1;
    for (size_t k = 0; k <= b_len; k++)
        rows.last[k] = k;
    for (size_t i = 1; i <= a_len; i++) {
        size_t least = rows_next(&rows, a, i, b, b_len);

        /* Two rows, because a swap of neighbours reaches back over one. */
        if (least > max && before > max)
            return max + 1;
        before = least;
    }
    return min_size(rows.last[b_len], max + 1);
}

const char *nearest_name(const char *text, const char *const *names, size_t count, size_t max)
{
    const char *nearest = NULL;
    size_t least = max + 1;

    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(text, names[i], max);

        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

size_t nearest_max(const char *text)
{
    return strlen(text) <= SHORT_LEN ? 1 : 2;
}
