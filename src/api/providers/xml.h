/*
 * xml.h - writes text into XML, well formed for any bytes.
 */
#ifndef API_PROVIDERS_XML_H
#define API_PROVIDERS_XML_H

#include "base/strbuf.h"

#define XML_DECLARATION "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
#define XML_EMPTY_RESPONSE XML_DECLARATION "<Response/>"

/* Appends the answer that ends a call without a word. */
void xml_render_hangup(struct strbuf *buf);

/*
 * Appends `text` escaped for element text and for attributes in double quotes. What XML 1.0 cannot hold
 * (control characters, U+FFFE, U+FFFF) and what is not UTF-8 becomes U+FFFD.
 */
void xml_escape(struct strbuf *buf, struct slice text);

#endif
