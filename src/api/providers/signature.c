/*
 * signature.c - computes and compares the signatures of Twilio and Plivo.
 */
#include "api/providers/signature.h"

#include <stdlib.h>
#include <strings.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "base/hex.h"
#include "base/slice.h"
#include "base/strbuf.h"
#include "http/form.h"

enum {
    TEXT_MAX = SIGNATURE_URL_MAX + 2 * SIGNATURE_BODY_MAX,
    ENCODED_MAX = (EVP_MAX_MD_SIZE + 2) / 3 * 4 + 1,
};

/* A public URL, cut where signatures look. */
struct url_parts {
    struct slice origin; /* scheme://host, without the port */
    struct slice port;   /* ":8443", or empty */
    struct slice path;
    struct slice query; /* without the '?' */
    struct slice rest;  /* path and query as they stand */
    bool is_https;
};

static bool slice_starts(struct slice text, const char *prefix)
{
    size_t len = strlen(prefix);

    return text.len >= len && strncasecmp(text.data, prefix, len) == 0;
}

static bool is_host_end(char c)
{
    return c == '/' || c == '?' || c == '#';
}

/* -EBADMSG: it is no http or https URL with a host, or too long. */
static int url_cut(struct slice url, struct url_parts *ret_parts)
{
    struct url_parts parts = {.is_https = slice_starts(url, "https://")};
    size_t host = parts.is_https ? strlen("https://") : strlen("http://");
    size_t end, colon, path_end;

    if (url.len > SIGNATURE_URL_MAX || (!parts.is_https && !slice_starts(url, "http://")))
        return -EBADMSG;
    for (end = host; end < url.len && !is_host_end(url.data[end]);)
        end++;
    /* Colons inside the brackets of an IPv6 address are none of a port. */
    for (colon = end; colon > host && url.data[colon - 1] != ']' && url.data[colon - 1] != ':';)
        colon--;
    colon = colon > host && url.data[colon - 1] == ':' ? colon - 1 : end;
    if (colon == host)
        return -EBADMSG;
    for (path_end = end; path_end < url.len && url.data[path_end] != '?';)
        path_end++;
    parts.origin = (struct slice){url.data, colon};
    parts.port = (struct slice){url.data + colon, end - colon};
    parts.path = (struct slice){url.data + end, path_end - end};
    parts.rest = (struct slice){url.data + end, url.len - end};
    parts.query = path_end < url.len ? (struct slice){url.data + path_end + 1, url.len - path_end - 1}
                                     : (struct slice){"", 0};
    *ret_parts = parts;
    return 0;
}

static int compare_texts(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_fields(const void *a, const void *b)
{
    const struct form_field *left = a, *right = b;
    int order = compare_texts(left->name, left->name_len, right->name, right->name_len);

    return order != 0 ? order : compare_texts(left->value, left->value_len, right->value, right->value_len);
}

/*
 * The fields as they stand. A NUL in one of them is refused: those who read the fields later would see less
 * of it than was signed.
 */
static int read_fields(struct arena *arena, struct slice text, struct form *ret_form)
{
    struct form form = {NULL, 0};
    int err;

    if (text.len > SIGNATURE_BODY_MAX)
        return -EBADMSG;
    err = form_parse(arena, text, &form);
    if (err < 0)
        return err == -ENOMEM ? err : -EBADMSG;
    for (size_t i = 0; i < form.count; i++) {
        const struct form_field *field = &form.fields[i];

        if (strlen(field->name) != field->name_len || strlen(field->value) != field->value_len)
            return -EBADMSG;
    }
    *ret_form = form;
    return 0;
}

/* The fields in the order in which they are signed. */
static int read_sorted(struct arena *arena, struct slice text, struct form *ret_form)
{
    int err = read_fields(arena, text, ret_form);

    if (err == 0 && ret_form->count > 1)
        qsort(ret_form->fields, ret_form->count, sizeof(*ret_form->fields), compare_fields);
    return err;
}

static void append_slice(struct strbuf *buf, struct slice text)
{
    strbuf_append(buf, text.data, text.len);
}

/*
 * Does any of the tokens make one of `count` signatures of `text`? Looks at all of them, so that the time
 * does not tell which, and hashes once for each token: a stranger must not make much work with a long list.
 */
static int tokens_fit(const struct signature_tokens *tokens, const EVP_MD *digest, const struct strbuf *text,
                      const struct slice *given, size_t count)
{
    bool fits = false;

    if (strbuf_failed(text))
        return -ENOMEM; /* TEXT_MAX is more than what url_cut and read_fields let pass */
    for (size_t i = 0; i < tokens->count; i++) {
        unsigned char mac[EVP_MAX_MD_SIZE];
        unsigned char expected[ENCODED_MAX];
        unsigned mac_len = 0;
        size_t len;

        if (!HMAC(digest, tokens->values[i].data, (int)tokens->values[i].len,
                  (const unsigned char *)strbuf_slice(text).data, text->len, mac, &mac_len))
            return -ENOMEM;
        len = (size_t)EVP_EncodeBlock(expected, mac, (int)mac_len);
        for (size_t k = 0; k < count; k++) {
            if (given[k].len == len)
                fits |= CRYPTO_memcmp(expected, given[k].data, len) == 0;
        }
    }
    return fits ? 0 : -EKEYREJECTED;
}

/* The value of bodySHA256 in the query; NULL: there is none. */
static int find_body_hash(struct arena *arena, struct slice query, const char **ret_hash)
{
    struct form form;
    int err = read_fields(arena, query, &form);

    if (err < 0)
        return err;
    *ret_hash = form_get(&form, "bodySHA256");
    return 0;
}

static bool body_hash_fits(struct slice body, const char *given)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    char text[2 * SHA256_DIGEST_LENGTH];

    SHA256((const unsigned char *)body.data, body.len, hash);
    for (size_t i = 0; i < sizeof(hash); i++)
        hex_write(text + 2 * i, 2, hash[i]);
    return strlen(given) == sizeof(text) && CRYPTO_memcmp(text, given, sizeof(text)) == 0;
}

static int twilio_fits(struct arena *arena, const struct signature_tokens *tokens,
                       const struct url_parts *url, struct slice port, const struct form *form,
                       struct slice signature)
{
    struct strbuf text;

    strbuf_init(&text, arena, TEXT_MAX);
    append_slice(&text, url->origin);
    append_slice(&text, port);
    append_slice(&text, url->rest);
    for (size_t i = 0; i < form->count; i++) {
        const struct form_field *field = &form->fields[i];

        /* The same value of the same name counts once. */
        if (i > 0 && compare_fields(field, field - 1) == 0)
            continue;
        strbuf_append(&text, field->name, field->name_len);
        strbuf_append(&text, field->value, field->value_len);
    }
    return tokens_fit(tokens, EVP_sha1(), &text, &signature, 1);
}

int signature_check_twilio(struct arena *arena, const struct signature_tokens *tokens,
                           const struct signed_request *request, struct slice signature)
{
    struct url_parts url;
    struct form form = {NULL, 0};
    const char *hash = NULL;
    struct slice port;
    int err;

    if (signature.len == 0)
        return -ENOKEY;
    err = url_cut(request->url, &url);
    if (err == 0)
        err = find_body_hash(arena, url.query, &hash);
    if (err < 0)
        return err;
    if (hash) {
        if (!body_hash_fits(request->body, hash))
            return -EKEYREJECTED;
    } else {
        /* Nobody signs the body of a GET, so it must have none. */
        if (!request->is_post && request->body.len > 0)
            return -EBADMSG;
        err = read_sorted(arena, request->body, &form);
        if (err < 0)
            return err;
    }
    port = url.port.len > 0 ? url.port : url.is_https ? SLICE(":443") : SLICE(":80");
    err = twilio_fits(arena, tokens, &url, SLICE(""), &form, signature);
    if (err == -EKEYREJECTED)
        err = twilio_fits(arena, tokens, &url, port, &form, signature);
    return err;
}

static void plivo_write(struct strbuf *text, const struct url_parts *url, const struct form *query,
                        const struct form *form, struct slice nonce)
{
    append_slice(text, url->origin);
    append_slice(text, url->port);
    append_slice(text, url->path);
    if (query->count > 0 || form->count > 0)
        strbuf_append_char(text, '?');
    for (size_t i = 0; i < query->count; i++) {
        if (i > 0)
            strbuf_append_char(text, '&');
        strbuf_append(text, query->fields[i].name, query->fields[i].name_len);
        strbuf_append_char(text, '=');
        strbuf_append(text, query->fields[i].value, query->fields[i].value_len);
    }
    if (query->count > 0 && form->count > 0)
        strbuf_append_char(text, '.');
    for (size_t i = 0; i < form->count; i++) {
        strbuf_append(text, form->fields[i].name, form->fields[i].name_len);
        strbuf_append(text, form->fields[i].value, form->fields[i].value_len);
    }
    strbuf_append_char(text, '.');
    append_slice(text, nonce);
}

int signature_check_plivo(struct arena *arena, const struct signature_tokens *tokens,
                          const struct signed_request *request, struct slice signatures, struct slice nonce)
{
    struct form query = {NULL, 0}, form = {NULL, 0};
    struct slice given[SIGNATURE_LIST_MAX];
    struct slice entry;
    size_t count = 0;
    struct url_parts url;
    struct strbuf text;
    int err;

    if (signatures.len == 0 || nonce.len == 0)
        return -ENOKEY;
    /* Nobody signs the body of a GET, so it must have none. */
    if (nonce.len > SIGNATURE_NONCE_MAX || (!request->is_post && request->body.len > 0))
        return -EBADMSG;
    while (slice_take_first(&signatures, &entry)) {
        if (count == SIGNATURE_LIST_MAX)
            return -EBADMSG;
        given[count++] = entry;
    }
    err = url_cut(request->url, &url);
    if (err == 0)
        err = read_sorted(arena, url.query, &query);
    if (err == 0)
        err = read_sorted(arena, request->body, &form);
    if (err < 0)
        return err;
    strbuf_init(&text, arena, TEXT_MAX);
    plivo_write(&text, &url, &query, &form, nonce);
    return tokens_fit(tokens, EVP_sha256(), &text, given, count);
}
