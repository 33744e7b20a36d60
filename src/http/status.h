/*
 * status.h - the HTTP statuses that the router answers with, and the code of each error.
 */
#ifndef HTTP_STATUS_H
#define HTTP_STATUS_H

#include "base/base.h"

struct http_status {
    int status;
    const char *reason;
    const char *code; /* of an error, for programs */
};

/* Never NULL. */
const struct http_status *http_status_of(int status);

#endif
