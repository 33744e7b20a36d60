/*
 * dashboard.c - GET / and GET /ui/{file}: the files of the dashboard.
 *
 * They hold no data of this router, so they need no key. The page asks the API for data, with the
 * key that its user gives it.
 */
#include "api/api_internal.h"
#include "api/web_files.h"
#include "base/slice.h"

enum { FILE_NAME_MAX = 64 };

#define FILE_NOT_FOUND "file not found"

/*
 * Only what comes from this router is loaded and run, and nothing is sent elsewhere. No text of a
 * call, a pod or a merchant can become code: there are neither inline scripts nor inline styles.
 */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                             "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static const struct web_file *file_of(const char *name)
{
    for (size_t i = 0; i < web_files_count; i++) {
        if (strcmp(web_files[i].name, name) == 0)
            return &web_files[i];
    }
    return NULL;
}

static bool is_file_name(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= FILE_NAME_MAX && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == len;
}

/*
 * The browser asks each time whether its copy is still the right one. So an upgrade never mixes the
 * files of two versions.
 */
static void send_file(struct http_request *request, const struct web_file *file)
{
    struct slice known = http_request_header(request, "if-none-match");

    http_response_header(request, "ETag", file->etag);
    http_response_header(request, "Cache-Control", "no-cache");
    if (known.data && slice_equals(known, file->etag)) {
        http_respond(request, 304, NULL, SLICE(""));
        return;
    }
    http_response_header(request, "Content-Security-Policy", policy);
    http_response_header(request, "X-Content-Type-Options", "nosniff");
    http_response_header(request, "Referrer-Policy", "no-referrer");
    http_respond(request, 200, file->content_type, file->text);
}

void api_dashboard(struct http_request *request, void *arg UNUSED)
{
    const struct web_file *file = file_of("index.html");

    assert(file);
    send_file(request, file);
}

void api_dashboard_file(struct http_request *request, void *arg UNUSED)
{
    const char *name = http_request_param(request, "file");
    const struct web_file *file;

    if (!is_file_name(name)) {
        api_refuse(request, 400, "file must be 1 to 64 characters of a-z 0-9 - _ .");
        return;
    }
    file = file_of(name);
    if (!file) {
        api_refuse(request, 404, FILE_NOT_FOUND);
        return;
    }
    send_file(request, file);
}
