/*
 * sign.c - signs simulated webhooks as Twilio, Plivo and Exotel do.
 */
#include "sign.h"

#include <stdlib.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/hex.h"

#define NONCE "19450101"

enum { TEXT_MAX = 16 * 1024 };

struct field {
    char *name;
    char *value;
};

static void decode(char *text)
{
    char *out = text;

    for (; *text; text++) {
        if (*text == '%' && hex_pair(text + 1) >= 0) {
            *out++ = (char)hex_pair(text + 1);
            text += 2;
        } else {
            *out++ = *text;
            if (*text == '+')
                out[-1] = ' ';
        }
    }
    *out = '\0';
}

static int compare_fields(const void *a, const void *b)
{
    const struct field *left = a, *right = b;

    return strcmp(left->name, right->name);
}

/* Cuts `text` into its fields, in place, sorted by name. */
static int read_fields(char *text, struct field fields[SIGN_FIELDS_MAX], size_t *ret_count)
{
    size_t count = 0;

    while (text && *text) {
        char *end = strchr(text, '&');
        char *equals;

        if (count == SIGN_FIELDS_MAX)
            return -E2BIG;
        if (end)
            *end = '\0';
        equals = strchr(text, '=');
        if (equals)
            *equals = '\0';
        fields[count] = (struct field){text, equals ? equals + 1 : text + strlen(text)};
        decode(fields[count].name);
        decode(fields[count].value);
        count++;
        text = end ? end + 1 : NULL;
    }
    qsort(fields, count, sizeof(*fields), compare_fields);
    *ret_count = count;
    return 0;
}

/* Appends the fields with `between` name and value, and `after` all but the last. */
static int append_fields(struct strbuf *text, struct slice form, const char *between, const char *after)
{
    struct field fields[SIGN_FIELDS_MAX];
    char *copy = strndup(form.data, form.len);
    size_t count = 0;
    int r;

    if (!copy)
        return -ENOMEM;
    r = read_fields(copy, fields, &count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        strbuf_append_str(text, fields[i].name);
        strbuf_append_str(text, between);
        strbuf_append_str(text, fields[i].value);
        if (i + 1 < count)
            strbuf_append_str(text, after);
    }
    free(copy);
    return r;
}

static int twilio_text(const char *path, struct slice form, struct strbuf *text)
{
    strbuf_append_str(text, path);
    return append_fields(text, form, "", "");
}

static int plivo_text(const char *path, struct slice form, struct strbuf *text)
{
    const char *query = strchr(path, '?');
    int r = 0;

    strbuf_append(text, path, query ? (size_t)(query - path) : strlen(path));
    if (query || form.len > 0)
        strbuf_append_str(text, "?");
    if (query)
        r = append_fields(text, slice_of(query + 1), "=", "&");
    if (query && form.len > 0)
        strbuf_append_str(text, ".");
    if (r == 0)
        r = append_fields(text, form, "", "");
    strbuf_append_str(text, "." NONCE);
    return r;
}

static int append_mac(struct strbuf *headers, const EVP_MD *digest, const char *token,
                      const struct strbuf *text)
{
    unsigned char mac[EVP_MAX_MD_SIZE], encoded[2 * EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (strbuf_failed(text) ||
        !HMAC(digest, token, (int)strlen(token), (const unsigned char *)text->data, text->len, mac, &len))
        return -ENOMEM;
    EVP_EncodeBlock(encoded, mac, (int)len);
    strbuf_append_str(headers, (const char *)encoded);
    strbuf_append_str(headers, "\r\n");
    return 0;
}

static int append_basic(struct strbuf *headers, const char *token)
{
    unsigned char encoded[SIGN_HEADERS_MAX];
    struct strbuf pair;

    strbuf_init(&pair, NULL, sizeof(encoded) / 4 * 3 - 3);
    strbuf_printf(&pair, "exotel:%s", token);
    if (strbuf_failed(&pair)) {
        strbuf_release(&pair);
        return -ENOMEM;
    }
    EVP_EncodeBlock(encoded, (const unsigned char *)pair.data, (int)pair.len);
    strbuf_printf(headers, "Authorization: Basic %s\r\n", (const char *)encoded);
    strbuf_release(&pair);
    return 0;
}

int sign_headers(enum media_dialect dialect, const char *token, const struct url *router, const char *path,
                 struct slice form, struct strbuf *headers)
{
    struct strbuf text;
    int r;

    if (dialect == MEDIA_EXOTEL)
        return append_basic(headers, token);
    strbuf_init(&text, NULL, TEXT_MAX);
    strbuf_printf(&text, "http://%s:%u", router->host, router->port);
    r = dialect == MEDIA_TWILIO ? twilio_text(path, form, &text) : plivo_text(path, form, &text);
    if (dialect == MEDIA_TWILIO)
        strbuf_append_str(headers, "X-Twilio-Signature: ");
    else
        strbuf_append_str(headers, "X-Plivo-Signature-V3-Nonce: " NONCE "\r\nX-Plivo-Signature-V3: ");
    if (r == 0)
        r = append_mac(headers, dialect == MEDIA_TWILIO ? EVP_sha1() : EVP_sha256(), token, &text);
    strbuf_release(&text);
    return r;
}
