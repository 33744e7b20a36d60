/*
 * sign.h - signs webhooks as the providers do.
 */
#ifndef TOOLS_SIGN_H
#define TOOLS_SIGN_H

#include "base/strbuf.h"
#include "media.h"
#include "url.h"

enum { SIGN_HEADERS_MAX = 2048, SIGN_FIELDS_MAX = 32 };

/*
 * Appends the header lines that prove that `token` is known: a signature of Twilio or Plivo, Basic
 * authentication for Exotel. The URL is the router's with `path`, which has the query; `form` is the body of
 * a POST. Each name is there once. -E2BIG: there are too many of them; -ENOMEM.
 */
int sign_headers(enum media_dialect dialect, const char *token, const struct url *router, const char *path,
                 struct slice form, struct strbuf *headers) MUST_CHECK;

#endif
