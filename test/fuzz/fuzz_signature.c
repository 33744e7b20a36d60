/*
 * fuzz_signature.c - signed webhooks: nothing is accepted that was not signed.
 *
 * An input is 'T' or 'P' for Twilio or Plivo, a byte that says what is changed, two bytes that say where and
 * to what, 'G' for a GET, and then URL, body and nonce with the byte 0xff between them. The target signs the
 * request by itself, as the providers' descriptions have it, which must be accepted. After the change it is
 * accepted only if what would have been signed is, to the letter, still the same. 'B' is followed by an
 * Authorization header.
 */
#include <stdlib.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "api/providers/basic_auth.h"
#include "api/providers/signature.h"
#include "fuzz.h"
#include "http/form.h"

enum {
    ARENA_MAX = 8 * 1024 * 1024,
    TEXT_MAX = 1024 * 1024,
    ENCODED_SIZE = 64,
};

enum change {
    CHANGE_NOTHING,
    CHANGE_URL,
    CHANGE_BODY,
    CHANGE_SIGNATURE,
    CHANGE_TOKEN,
    CHANGE_METHOD,
    CHANGE_NONCE,
    CHANGE_LENGTH,
    CHANGES,
};

static const struct signature_tokens tokens = {
    .values = {{"12345", 5}, {"0123456789abcdef0123456789abcdef", 32}},
    .count = 2,
};
static const struct signature_tokens other_tokens = {.values = {{"12346", 5}}, .count = 1};

struct subject {
    struct signed_request request;
    struct slice nonce;
    bool is_plivo;
};

static int compare(const void *a, const void *b)
{
    const struct form_field *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : strcmp(x->value, y->value);
}

/* Sorted by name and value. Not read: there is a NUL in it, or too much. */
static bool read_form(struct arena *arena, struct slice text, struct form *ret_form)
{
    int rc = form_parse(arena, text, ret_form);

    if (rc)
        return false;
    for (size_t i = 0; i < ret_form->count; i++) {
        const struct form_field *field = &ret_form->fields[i];

        if (strlen(field->name) != field->name_len || strlen(field->value) != field->value_len)
            return false;
    }
    if (ret_form->count)
        qsort(ret_form->fields, ret_form->count, sizeof(*ret_form->fields), compare);
    return true;
}

/* The query of a URL, and what stands before it. */
static struct slice query_of(struct slice url, struct slice *ret_before)
{
    const char *mark = url.len ? memchr(url.data, '?', url.len) : NULL;

    *ret_before = mark ? (struct slice){url.data, (size_t)(mark - url.data)} : url;
    return mark ? (struct slice){mark + 1, url.len - ret_before->len - 1} : (struct slice){"", 0};
}

static bool write_plivo(struct arena *arena, const struct subject *subject, struct strbuf *text)
{
    struct form query, form;
    struct slice before;

    if (!read_form(arena, query_of(subject->request.url, &before), &query) ||
        !read_form(arena, subject->request.body, &form))
        return false;
    strbuf_append(text, before.data, before.len);
    if (query.count + form.count > 0)
        strbuf_append_char(text, '?');
    for (size_t i = 0; i < query.count; i++)
        strbuf_printf(text, "%s%s=%s", i ? "&" : "", query.fields[i].name, query.fields[i].value);
    if (query.count > 0 && form.count > 0)
        strbuf_append_char(text, '.');
    for (size_t i = 0; i < form.count; i++)
        strbuf_printf(text, "%s%s", form.fields[i].name, form.fields[i].value);
    strbuf_append_char(text, '.');
    strbuf_append(text, subject->nonce.data, subject->nonce.len);
    return true;
}

/* The hash of the body as the query has it; NULL: none. */
static const char *body_hash(struct arena *arena, struct slice url)
{
    struct slice before;
    struct form query;

    if (form_parse(arena, query_of(url, &before), &query))
        return NULL;
    return form_get(&query, "bodySHA256");
}

static bool write_twilio(struct arena *arena, const struct subject *subject, struct slice url,
                         struct strbuf *text)
{
    struct form form = {NULL, 0};

    if (!body_hash(arena, subject->request.url) && !read_form(arena, subject->request.body, &form))
        return false;
    strbuf_append(text, url.data, url.len);
    for (size_t i = 0; i < form.count; i++) {
        if (i == 0 || compare(&form.fields[i - 1], &form.fields[i]) != 0)
            strbuf_printf(text, "%s%s", form.fields[i].name, form.fields[i].value);
    }
    return true;
}

/* The URL without the port that it has, or with the usual one that it does not have. */
static struct slice other_url(struct arena *arena, struct slice url)
{
    bool is_https = url.len > 8 && strncasecmp(url.data, "https", 5) == 0;
    size_t host = is_https ? 8 : 7;
    size_t end = host, colon = 0;
    struct strbuf buf;

    strbuf_init(&buf, arena, TEXT_MAX);
    if (url.len <= host)
        return url;
    while (end < url.len && !strchr("/?#", url.data[end]))
        end++;
    for (size_t i = host; i < end; i++) {
        if (url.data[i] == ':')
            colon = i;
        else if (url.data[i] == ']')
            colon = 0;
    }
    strbuf_append(&buf, url.data, colon ? colon : end);
    if (!colon)
        strbuf_append_str(&buf, is_https ? ":443" : ":80");
    strbuf_append(&buf, url.data + end, url.len - end);
    return strbuf_slice(&buf);
}

static void sign(const struct subject *subject, const struct strbuf *text, char signature[ENCODED_SIZE])
{
    const struct slice token = tokens.values[text->len % tokens.count];
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    HMAC(subject->is_plivo ? EVP_sha256() : EVP_sha1(), token.data, (int)token.len,
         (const unsigned char *)strbuf_slice(text).data, text->len, mac, &len);
    EVP_EncodeBlock((unsigned char *)signature, mac, (int)len);
}

static int check(const struct signature_tokens *with, const struct subject *subject, struct slice signature)
{
    struct arena arena;
    int rc;

    arena_init(&arena, ARENA_MAX);
    rc = subject->is_plivo ? signature_check_plivo(&arena, with, &subject->request, signature, subject->nonce)
                           : signature_check_twilio(&arena, with, &subject->request, signature);
    assert(rc == 0 || rc == -ENOKEY || rc == -EKEYREJECTED || rc == -EBADMSG);
    arena_release(&arena);
    return rc;
}

static bool is_same(const struct strbuf *a, const struct strbuf *b)
{
    return a->len == b->len && memcmp(strbuf_slice(a).data, strbuf_slice(b).data, a->len) == 0;
}

/* Would this request have been signed with that text? */
static bool would_sign(struct arena *arena, const struct subject *subject, const struct strbuf *text)
{
    struct slice urls[] = {subject->request.url, other_url(arena, subject->request.url)};
    struct strbuf again;

    for (size_t i = 0; i < ARRAY_LEN(urls); i++) {
        strbuf_init(&again, arena, TEXT_MAX);
        if (subject->is_plivo ? write_plivo(arena, subject, &again)
                              : write_twilio(arena, subject, urls[i], &again))
            if (is_same(&again, text))
                return true;
    }
    return false;
}

static bool hash_fits(struct arena *arena, const struct subject *subject)
{
    const char *given = body_hash(arena, subject->request.url);
    unsigned char hash[SHA256_DIGEST_LENGTH];
    struct strbuf hex;

    if (subject->is_plivo || !given)
        return true;
    SHA256((const unsigned char *)subject->request.body.data, subject->request.body.len, hash);
    strbuf_init(&hex, arena, TEXT_MAX);
    for (size_t i = 0; i < sizeof(hash); i++)
        strbuf_printf(&hex, "%02x", hash[i]);
    return strcmp(given, hex.data) == 0;
}

static struct slice changed(struct arena *arena, struct slice text, size_t at, char with)
{
    char *copy = arena_copy(arena, text.data, text.len);

    assert(copy);
    if (text.len > 0)
        copy[at % text.len] = with;
    return (struct slice){copy, text.len};
}

static void check_changed(struct arena *arena, struct subject *subject, const struct strbuf *text,
                          const char *signed_with, struct input *how)
{
    enum change change = (enum change)(input_byte(how) % CHANGES);
    size_t at = input_byte(how);
    char with = (char)input_byte(how);
    struct slice signature = slice_of(signed_with);
    struct signed_request *request = &subject->request;
    bool is_broken = false;

    if (change == CHANGE_URL) {
        request->url = changed(arena, request->url, at, with);
    } else if (change == CHANGE_BODY) {
        request->body = changed(arena, request->body, at, with);
    } else if (change == CHANGE_NONCE) {
        subject->nonce = changed(arena, subject->nonce, at, with);
    } else if (change == CHANGE_METHOD) {
        request->is_post = !request->is_post;
    } else if (change == CHANGE_LENGTH) {
        request->body.len = at % (request->body.len + 1);
    } else if (change == CHANGE_SIGNATURE) {
        signature = changed(arena, signature, at, with);
        /* Plivo's is a list: what is before or after a comma may be anything. */
        is_broken = !slice_equals(signature, signed_with) && (!subject->is_plivo || !strchr(" \t,", with));
    }
    if (check(change == CHANGE_TOKEN ? &other_tokens : &tokens, subject, signature) != 0)
        return;
    assert(change != CHANGE_TOKEN && !is_broken);
    assert(would_sign(arena, subject, text));
    assert(hash_fits(arena, subject));
}

static void check_basic(struct slice header)
{
    struct slice pair = {NULL, 0}, password = {NULL, 0};
    struct arena arena;

    arena_init(&arena, ARENA_MAX);
    if (basic_auth_read(&arena, header, &pair, &password)) {
        assert(password.len < pair.len && pair.len < header.len);
        assert(password.data + password.len == pair.data + pair.len);
        assert(password.data[-1] == ':' && !memchr(pair.data, ':', pair.len - password.len - 1));
    }
    arena_release(&arena);
}

static void check_signed(struct subject *subject, struct input *how)
{
    char signature[ENCODED_SIZE];
    struct strbuf text;
    struct arena arena;
    bool is_signed;
    int rc;

    arena_init(&arena, ARENA_MAX);
    strbuf_init(&text, &arena, TEXT_MAX);
    is_signed = subject->is_plivo ? write_plivo(&arena, subject, &text)
                                  : write_twilio(&arena, subject, subject->request.url, &text);
    if (is_signed) {
        sign(subject, &text, signature);
        rc = check(&tokens, subject, slice_of(signature));
        assert(rc == 0 || rc == -EBADMSG || (rc == -ENOKEY && subject->nonce.len == 0) ||
               !hash_fits(&arena, subject));
        check_changed(&arena, subject, &text, signature, how);
    }
    assert(check(&tokens, subject, (struct slice){"", 0}) == -ENOKEY);
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint8_t kind = input_byte(&input);
    struct slice how_text;
    struct subject subject;
    struct input how;

    if (kind == 'B') {
        check_basic(input_rest(&input));
        return 0;
    }
    how_text = input_take(&input, 3);
    how = (struct input){(const uint8_t *)how_text.data, how_text.len};
    subject = (struct subject){.is_plivo = kind == 'P'};
    subject.request.is_post = input_byte(&input) != 'G';
    subject.request.url = input_until(&input, FUZZ_SEPARATOR);
    subject.request.body = input_until(&input, FUZZ_SEPARATOR);
    subject.nonce = input_rest(&input);
    check_signed(&subject, &how);
    return 0;
}
