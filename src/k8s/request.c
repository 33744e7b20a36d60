/*
 * request.c - one request as libcurl wants it: its options, its callbacks, and what its errors mean.
 *
 * The callbacks here run inside libcurl. They gather and note; client.c tells others afterwards.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/version.h"
#include "k8s/client_internal.h"

/* A connection whose other end is gone is noticed within 30 s, whether something is sent on it or not. */
enum {
    KEEPALIVE_IDLE_S = 10,
    KEEPALIVE_INTERVAL_S = 5,
    KEEPALIVE_COUNT = 3,
    /* What was sent and is not acknowledged for so long is lost, and so is the connection. */
    UNACKNOWLEDGED_MAX_MS = 20 * 1000,
};

static const char *const METHODS[] = {
    [K8S_GET] = "GET",
    [K8S_POST] = "POST",
    [K8S_PUT] = "PUT",
    [K8S_PATCH_MERGE] = "PATCH",
};

/* ---- callbacks ---- */

static long status_of(CURL *easy)
{
    long status = 0;

    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static int on_sockopt(void *arg UNUSED, curl_socket_t fd, curlsocktype purpose UNUSED)
{
    unsigned int max_ms = UNACKNOWLEDGED_MAX_MS;
    int count = KEEPALIVE_COUNT;

    /* Best effort: without it a dead connection is found later. libcurl itself sets the other two. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &max_ms, sizeof(max_ms));
    return CURL_SOCKOPT_OK;
}

/* The empty line behind the headers: from here on a stream has other limits. */
static size_t on_header(char *data, size_t size UNUSED, size_t len, void *arg)
{
    struct k8s_request *request = arg;
    bool is_end = len > 0 && (data[0] == '\r' || data[0] == '\n');

    MAGIC_CHECK(request, K8S_REQUEST_MAGIC);
    client_note_arrival(request);
    if (!is_end || request->is_streaming || !request->on_data || status_of(request->easy) != 200)
        return len;
    request->is_streaming = true;
    request->body.max = K8S_BURST_MAX;
    client_restart_timer(request, request->stall_ms);
    return len;
}

static size_t on_body(char *data, size_t size UNUSED, size_t len, void *arg)
{
    struct k8s_request *request = arg;

    MAGIC_CHECK(request, K8S_REQUEST_MAGIC);
    client_note_arrival(request);
    if (len > request->body.max - request->body.len) {
        request->err = -EMSGSIZE;
        return 0;
    }
    strbuf_append(&request->body, data, len);
    if (strbuf_failed(&request->body)) {
        request->err = -ENOMEM;
        return 0;
    }
    if (request->is_streaming) {
        client_restart_timer(request, request->stall_ms);
        list_remove(&request->fresh_link);
        list_append(&request->client->fresh, &request->fresh_link);
    }
    return len;
}

/* ---- options ---- */

#define SET(option, value) (curl_easy_setopt(easy, option, value) == CURLE_OK)

static bool set_pem(CURL *easy, const struct k8s_pem *pem, CURLoption file, CURLoption blob)
{
    struct curl_blob data = {.data = pem->data, .len = pem->len, .flags = CURL_BLOB_NOCOPY};

    if (pem->data)
        return SET(blob, &data);
    return !pem->path || SET(file, pem->path);
}

static bool set_tls(CURL *easy, const struct k8s_config *config)
{
    bool has_ca = config->ca.data || config->ca.path;

    /* The system's certificates are left out if we were told whom to trust; a rotated file is read again. */
    return SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
           SET(CURLOPT_SSL_VERIFYPEER, config->is_insecure ? 0L : 1L) &&
           SET(CURLOPT_SSL_VERIFYHOST, config->is_insecure ? 0L : 2L) &&
           (!has_ca ||
            (SET(CURLOPT_CAPATH, NULL) && SET(CURLOPT_CAINFO, NULL) && SET(CURLOPT_CA_CACHE_TIMEOUT, 0L))) &&
           set_pem(easy, &config->ca, CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB) &&
           set_pem(easy, &config->client_certificate, CURLOPT_SSLCERT, CURLOPT_SSLCERT_BLOB) &&
           set_pem(easy, &config->client_key, CURLOPT_SSLKEY, CURLOPT_SSLKEY_BLOB);
}

static bool set_connection(CURL *easy, const struct k8s_client *client)
{
    bool is_https = strncmp(client->base_url, "https:", 6) == 0;

    /*
     * PIPEWAIT lets requests that start together share one HTTP/2 connection. QUICK_EXIT: a cancelled request
     * does not wait for the thread that resolves its name, which would stop the loop.
     */
    return SET(CURLOPT_HTTP_VERSION, is_https ? (long)CURL_HTTP_VERSION_2TLS : (long)CURL_HTTP_VERSION_1_1) &&
           SET(CURLOPT_PIPEWAIT, is_https ? 1L : 0L) && SET(CURLOPT_PROTOCOLS_STR, "http,https") &&
           SET(CURLOPT_PROXY, "") && SET(CURLOPT_NOPROXY, "*") && SET(CURLOPT_NOSIGNAL, 1L) &&
           SET(CURLOPT_QUICK_EXIT, 1L) && SET(CURLOPT_TCP_KEEPALIVE, 1L) &&
           SET(CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S) &&
           SET(CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S) &&
           SET(CURLOPT_SOCKOPTFUNCTION, on_sockopt) &&
           (!client->connect_to || SET(CURLOPT_CONNECT_TO, client->connect_to));
}

static bool set_callbacks(CURL *easy, struct k8s_request *request)
{
    return SET(CURLOPT_PRIVATE, request) && SET(CURLOPT_HEADERFUNCTION, on_header) &&
           SET(CURLOPT_HEADERDATA, request) && SET(CURLOPT_WRITEFUNCTION, on_body) &&
           SET(CURLOPT_WRITEDATA, request) && SET(CURLOPT_ERRORBUFFER, request->curl_error);
}

static bool set_message(CURL *easy, const struct k8s_request *request, size_t body_len)
{
    if (!SET(CURLOPT_URL, request->url) || !SET(CURLOPT_PATH_AS_IS, 1L) ||
        !SET(CURLOPT_HTTPHEADER, request->headers))
        return false;
    if (request->method == K8S_GET)
        return SET(CURLOPT_HTTPGET, 1L);
    return SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body_len) &&
           SET(CURLOPT_POSTFIELDS, request->sent_body) &&
           SET(CURLOPT_CUSTOMREQUEST, METHODS[request->method]);
}

static bool add_header(struct k8s_request *request, const char *name, const char *value)
{
    char *line = NULL;
    struct curl_slist *list = NULL;

    if (asprintf(&line, "%s: %s", name, value) < 0)
        return false;
    list = curl_slist_append(request->headers, line);
    explicit_bzero(line, strlen(line));
    free(line);
    if (!list)
        return false;
    request->headers = list;
    return true;
}

static bool add_headers(struct k8s_request *request, const char *token)
{
    const char *host = request->client->host_header;
    const char *type =
        request->method == K8S_PATCH_MERGE ? "application/merge-patch+json" : "application/json";
    char bearer[K8S_TOKEN_MAX + 16];
    bool is_added;

    if (!add_header(request, "Accept", "application/json") ||
        !add_header(request, "User-Agent", "smart-router/" SMART_ROUTER_VERSION) ||
        (host && !add_header(request, "Host", host)))
        return false;
    if (request->method != K8S_GET &&
        (!add_header(request, "Content-Type", type) || !add_header(request, "Expect", "")))
        return false;
    if (!token)
        return true;
    (void)snprintf(bearer, sizeof(bearer), "Bearer %s", token);
    is_added = add_header(request, "Authorization", bearer);
    explicit_bzero(bearer, sizeof(bearer));
    return is_added;
}

/* ---- making and freeing ---- */

static int request_fill(struct k8s_request *request, const struct k8s_request_spec *spec, const char *token)
{
    if (asprintf(&request->url, "%s%s", request->client->base_url, spec->path) < 0) {
        request->url = NULL;
        return -ENOMEM;
    }
    request->sent_body = calloc(1, spec->body.len + 1);
    request->easy = curl_easy_init();
    if (!request->sent_body || !request->easy)
        return -ENOMEM;
    if (spec->body.len > 0)
        memcpy(request->sent_body, spec->body.data, spec->body.len);
    if (!add_headers(request, token) || !set_callbacks(request->easy, request) ||
        !set_connection(request->easy, request->client) || !set_tls(request->easy, request->client->config) ||
        !set_message(request->easy, request, spec->body.len))
        return -ENOMEM;
    return 0;
}

int k8s_request_new(struct k8s_client *client, const struct k8s_request_spec *spec, const char *token,
                    struct k8s_request **ret_request)
{
    struct k8s_request *request = calloc(1, sizeof(*request));
    int err;

    if (!request)
        return -ENOMEM;
    request->magic = K8S_REQUEST_MAGIC;
    request->client = client;
    request->method = spec->method;
    request->timeout_ms = spec->timeout_ms;
    request->stall_ms = spec->stall_ms;
    request->on_data = spec->on_data;
    list_init(&request->link);
    list_init(&request->fresh_link);
    strbuf_init(&request->body, NULL, spec->body_max);
    err = request_fill(request, spec, token);
    if (err < 0) {
        k8s_request_free(request);
        return err;
    }
    *ret_request = request;
    return 0;
}

void k8s_request_free(struct k8s_request *request)
{
    if (request->easy)
        curl_easy_cleanup(request->easy);
    for (struct curl_slist *line = request->headers; line; line = line->next)
        explicit_bzero(line->data, strlen(line->data));
    curl_slist_free_all(request->headers);
    strbuf_release(&request->body);
    free(request->sent_body);
    free(request->url);
    request->magic = 0;
    free(request);
}

/* ---- failures ---- */

void k8s_request_say(struct k8s_request *request, const char *format, ...)
{
    char what[CURL_ERROR_SIZE + 64];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    /* Without the query: selectors and page tokens make lines long and say little. */
    (void)snprintf(request->error, sizeof(request->error), "%s %.*s: %s", METHODS[request->method],
                   (int)min_u64(strcspn(request->url, "?"), 200), request->url, what);
}

static int errno_of_connect(CURL *easy)
{
    long os_errno = 0;

    (void)curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_errno);
    return os_errno > 0 ? -(int)os_errno : -ECONNREFUSED;
}

static int errno_of(CURL *easy, CURLcode code)
{
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_COULDNT_CONNECT:
        return errno_of_connect(easy);
    case CURLE_COULDNT_RESOLVE_HOST:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_SEND_FAIL_REWIND:
        return -ECONNRESET;
    default:
        /* All that is left is about TLS, or no HTTP. */
        return -EPROTO;
    }
}

int k8s_request_failure(struct k8s_request *request, CURLcode code)
{
    if (request->err == -EMSGSIZE) {
        k8s_request_say(request, "the answer is longer than %zu bytes", request->body.max);
        return request->err;
    }
    if (code != CURLE_OK)
        k8s_request_say(request, "%s",
                        request->curl_error[0] ? request->curl_error : curl_easy_strerror(code));
    return request->err ? request->err : errno_of(request->easy, code);
}
