/*
 * json_check.c - checks that a text is JSON, to the letter of RFC 8259.
 *
 * cJSON takes more: control characters in strings, numbers such as 01 or 1., any byte below a space as white
 * space. What is stored is given out again as it came, so one lax text would spoil every answer that holds
 * it.
 */
#include "base/hex.h"
#include "base/json.h"
#include "base/utf8.h"

enum { JSON_DEPTH_MAX = 64 };

struct checker {
    const char *at;
    const char *end;
    unsigned depth;
};

static bool check_value(struct checker *checker);

static void skip_space(struct checker *checker)
{
    while (checker->at < checker->end &&
           (*checker->at == ' ' || *checker->at == '\t' || *checker->at == '\n' || *checker->at == '\r'))
        checker->at++;
}

static bool take(struct checker *checker, char c)
{
    if (checker->at == checker->end || *checker->at != c)
        return false;
    checker->at++;
    return true;
}

static bool take_word(struct checker *checker, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(checker->end - checker->at) < len || memcmp(checker->at, word, len) != 0)
        return false;
    checker->at += len;
    return true;
}

static bool take_digits(struct checker *checker)
{
    const char *start = checker->at;

    while (checker->at < checker->end && *checker->at >= '0' && *checker->at <= '9')
        checker->at++;
    return checker->at > start;
}

static bool check_number(struct checker *checker)
{
    (void)take(checker, '-');
    if (!take(checker, '0') && !take_digits(checker))
        return false;
    if (take(checker, '.') && !take_digits(checker))
        return false;
    if (take(checker, 'e') || take(checker, 'E')) {
        if (!take(checker, '+'))
            (void)take(checker, '-');
        return take_digits(checker);
    }
    return true;
}

/* After a backslash. An escaped NUL is JSON, but cJSON would take it for the end of the string. */
static bool check_escape(struct checker *checker)
{
    if (take(checker, 'u')) {
        const char *digits = checker->at;

        for (int i = 0; i < 4; i++) {
            if (checker->at == checker->end || hex_value(*checker->at) < 0)
                return false;
            checker->at++;
        }
        return memcmp(digits, "0000", 4) != 0;
    }
    if (checker->at == checker->end || !*checker->at || !strchr("\"\\/bfnrt", *checker->at))
        return false;
    checker->at++;
    return true;
}

static bool check_string(struct checker *checker)
{
    if (!take(checker, '"'))
        return false;
    while (checker->at < checker->end) {
        unsigned char c = (unsigned char)*checker->at;
        size_t len;

        if (c == '"') {
            checker->at++;
            return true;
        }
        if (c < 0x20)
            return false;
        if (c == '\\') {
            checker->at++;
            if (!check_escape(checker))
                return false;
            continue;
        }
        len = c < 0x80 ? 1 : utf8_length(checker->at, (size_t)(checker->end - checker->at));
        if (len == 0)
            return false;
        checker->at += len;
    }
    return false;
}

static bool check_member(struct checker *checker)
{
    skip_space(checker);
    if (!check_string(checker))
        return false;
    skip_space(checker);
    return take(checker, ':') && check_value(checker);
}

/* What stands between the brackets, up to the closing one. */
static bool check_list(struct checker *checker, char close, bool (*check_item)(struct checker *checker))
{
    if (++checker->depth > JSON_DEPTH_MAX)
        return false;
    skip_space(checker);
    if (!take(checker, close)) {
        do {
            if (!check_item(checker))
                return false;
            skip_space(checker);
        } while (take(checker, ','));
        if (!take(checker, close))
            return false;
    }
    checker->depth--;
    return true;
}

static bool check_value(struct checker *checker)
{
    skip_space(checker);
    if (checker->at == checker->end)
        return false;
    switch (*checker->at) {
    case '{':
        checker->at++;
        return check_list(checker, '}', check_member);
    case '[':
        checker->at++;
        return check_list(checker, ']', check_value);
    case '"':
        return check_string(checker);
    case 't':
        return take_word(checker, "true");
    case 'f':
        return take_word(checker, "false");
    case 'n':
        return take_word(checker, "null");
    default:
        return check_number(checker);
    }
}

/* False: checker->at is where it was noticed. */
static bool check_text(struct checker *checker, struct slice text)
{
    *checker = (struct checker){text.data, text.data + text.len, 0};
    if (!check_value(checker))
        return false;
    skip_space(checker);
    return checker->at == checker->end;
}

bool json_is_valid(struct slice text)
{
    struct checker checker;

    return check_text(&checker, text);
}

/* A column is a character, not a byte: bytes that continue a character do not count. */
void json_find_fault(struct slice text, size_t *ret_line, size_t *ret_column)
{
    struct checker checker;

    *ret_line = 1;
    *ret_column = 1;
    if (check_text(&checker, text))
        return;
    for (const char *at = text.data; at < checker.at; at++) {
        if (*at == '\n') {
            ++*ret_line;
            *ret_column = 1;
        } else if (((unsigned char)*at & 0xc0) != 0x80) {
            ++*ret_column;
        }
    }
}
