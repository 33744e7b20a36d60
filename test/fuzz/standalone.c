/*
 * standalone.c - a main for fuzz targets where there is no libFuzzer: replays files, and tries random changes
 * of them.
 *
 *     fuzz-X [--runs N] [--seed S] [--only I] [--dict FILE] FILE|DIRECTORY...
 *
 * Run I of a seed is always the same input; if it fails, the seed and the number are printed. It does not
 * learn from what a run reaches: for a long campaign libFuzzer is the better one.
 */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

enum {
    FILES_MAX = 1024,
    INPUT_MAX = 64 * 1024,
    CHANGES_MAX = 8, /* of one input */
    WORDS_MAX = 256,
    WORD_MAX = 1024,
};

/* There if the sanitizers are. */
void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static struct {
    uint8_t *data;
    size_t size;
} files[FILES_MAX];
static size_t file_count;
static uint64_t seed = 1;
static char last_words[128]; /* written beforehand: who dies can only say what is there */

/* What the inputs are made of: a dictionary of libFuzzer's. */
static struct {
    char *text;
    size_t len;
} words[WORDS_MAX];
static size_t word_count;

static void died(void)
{
    (void)!write(STDERR_FILENO, last_words, strlen(last_words));
}

static void aborted(int number UNUSED)
{
    died();
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void add_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_MAX);

    if (!file || !data || file_count == FILES_MAX) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    files[file_count].size = fread(data, 1, INPUT_MAX, file);
    files[file_count++].data = data;
    fclose(file);
}

static int hex_digit(char c)
{
    const char *at = c ? strchr("0123456789abcdef", c) : NULL;

    return at ? (int)(at - "0123456789abcdef") : -1;
}

/* One line: anything"word", where \\, \" and \xab stand for a byte. False: it is no such line. */
static bool add_word(const char *line)
{
    const char *at = strchr(line, '"');
    const char *end = strrchr(line, '"');
    char *word = malloc(WORD_MAX);
    size_t len = 0;

    assert(word);
    words[word_count].text = word;
    if (!at || at == end)
        return false;
    for (at++; at < end; at++) {
        char c = *at;

        if (c == '\\' && at[1] == 'x' && hex_digit(at[2]) >= 0 && hex_digit(at[3]) >= 0) {
            c = (char)(hex_digit(at[2]) * 16 + hex_digit(at[3]));
            at += 3;
        } else if (c == '\\') {
            c = *++at;
        }
        word[len++] = c;
    }
    words[word_count++].len = len;
    return true;
}

static void add_dictionary(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[WORD_MAX];

    while (file && fgets(line, sizeof(line), file)) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (word_count == WORDS_MAX || !add_word(line)) {
            fprintf(stderr, "%s: not a word, or too many: %s", path, line);
            exit(2);
        }
    }
    if (!file || ferror(file)) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_path(const char *path)
{
    struct dirent **entries;
    struct stat st;
    int count;

    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        add_file(path);
        return;
    }
    count = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char name[4096];

        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            add_file(name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

/* Puts `len` bytes in the place of `gone` ones at `at`, as far as there is room. */
static size_t replace(uint8_t *input, size_t size, size_t at, size_t gone, const void *with, size_t len)
{
    gone = gone < size - at ? gone : size - at;
    if (size - gone + len > INPUT_MAX)
        return size;
    memmove(input + at + len, input + at + gone, size - at - gone);
    if (len)
        memcpy(input + at, with, len);
    return size - gone + len;
}

static size_t change(uint8_t *input, size_t size, uint64_t *random)
{
    static uint8_t part[INPUT_MAX];
    size_t at = next_random(random) % (size + 1);
    size_t len = 1 + next_random(random) % (next_random(random) % 4 ? 16 : 1024);
    size_t other = next_random(random) % file_count;
    size_t from, word;

    switch (next_random(random) % 6) {
    case 0: /* another byte */
        part[0] = (uint8_t)next_random(random);
        return replace(input, size, at, 1, part, 1);
    case 1: /* one bit */
        if (at < size)
            input[at] ^= (uint8_t)(1u << next_random(random) % 8);
        return size;
    case 2: /* something is missing */
        return replace(input, size, at, len, NULL, 0);
    case 3: /* a word */
        if (word_count == 0)
            return size;
        word = next_random(random) % word_count;
        return replace(input, size, at, next_random(random) % 3 ? 0 : len, words[word].text, words[word].len);
    case 4: /* something comes twice */
        len = len < size - at ? len : size - at;
        memcpy(part, input + at, len);
        return replace(input, size, next_random(random) % (size + 1), 0, part, len);
    default: /* a part of another one */
        from = next_random(random) % (files[other].size + 1);
        len = len < files[other].size - from ? len : files[other].size - from;
        return replace(input, size, at, next_random(random) % 2 ? len : 0, files[other].data + from, len);
    }
}

/* In memory of its own, so that AddressSanitizer sees its end. */
static void run_input(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    assert(copy);
    memcpy(copy, data, size);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void run_one(uint64_t number)
{
    static uint8_t input[INPUT_MAX];
    uint64_t random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (number + 1) * UINT64_C(0xbf58476d1ce4e5b9);
    size_t size, changes, file;

    snprintf(last_words, sizeof(last_words), "failed: --seed %" PRIu64 " --only %" PRIu64 "\n", seed, number);
    random = random ? random : 1;
    for (int i = 0; i < 4; i++)
        (void)next_random(&random);
    file = next_random(&random) % file_count;
    size = files[file].size;
    memcpy(input, files[file].data, size);
    changes = 1 + next_random(&random) % CHANGES_MAX;
    for (size_t i = 0; i < changes; i++)
        size = change(input, size, &random);
    run_input(input, size);
}

int main(int argc, char **argv)
{
    uint64_t runs = 0, only = UINT64_MAX;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            runs = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--dict") == 0 && i + 1 < argc)
            add_dictionary(argv[++i]);
        else
            add_path(argv[i]);
    }
    if (file_count == 0) {
        fprintf(stderr, "no inputs\n");
        return 2;
    }
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(died);
    signal(SIGABRT, aborted);
    if (only != UINT64_MAX) {
        run_one(only);
        return 0;
    }
    for (size_t i = 0; i < file_count; i++) {
        snprintf(last_words, sizeof(last_words), "failed: file %zu, in the order of names\n", i + 1);
        run_input(files[i].data, files[i].size);
    }
    for (uint64_t i = 0; i < runs; i++)
        run_one(i);
    printf("%zu inputs replayed, %" PRIu64 " changed ones tried with seed %" PRIu64 "\n", file_count, runs,
           seed);
    for (size_t i = 0; i < file_count; i++)
        free(files[i].data);
    for (size_t i = 0; i < word_count; i++)
        free(words[i].text);
    return 0;
}
