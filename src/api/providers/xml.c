/*
 * xml.c - escapes text for XML, and replaces bytes that XML does not allow.
 */
#include "api/providers/xml.h"

#include "base/utf8.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* What stands for the character, or NULL if it stands for itself. */
static const char *xml_substitute(const char *at, size_t len)
{
    if (len == 0)
        return REPLACEMENT;
    if (len == 3 && (memcmp(at, "\xef\xbf\xbe", 3) == 0 || memcmp(at, "\xef\xbf\xbf", 3) == 0))
        return REPLACEMENT;
    if (len > 1)
        return NULL;
    switch (*at) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&apos;";
    /* As references, because a parser turns white space in attributes into spaces. */
    case '\t':
        return "&#9;";
    case '\n':
        return "&#10;";
    case '\r':
        return "&#13;";
    default:
        return (unsigned char)*at < 0x20 ? REPLACEMENT : NULL;
    }
}

void xml_render_hangup(struct strbuf *buf)
{
    strbuf_append_str(buf, XML_DECLARATION "<Response><Hangup/></Response>");
}

void xml_escape(struct strbuf *buf, struct slice text)
{
    size_t plain = 0; /* start of the run that needs no escape */

    for (size_t i = 0; i < text.len;) {
        size_t len = utf8_length(text.data + i, text.len - i);
        const char *substitute = xml_substitute(text.data + i, len);

        if (len == 0)
            len = 1;
        if (substitute) {
            strbuf_append(buf, text.data + plain, i - plain);
            strbuf_append_str(buf, substitute);
            plain = i + len;
        }
        i += len;
    }
    if (plain < text.len)
        strbuf_append(buf, text.data + plain, text.len - plain);
}
