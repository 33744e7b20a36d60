/*
 * options.c - parses the values of command-line options: numbers, seconds, URLs, key files.
 */
#include "options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void option_bad(const char *name, const char *why)
{
    fprintf(stderr, "--%s: %s\n", name, why);
    exit(2);
}

uint64_t option_number(const char *name, const char *text, uint64_t min, uint64_t max)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9' || value < min || value > max) {
        fprintf(stderr, "--%s: a number from %llu to %llu is expected\n", name, (unsigned long long)min,
                (unsigned long long)max);
        exit(2);
    }
    return value;
}

uint64_t option_seconds(const char *name, const char *text, double max)
{
    double value;
    char *end;

    value = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(value) || value < 0 || value > max) {
        fprintf(stderr, "--%s: seconds from 0 to %g are expected\n", name, max);
        exit(2);
    }
    return (uint64_t)llround(value * 1000);
}

const char *option_key_file(const char *name, const char *path)
{
    static char key[OPTION_KEY_MAX + 2];
    FILE *file = fopen(path, "re");
    size_t len;

    if (!file)
        option_bad(name, "that file cannot be opened");
    len = fread(key, 1, sizeof(key) - 1, file);
    (void)fclose(file);
    key[len] = '\0';
    key[strcspn(key, "\r\n")] = '\0';
    if (key[0] == '\0' || strlen(key) > OPTION_KEY_MAX)
        option_bad(name, "that file has no key of at most 1024 characters");
    return key;
}

void option_url(const char *name, const char *text, struct url *ret_url)
{
    if (url_parse(slice_of(text), ret_url) != 0)
        option_bad(name, "that is no URL");
}
