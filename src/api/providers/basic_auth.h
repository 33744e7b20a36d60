/*
 * basic_auth.h - decodes Basic authentication, which Exotel uses instead of signatures.
 *
 * A pure function on unchecked input: no I/O, nothing is logged.
 */
#ifndef API_PROVIDERS_BASIC_AUTH_H
#define API_PROVIDERS_BASIC_AUTH_H

#include "base/arena.h"
#include "base/base.h"

/*
 * The password in "Authorization: Basic ...", and all of "user:password"; both in `arena`. False:
 * it is none.
 */
bool basic_auth_read(struct arena *arena, struct slice authorization, struct slice *ret_pair,
                     struct slice *ret_password);

#endif
