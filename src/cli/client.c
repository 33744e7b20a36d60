/*
 * client.c - finds the running router, and asks it with libcurl.
 */
#include "cli/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/slice.h"
#include "base/version.h"
#include "config/config.h"

enum {
    URL_MAX = 8 * 1024,
    BODY_MAX = 16 * 1024 * 1024, /* a page of 1,000 pods has less than 1 MiB */
    HEADER_MAX = 64 * 1024 + 64, /* a key as large as its file can be */
    JSON_MAX = 64 * 1024 * 1024,
    STREAM_ID_MAX = 512,
    CONNECT_MAX_MS = 5 * 1000, /* an address that does not answer at all is away */
};

struct client {
    CURL *easy;
    struct curl_slist *headers;
    struct curl_slist *stream_headers; /* the same and Last-Event-ID, while a stream is read; else NULL */
    struct strbuf base;                /* the URL, without a slash at its end */
    struct strbuf url;                 /* of the current request */
    struct strbuf body;
    struct arena arena; /* of the last refusal */
    char error[CURL_ERROR_SIZE];
    client_piece_fn on_piece; /* while a stream is read; else NULL */
    void *on_piece_arg;
};

/* ---- where the router is, and the key ---- */

/* Only what a client needs: an agent's own settings, whatever they are, are no business of ours. */
static const char *lookup(void *arg, const char *name)
{
    static const char *const places[] = {"HTTP_PORT", "HTTP_BIND", "METRICS_PORT", "METRICS_BIND"};
    const struct cli_options *options = arg;

    for (size_t i = 0; i < ARRAY_LEN(places) && !options->url; i++) {
        if (strcmp(name, places[i]) == 0)
            return getenv(name);
    }
    return strcmp(name, "API_KEY_FILE") == 0 ? options->api_key_file : NULL;
}

/* A listener on all addresses is asked at the loopback address. False: port 0 says nothing. */
static bool append_local_url(struct strbuf *url, const struct settings *settings, enum client_port which)
{
    bool is_metrics = which == CLIENT_METRICS && settings->metrics_port != 0;
    const char *address =
        is_metrics && settings->metrics_bind[0] ? settings->metrics_bind : settings->http_bind;
    unsigned port = is_metrics ? settings->metrics_port : settings->http_port;

    if (port == 0)
        return false;
    if (!address[0] || strcmp(address, "0.0.0.0") == 0)
        address = "127.0.0.1";
    else if (strcmp(address, "::") == 0)
        address = "::1";
    strbuf_printf(url, strchr(address, ':') ? "http://[%s]:%u" : "http://%s:%u", address, port);
    return true;
}

static int set_url(struct client *client, const struct cli_options *options, const struct settings *settings,
                   enum client_port port)
{
    struct slice url = slice_of(options->url);

    if (!options->url) {
        if (append_local_url(&client->base, settings, port))
            return EXIT_OK;
        cli_say("HTTP_PORT=0 does not say where the router is: use --url or SMART_ROUTER_URL");
        return EXIT_USAGE;
    }
    if ((strncmp(url.data, "http://", 7) != 0 && strncmp(url.data, "https://", 8) != 0) ||
        !slice_is_printable(url) || url.len > URL_MAX / 2 || strpbrk(url.data, "?#")) {
        cli_say("not a URL such as http://localhost:8080: %s", options->url);
        return EXIT_USAGE;
    }
    while (url.len > 0 && url.data[url.len - 1] == '/')
        url.len--;
    strbuf_append(&client->base, url.data, url.len);
    return EXIT_OK;
}

static bool add_header(struct client *client, const char *header)
{
    struct curl_slist *longer = curl_slist_append(client->headers, header);

    if (longer)
        client->headers = longer;
    return longer;
}

/* The first key: a file for SIGHUP may have an old one behind it. */
static int set_key(struct client *client, const struct cli_options *options, const struct settings *settings)
{
    struct slice keys = slice_of(settings->api_key), key = {NULL, 0};
    struct strbuf header;
    bool is_added;

    if (!options->api_key_file)
        return EXIT_OK;
    if (!slice_take_first(&keys, &key) || key.len == 0 || !slice_is_printable(key)) {
        cli_say("the file \"%s\" has no API key", options->api_key_file);
        return EXIT_USAGE;
    }
    strbuf_init(&header, NULL, HEADER_MAX);
    strbuf_append_str(&header, "Authorization: Bearer ");
    strbuf_append(&header, key.data, key.len);
    is_added = !strbuf_failed(&header) && add_header(client, header.data);
    strbuf_release(&header);
    return is_added ? EXIT_OK : EXIT_FAILED;
}

static int set_router(struct client *client, const struct cli_options *options, enum client_port port)
{
    CLEANUP(config_freep) struct config *config = NULL;
    struct cli_options copy = *options;
    struct slice errors;
    int status;

    if (config_load(lookup, &copy, &config) < 0)
        return EXIT_FAILED;
    errors = config_errors(config);
    if (errors.len > 0) {
        fwrite(errors.data, 1, errors.len, stderr);
        return EXIT_USAGE;
    }
    status = set_url(client, options, config_settings(config), port);
    return status == EXIT_OK ? set_key(client, options, config_settings(config)) : status;
}

/* ---- one request ---- */

/* Is the answer that begins a stream of events, and not a refusal or something else altogether? */
static bool is_stream(struct client *client)
{
    static const char wanted[] = "text/event-stream";
    const char *type = NULL;
    long status = 0;

    return curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK && status == 200 &&
           curl_easy_getinfo(client->easy, CURLINFO_CONTENT_TYPE, &type) == CURLE_OK && type &&
           strncasecmp(type, wanted, sizeof(wanted) - 1) == 0;
}

static size_t on_body(char *data, size_t size UNUSED, size_t len, void *arg)
{
    struct client *client = arg;

    if (client->on_piece && is_stream(client))
        return client->on_piece(client->on_piece_arg, (struct slice){data, len}) ? len : 0;
    strbuf_append(&client->body, data, len);
    return strbuf_failed(&client->body) ? 0 : len;
}

#define SET(option, value) (curl_easy_setopt(client->easy, option, value) == CURLE_OK)

/* No proxy: a health check of this machine must not leave it. Redirects are not followed: they lose a POST.
 */
static bool set_options(struct client *client)
{
    return SET(CURLOPT_PROTOCOLS_STR, "http,https") &&
           SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) && SET(CURLOPT_PROXY, "") &&
           SET(CURLOPT_NOPROXY, "*") && SET(CURLOPT_NOSIGNAL, 1L) && SET(CURLOPT_PATH_AS_IS, 1L) &&
           SET(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MAX_MS) &&
           SET(CURLOPT_USERAGENT, "smart-router/" SMART_ROUTER_VERSION) &&
           SET(CURLOPT_WRITEFUNCTION, on_body) && SET(CURLOPT_WRITEDATA, client) &&
           SET(CURLOPT_ERRORBUFFER, client->error) && SET(CURLOPT_HTTPHEADER, client->headers);
}

static bool set_request(struct client *client, const struct client_request *request)
{
    uint64_t timeout_ms = min_u64(max_u64(request->timeout_ms, 1), INT32_MAX);

    strbuf_reset(&client->body);
    strbuf_reset(&client->url);
    strbuf_append_str(&client->url, client->base.data);
    strbuf_append_str(&client->url, request->path);
    if (strbuf_failed(&client->url) || !SET(CURLOPT_URL, client->url.data) ||
        !SET(CURLOPT_TIMEOUT_MS, (long)timeout_ms))
        return false;
    if (!SET(CURLOPT_HTTPGET, 1L) || !SET(CURLOPT_CUSTOMREQUEST, request->method))
        return false;
    return !request->json || (SET(CURLOPT_POSTFIELDSIZE, (long)strlen(request->json)) &&
                              SET(CURLOPT_COPYPOSTFIELDS, request->json));
}

/* *ret_status is there also if the answer broke off. */
static int perform(struct client *client, int *ret_status)
{
    CURLcode code = curl_easy_perform(client->easy);
    long status = 0;

    if (curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK)
        *ret_status = (int)status;
    if (code == CURLE_OK)
        return 0;
    if (!client->error[0])
        snprintf(client->error, sizeof(client->error), "%s", curl_easy_strerror(code));
    return -EIO;
}

int client_ask(struct client *client, const struct client_request *request, int *ret_status)
{
    int status = 0, err;

    client->error[0] = '\0';
    if (!set_request(client, request))
        return -ENOMEM;
    err = perform(client, &status);
    if (err == 0)
        *ret_status = status;
    return err;
}

/* No limit on the whole, but on the time without a byte: the router sends a comment every 15 s. */
static bool set_stream(struct client *client, const struct client_request *request, const char *last_event_id)
{
    long patience_s = (long)min_u64(request->timeout_ms / 1000 + 1, INT32_MAX);
    char header[STREAM_ID_MAX + 32];

    if (!set_request(client, request) || !SET(CURLOPT_TIMEOUT_MS, 0L) || !SET(CURLOPT_LOW_SPEED_LIMIT, 1L) ||
        !SET(CURLOPT_LOW_SPEED_TIME, patience_s))
        return false;
    if (!last_event_id || strlen(last_event_id) > STREAM_ID_MAX ||
        !slice_is_printable(slice_of(last_event_id)))
        return true;
    snprintf(header, sizeof(header), "Last-Event-ID: %s", last_event_id);
    client->stream_headers = curl_slist_append(NULL, header);
    for (const struct curl_slist *at = client->headers; at && client->stream_headers; at = at->next) {
        if (!curl_slist_append(client->stream_headers, at->data))
            return false;
    }
    return client->stream_headers && SET(CURLOPT_HTTPHEADER, client->stream_headers);
}

static void end_stream(struct client *client)
{
    client->on_piece = NULL;
    (void)SET(CURLOPT_HTTPHEADER, client->headers);
    (void)SET(CURLOPT_LOW_SPEED_TIME, 0L);
    curl_slist_free_all(TAKE(client->stream_headers));
}

int client_stream(struct client *client, const struct client_request *request, const char *last_event_id,
                  client_piece_fn fn, void *arg, int *ret_status)
{
    int status = 0, err = -ENOMEM;

    client->error[0] = '\0';
    client->on_piece = fn;
    client->on_piece_arg = arg;
    if (set_stream(client, request, last_event_id))
        err = perform(client, &status);
    end_stream(client);
    *ret_status = status;
    return err;
}

struct slice client_body(const struct client *client)
{
    return strbuf_slice(&client->body);
}

const char *client_error(const struct client *client)
{
    return client->error[0] ? client->error : "no memory";
}

const char *client_refusal(struct client *client, int status)
{
    const char *text;

    arena_release(&client->arena);
    arena_init(&client->arena, JSON_MAX);
    text = json_get_string(json_parse(&client->arena, client_body(client)), "error");
    snprintf(client->error, sizeof(client->error), text ? "%d %s" : "status %d", status, text);
    for (char *c = strchr(client->error, '\n'); c; c = strchr(c, '\n'))
        *c = ' '; /* a message of the router is one line */
    return client->error;
}

const char *client_url(const struct client *client)
{
    return client->base.data;
}

void client_append_escaped(const struct client *client, struct strbuf *buf, const char *text)
{
    char *escaped = curl_easy_escape(client->easy, text, 0);

    if (escaped)
        strbuf_append_str(buf, escaped);
    else
        buf->failed = true;
    curl_free(escaped);
}

void *client_new_handle(const struct client *client)
{
    return curl_easy_duphandle(client->easy);
}

/* ---- from beginning to end ---- */

int client_new(const struct cli_options *options, enum client_port port, struct client **ret_client)
{
    CLEANUP(client_freep) struct client *client = calloc(1, sizeof(*client));
    int status;

    if (!client || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        cli_say("no memory");
        return EXIT_FAILED;
    }
    arena_init(&client->arena, JSON_MAX);
    strbuf_init(&client->base, NULL, URL_MAX);
    strbuf_init(&client->url, NULL, URL_MAX);
    strbuf_init(&client->body, NULL, BODY_MAX);
    client->easy = curl_easy_init();
    status = set_router(client, options, port);
    if (status == EXIT_OK &&
        (strbuf_failed(&client->base) || !client->easy ||
         !add_header(client, "Content-Type: application/json") || !set_options(client))) {
        cli_say("no memory");
        status = EXIT_FAILED;
    }
    if (status == EXIT_OK)
        *ret_client = TAKE(client);
    return status;
}

struct client *client_free(struct client *client)
{
    if (!client)
        return NULL;
    curl_easy_cleanup(client->easy);
    curl_slist_free_all(client->headers);
    strbuf_release(&client->base);
    strbuf_release(&client->url);
    strbuf_release(&client->body);
    arena_release(&client->arena);
    free(client);
    return NULL;
}

void client_freep(struct client **client)
{
    *client = client_free(*client);
}
