/*
 * web_files.h - the files of the dashboard, which the build puts into the binary
 * (scripts/embed-web). Internal to the module.
 */
#ifndef API_WEB_FILES_H
#define API_WEB_FILES_H

#include "base/base.h"

struct web_file {
    const char *name; /* in web/ */
    const char *content_type;
    const char *etag; /* with its quotes; another text has another one */
    struct slice text;
};

extern const struct web_file web_files[];
extern const size_t web_files_count;

#endif
