/*
 * form.c - parses forms and queries, and percent-encodes text.
 */
#include "http/form.h"

#include "base/hex.h"

/* Decodes one name or value into `arena`; NULL: no memory. */
static char *form_decode(struct arena *arena, const char *text, size_t len, size_t *ret_len)
{
    char *out = arena_alloc(arena, len + 1);
    size_t at = 0;

    if (!out)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '+') {
            c = ' ';
        } else if (c == '%' && len - i > 2 && hex_pair(text + i + 1) >= 0) {
            c = (char)hex_pair(text + i + 1);
            i += 2;
        }
        out[at++] = c;
    }
    out[at] = '\0';
    *ret_len = at;
    return out;
}

static size_t form_count(struct slice text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++) {
        bool starts_piece = i == 0 || text.data[i - 1] == '&';

        count += starts_piece && text.data[i] != '&';
    }
    return count;
}

int form_parse(struct arena *arena, struct slice text, struct form *ret_form)
{
    struct form form = {NULL, 0};
    size_t room = form_count(text);
    size_t at = 0;

    assert(arena);
    assert(ret_form);

    if (room > FORM_FIELDS_MAX)
        return -E2BIG;
    if (room > 0) {
        form.fields = arena_alloc(arena, room * sizeof(*form.fields));
        if (!form.fields)
            return -ENOMEM;
    }
    while (at < text.len) {
        const char *piece = text.data + at;
        const char *amp = memchr(piece, '&', text.len - at);
        size_t len = amp ? (size_t)(amp - piece) : text.len - at;
        const char *equals = memchr(piece, '=', len);
        size_t name_len = equals ? (size_t)(equals - piece) : len;
        struct form_field *field;

        at += len + 1;
        if (len == 0)
            continue;
        assert(form.count < room);
        field = &form.fields[form.count];
        field->name = form_decode(arena, piece, name_len, &field->name_len);
        field->value = equals ? form_decode(arena, equals + 1, len - name_len - 1, &field->value_len)
                              : form_decode(arena, piece, 0, &field->value_len);
        if (!field->name || !field->value)
            return -ENOMEM;
        form.count++;
    }
    *ret_form = form;
    return 0;
}

const char *form_get(const struct form *form, const char *name)
{
    for (size_t i = 0; i < form->count; i++)
        if (strcmp(form->fields[i].name, name) == 0)
            return form->fields[i].value;
    return NULL;
}

static bool is_unreserved(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void percent_encode(struct strbuf *buf, struct slice text)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];

        if (is_unreserved((char)c)) {
            strbuf_append_char(buf, (char)c);
        } else {
            char escape[3] = {'%', digits[c >> 4], digits[c & 15]};

            strbuf_append(buf, escape, sizeof(escape));
        }
    }
}
