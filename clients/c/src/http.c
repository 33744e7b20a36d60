/*
 * http.c - one HTTP exchange with the router, over libcurl.
 */
#include "http.h"

#include <ctype.h>
#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { RETRY_AFTER_MAX_S = 86400 };

struct sr_http {
    char *base_url; /* without a slash at its end */
    pthread_mutex_t lock;
    CURL *idle[SR_IDLE_HANDLES_MAX];
    size_t idle_count;
};

/* What arrives during one exchange. */
struct arrival {
    struct smartrouter_answer *answer;
    size_t size;
    bool is_too_large;
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void curl_start(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static char *text_join(const char *one, const char *other)
{
    const size_t size = strlen(one) + strlen(other) + 1;
    char *text = malloc(size);

    if (text)
        snprintf(text, size, "%s%s", one, other);
    return text;
}

struct sr_http *sr_http_new(const char *base_url)
{
    struct sr_http *http = calloc(1, sizeof(*http));
    size_t length;

    pthread_once(&curl_once, curl_start);
    if (!http)
        return NULL;
    pthread_mutex_init(&http->lock, NULL);
    http->base_url = strdup(base_url);
    if (!http->base_url)
        return sr_http_free(http);
    for (length = strlen(http->base_url); length > 0 && http->base_url[length - 1] == '/';)
        http->base_url[--length] = '\0';
    return http;
}

struct sr_http *sr_http_free(struct sr_http *http)
{
    if (http) {
        while (http->idle_count > 0)
            curl_easy_cleanup(http->idle[--http->idle_count]);
        pthread_mutex_destroy(&http->lock);
        free(http->base_url);
        free(http);
    }
    return NULL;
}

static CURL *handle_take(struct sr_http *http)
{
    CURL *handle = NULL;

    pthread_mutex_lock(&http->lock);
    if (http->idle_count > 0)
        handle = http->idle[--http->idle_count];
    pthread_mutex_unlock(&http->lock);
    return handle ? handle : curl_easy_init();
}

static void handle_give_back(struct sr_http *http, CURL *handle)
{
    /* Forgets the options, keeps the connection. */
    curl_easy_reset(handle);
    pthread_mutex_lock(&http->lock);
    if (http->idle_count < SR_IDLE_HANDLES_MAX) {
        http->idle[http->idle_count++] = handle;
        handle = NULL;
    }
    pthread_mutex_unlock(&http->lock);
    if (handle)
        curl_easy_cleanup(handle);
}

static size_t take_body(char *data, size_t one, size_t size, void *arg)
{
    struct arrival *arrival = arg;
    char *body;

    (void)one;
    if (size > SR_BODY_MAX - arrival->size) {
        arrival->is_too_large = true;
        return 0;
    }
    body = realloc(arrival->answer->body, arrival->size + size + 1);
    if (!body)
        return 0;
    memcpy(body + arrival->size, data, size);
    arrival->size += size;
    body[arrival->size] = '\0';
    arrival->answer->body = body;
    return size;
}

/* -1: it is no number of seconds. A date says nothing to a caller who is on the line. */
static int64_t read_seconds(const char *text, size_t length)
{
    int64_t seconds = 0;
    bool has_digit = false;

    for (size_t i = 0; i < length; i++) {
        if (isspace((unsigned char)text[i]))
            continue;
        if (!isdigit((unsigned char)text[i]))
            return -1;
        has_digit = true;
        seconds = seconds * 10 + (text[i] - '0');
        if (seconds > RETRY_AFTER_MAX_S)
            seconds = RETRY_AFTER_MAX_S;
    }
    return has_digit ? seconds : -1;
}

static size_t take_header(char *data, size_t one, size_t size, void *arg)
{
    static const char NAME[] = "retry-after:";
    const size_t name_size = sizeof(NAME) - 1;
    struct arrival *arrival = arg;
    int64_t seconds;

    (void)one;
    if (size > name_size && strncasecmp(data, NAME, name_size) == 0) {
        seconds = read_seconds(data + name_size, size - name_size);
        arrival->answer->retry_after_ms = seconds < 0 ? SR_RETRY_AFTER_NONE : 1000 * seconds;
    }
    return size;
}

static int look_at_cancel(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load((atomic_bool *)arg) ? 1 : 0;
}

/* false: no memory. */
static bool headers_add(struct curl_slist **headers, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*headers, line);

    if (longer)
        *headers = longer;
    return longer != NULL;
}

static bool headers_add_value(struct curl_slist **headers, const char *name, const char *value)
{
    char *line;
    bool is_added;

    if (!value || !*value)
        return true;
    line = text_join(name, value);
    is_added = line && headers_add(headers, line);
    free(line);
    return is_added;
}

static bool headers_make(const struct sr_exchange *exchange, struct curl_slist **headers)
{
    /* Without "Expect:", libcurl would wait for the router's 100 before it sends a large body. */
    return headers_add_value(headers, "traceparent: ", exchange->traceparent) &&
           headers_add_value(headers, "Authorization: ", exchange->authorization) &&
           (!exchange->body || headers_add(headers, "Content-Type: application/json")) &&
           headers_add(headers, "Expect:") && headers_add(headers, "Accept: application/json");
}

static void handle_prepare(CURL *handle, const struct sr_exchange *exchange, struct arrival *arrival,
                           char *message)
{
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, message);
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, (long)exchange->timeout_ms);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, (long)exchange->timeout_ms);
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "libsmartrouter/" SMARTROUTER_VERSION);
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, exchange->method);
    if (exchange->body)
        curl_easy_setopt(handle, CURLOPT_POSTFIELDS, exchange->body);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, arrival);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, arrival);
    if (exchange->is_cancelled) {
        curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, look_at_cancel);
        curl_easy_setopt(handle, CURLOPT_XFERINFODATA, exchange->is_cancelled);
    }
}

/*
 * OpenSSL writes without MSG_NOSIGNAL, and libcurl leaves SIGPIPE alone with CURLOPT_NOSIGNAL: a router that
 * closes its connection must not kill the program.
 */
static CURLcode perform_without_sigpipe(CURL *handle)
{
    static const struct timespec NOW = {0};
    sigset_t sigpipe, before, pending;
    bool was_pending;
    CURLcode code;

    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
    code = curl_easy_perform(handle);
    if (!was_pending)
        sigtimedwait(&sigpipe, NULL, &NOW);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

static bool handle_perform(CURL *handle, const struct arrival *arrival, const char *message,
                           bool *ret_may_have_arrived)
{
    struct smartrouter_answer *answer = arrival->answer;
    const CURLcode code = perform_without_sigpipe(handle);
    long status = 0, sent = 0;

    if (code == CURLE_OK) {
        curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
        answer->status = (int)status;
        return true;
    }
    curl_easy_getinfo(handle, CURLINFO_REQUEST_SIZE, &sent);
    *ret_may_have_arrived = sent > 0;
    if (arrival->is_too_large)
        sr_answer_say(answer, "the answer has more than %d bytes", SR_BODY_MAX);
    else
        sr_answer_say(answer, "%s", *message ? message : curl_easy_strerror(code));
    return false;
}

bool sr_http_exchange(void *arg, const struct sr_exchange *exchange, struct smartrouter_answer *answer,
                      bool *ret_may_have_arrived)
{
    struct sr_http *http = arg;
    struct arrival arrival = {.answer = answer};
    char message[CURL_ERROR_SIZE] = "", *url = text_join(http->base_url, exchange->path);
    struct curl_slist *headers = NULL;
    CURL *handle = handle_take(http);
    bool is_answered = false;

    *ret_may_have_arrived = false;
    if (url && handle && headers_make(exchange, &headers)) {
        handle_prepare(handle, exchange, &arrival, message);
        curl_easy_setopt(handle, CURLOPT_URL, url);
        curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
        is_answered = handle_perform(handle, &arrival, message, ret_may_have_arrived);
    } else {
        sr_answer_say(answer, "no memory");
    }
    if (handle)
        handle_give_back(http, handle);
    curl_slist_free_all(headers);
    free(url);
    return is_answered;
}
