/*
 * fuzz_keys.c - the keys of the API: any text of API_KEYS is read, or refused without telling what it says.
 *
 * An input is what API_KEY has, an LF, and the text of API_KEYS. A second reading of the text, made here,
 * says which keys there are: each secret finds its own key and nothing else finds any. Written down with
 * single blanks the keys are read as the same. What is refused is refused with the number of a line, and no
 * long word of the input is in the sentence.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/keys.h"
#include "api/secrets.h"
#include "base/strbuf.h"
#include "core/names.h"
#include "fuzz.h"

enum {
    ERROR_SIZE = 256,
    WORD_LONG = 24, /* longer than each word of our own sentences */
    WORDS = 3,
    WRITTEN_MAX = 1024 * 1024,
};

static const char blanks[] = " \t";

struct words {
    struct slice word[WORDS + 1];
    size_t count; /* WORDS + 1: there are more */
};

/* The words of the next line that has some and is no comment; false: there is none. */
static bool next_key(const char **text, struct words *ret)
{
    while (**text) {
        const char *line = *text;
        size_t len = strcspn(line, "\n");

        *text += len + (line[len] == '\n');
        if (len > 0 && line[len - 1] == '\r')
            len--;
        ret->count = 0;
        for (size_t at = 0; ret->count <= WORDS;) {
            struct slice *word = &ret->word[ret->count];

            while (at < len && strchr(blanks, line[at]))
                at++;
            if (at == len)
                break;
            *word = (struct slice){line + at, 0};
            while (at < len && !strchr(blanks, line[at]))
                at++;
            word->len = (size_t)(line + at - word->data);
            ret->count++;
        }
        if (ret->count > 0 && ret->word[0].data[0] != '#')
            return true;
    }
    return false;
}

static bool contains(const char *text, struct slice word)
{
    return memmem(text, strlen(text), word.data, word.len) != NULL;
}

static void check_refused(const char *error, const char *api_key, const char *text)
{
    struct words words;

    assert(strncmp(error, "line ", 5) == 0 || strncmp(error, "the text has no key", 19) == 0);
    while (next_key(&text, &words)) {
        for (size_t i = 0; i < words.count; i++)
            assert(words.word[i].len < WORD_LONG || !contains(error, words.word[i]));
    }
    for (; *api_key; api_key += strcspn(api_key, ",") + (api_key[strcspn(api_key, ",")] == ',')) {
        struct slice value = {api_key, strcspn(api_key, ",")};

        assert(value.len < WORD_LONG || !contains(error, value));
    }
}

static bool is_key(const struct key *key, const struct words *words)
{
    char role[16 + POD_NAME_MAX];

    if (!key)
        return false;
    snprintf(role, sizeof(role), "%s%s%s", role_name(key->role), key->pattern ? "=" : "",
             key->pattern ? key->pattern : "");
    return slice_equals(words->word[0], key->name) && slice_equals(words->word[1], role) &&
           key->is_short == (words->word[2].len < SECRET_SHORT);
}

/* Something that is nearly the secret: shorter, longer, with a bit changed. */
static void check_near(const struct keys *keys, struct slice secret, const struct key *key)
{
    char near[SECRET_VALUE_MAX + 1];
    const struct key *found;

    memcpy(near, secret.data, secret.len);
    near[secret.len] = 'x';
    found = keys_match(keys, (struct slice){near, secret.len + 1});
    assert(found != key);
    found = keys_match(keys, (struct slice){near, secret.len - 1});
    assert(found != key);
    near[secret.len / 2] = (char)(near[secret.len / 2] ^ 1);
    found = keys_match(keys, (struct slice){near, secret.len});
    assert(found != key);
}

/* How many keys `text` has; they come after `first` others. Appends each to `written`. */
static size_t check_read(const struct keys *keys, size_t first, const char *text, struct strbuf *written)
{
    struct words words;
    size_t count = 0;

    while (next_key(&text, &words)) {
        const struct key *key;

        assert(words.count == WORDS && first + count < keys_count(keys));
        key = keys_match(keys, words.word[2]);
        assert(key == keys_at(keys, first + count) && is_key(key, &words));
        check_near(keys, words.word[2], key);
        /* What is no secret finds no key, unless it is the secret of another. */
        assert(keys_match(keys, words.word[0]) != key || words.word[0].len == words.word[2].len);
        for (size_t i = 0; i < WORDS; i++) {
            strbuf_append(written, words.word[i].data, words.word[i].len);
            strbuf_append_char(written, i < WORDS - 1 ? ' ' : '\n');
        }
        count++;
    }
    return count;
}

static void check_accepted(const struct keys *keys, const char *api_key, const char *text)
{
    CLEANUP(keys_freep) struct keys *again = NULL;
    struct strbuf written;
    char error[ERROR_SIZE];
    size_t first = 0;
    size_t count;
    int rc;

    strbuf_init(&written, NULL, WRITTEN_MAX);
    while (first < keys_count(keys) && strncmp(keys_at(keys, first)->name, "API_KEY", 7) == 0 &&
           (keys_at(keys, first)->name[7] == '\0' || keys_at(keys, first)->name[7] == ' ')) {
        assert(keys_at(keys, first)->role == ROLE_ADMIN && !keys_at(keys, first)->pattern);
        first++;
    }
    count = check_read(keys, first, text, &written);
    assert(first + count == keys_count(keys) && (count > 0) == (text[0] != '\0'));
    assert(count <= KEYS_MAX && first <= SECRETS_MAX && (first > 0) == (api_key[0] != '\0'));
    rc = keys_new(api_key, count > 0 ? written.data : "", &again, error, sizeof(error));
    assert(!strbuf_failed(&written) && rc == 0 && keys_count(again) == keys_count(keys));
    for (size_t i = 0; i < keys_count(keys); i++)
        assert(strcmp(keys_at(keys, i)->name, keys_at(again, i)->name) == 0);
    assert(check_read(again, first, text, &written) == count);
    assert(!keys_match(keys, SLICE("")));
    strbuf_release(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {size ? data : (const uint8_t *)"", size};
    struct slice first_line = input_until(&input, '\n');
    struct slice rest = input_rest(&input);
    CLEANUP(keys_freep) struct keys *keys = NULL;
    char *api_key = strndup(first_line.data, first_line.len);
    char *text = strndup(rest.data, rest.len);
    char error[ERROR_SIZE] = "";
    int rc;

    assert(api_key && text);
    if (!secrets_check(api_key, error, sizeof(error)))
        api_key[0] = '\0';
    rc = keys_new(api_key, text, &keys, error, sizeof(error));
    if (rc == 0) {
        check_accepted(keys, api_key, text);
    } else {
        assert(rc == -EINVAL && !keys);
        check_refused(error, api_key, text);
    }
    free(api_key);
    free(text);
    return 0;
}
