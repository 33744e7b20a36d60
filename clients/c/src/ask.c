/*
 * ask.c - a request to the router: the breaker before it, its tries, and what its answer means.
 *
 * The rules are those of clients/behaviours/README.md.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* What all tries send. */
struct message {
    char *body;
    char traceparent[SR_TRACEPARENT_SIZE];
};

/* What became of one try. */
struct attempt {
    struct smartrouter_answer *answer;
    enum sr_class class;
    bool may_have_arrived;
    bool may_repeat;
};

/* A trace that begins here, if the program has none. */
static void traceparent_make(char text[SR_TRACEPARENT_SIZE])
{
    uint8_t bytes[24];
    int at = 3;

    *text = '\0';
    if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != sizeof(bytes))
        return;
    /* Neither id may be all zeros. */
    bytes[0] |= 1;
    bytes[16] |= 1;
    snprintf(text, SR_TRACEPARENT_SIZE, "00-");
    for (size_t i = 0; i < sizeof(bytes); i++) {
        at += snprintf(text + at, SR_TRACEPARENT_SIZE - (size_t)at, "%02x", bytes[i]);
        if (i == 15)
            text[at++] = '-';
    }
    snprintf(text + at, SR_TRACEPARENT_SIZE - (size_t)at, "-01");
}

static bool is_zeros(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] != '0')
            return false;
    return true;
}

static bool is_traceparent(const char *text)
{
    if (strlen(text) != SR_TRACEPARENT_SIZE - 1)
        return false;
    for (size_t i = 0; i < SR_TRACEPARENT_SIZE - 1; i++) {
        const bool is_hyphen = i == 2 || i == 35 || i == 52;

        if (is_hyphen ? text[i] != '-' : !strchr("0123456789abcdef", text[i]))
            return false;
    }
    /* There is no version ff, and no id is all zeros. */
    return memcmp(text, "ff", 2) != 0 && !is_zeros(text + 3, 32) && !is_zeros(text + 36, 16);
}

void sr_traceparent_find(const struct smartrouter_client *client, const char *given,
                         char text[SR_TRACEPARENT_SIZE])
{
    const struct sr_hooks *hooks = &client->settings->hooks;

    if (given && is_traceparent(given)) {
        snprintf(text, SR_TRACEPARENT_SIZE, "%s", given);
        return;
    }
    memset(text, 0, SR_TRACEPARENT_SIZE);
    if (hooks->traceparent && hooks->traceparent(hooks->traceparent_arg, text)) {
        text[SR_TRACEPARENT_SIZE - 1] = '\0';
        if (is_traceparent(text))
            return;
    }
    traceparent_make(text);
}

/* The first implementation nests an allocation: its members come up, so that there is one place to look. */
static void answer_flatten(struct smartrouter_answer *answer)
{
    cJSON *inner = cJSON_DetachItemFromObjectCaseSensitive(answer->json, "allocation"), *item;

    while (cJSON_IsObject(inner) && inner->child) {
        item = cJSON_DetachItemViaPointer(inner, inner->child);
        cJSON_DeleteItemFromObjectCaseSensitive(answer->json, item->string);
        cJSON_AddItemToObject(answer->json, item->string, item);
    }
    cJSON_Delete(inner);
}

/* Has the answer the members that the operation needs? */
static bool answer_has(const struct smartrouter_answer *answer, const char *needs, bool must_be_text)
{
    char name[32];

    while (needs && *needs) {
        const size_t length = strcspn(needs, " ");
        const cJSON *item;

        snprintf(name, sizeof(name), "%.*s", (int)length, needs);
        item = cJSON_GetObjectItemCaseSensitive(answer->json, name);
        if (!item || cJSON_IsNull(item) || (must_be_text && !(cJSON_IsString(item) && *item->valuestring)))
            return false;
        needs += length + strspn(needs + length, " ");
    }
    return true;
}

static enum sr_class classify_success(const struct sr_request *request, struct smartrouter_answer *answer,
                                      bool is_object)
{
    if (request->needs && !*request->needs)
        return SR_DONE;
    if (is_object && request->may_lack_pods)
        answer_flatten(answer);
    if (is_object && answer_has(answer, request->needs, request->may_lack_pods))
        return SR_DONE;
    sr_answer_say(answer, "the answer to %s is not what it should be", request->operation);
    return SR_FAILED;
}

static enum sr_class classify(const struct sr_request *request, struct smartrouter_answer *answer)
{
    const bool is_object = sr_answer_parse(answer);
    const char *code = smartrouter_answer_text(answer, "code");

    if (answer->status == 202 && request->may_lack_pods && is_object)
        return SR_WAITING;
    if (answer->status / 100 == 2)
        return classify_success(request, answer, is_object);
    if (!*answer->error)
        sr_answer_say(answer, "HTTP status %d", answer->status);
    if (answer->status == 404)
        return SR_NOT_FOUND;
    if (answer->status / 100 == 4)
        return SR_REFUSED;
    if (answer->status == 503 && request->may_lack_pods && is_object &&
        !(code && strcmp(code, "unavailable") == 0))
        return SR_NO_PODS;
    return SR_FAILED;
}

/* May another try follow this one? A caller is on the line: only a short Retry-After is waited for. */
static bool may_repeat(const struct smartrouter_client *client, const struct attempt *attempt)
{
    const struct smartrouter_answer *answer = attempt->answer;

    if (answer->status == 503 || answer->status == 429)
        return answer->retry_after_ms != SR_RETRY_AFTER_NONE &&
               answer->retry_after_ms <= sr_setting_integer(client->settings, SR_TIMEOUT_MS);
    return attempt->class == SR_FAILED;
}

/* Tells a change of the breaker's state once for each client. */
static void breaker_notice(struct smartrouter_client *client, enum smartrouter_breaker_state state)
{
    static const char *const NAMES[] = {"closed", "open", "half_open"};

    if (atomic_exchange(&client->seen_state, (int)state) == (int)state)
        return;
    sr_metric(client, "breaker", "", NAMES[state], 1);
    if (state == SMARTROUTER_BREAKER_OPEN)
        sr_log(client, SMARTROUTER_LOG_WARN,
               "the circuit breaker is open: the router does not answer; calls get the fallback for %lld s",
               (long long)client->limits.open_ms / 1000);
    else
        sr_log(client, SMARTROUTER_LOG_INFO, "the circuit breaker is %s",
               state == SMARTROUTER_BREAKER_CLOSED ? "closed: the router answers"
                                                   : "half open: a few requests pass");
}

static double real_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void attempt_tell(struct smartrouter_client *client, const struct sr_request *request,
                         const struct attempt *attempt, double seconds)
{
    char outcome[16] = "none";

    if (attempt->answer->status > 0)
        snprintf(outcome, sizeof(outcome), "%d", attempt->answer->status);
    sr_metric(client, "request_seconds", request->operation, outcome, seconds);
    if (attempt->class == SR_FAILED)
        sr_log(client, SMARTROUTER_LOG_WARN, "%s failed: %s", request->operation, attempt->answer->error);
    else
        sr_log(client, SMARTROUTER_LOG_DEBUG, "%s: status %d", request->operation, attempt->answer->status);
}

static void attempt_send(struct smartrouter_client *client, const struct sr_request *request,
                         const struct message *message, struct attempt *attempt)
{
    const struct sr_exchange exchange = {
        .method = request->method,
        .path = request->path,
        .body = message->body,
        .traceparent = message->traceparent,
        .authorization = client->authorization,
        .timeout_ms = sr_setting_integer(client->settings, SR_TIMEOUT_MS) + request->longer_ms,
        .is_cancelled = request->is_cancelled,
    };
    const double started = real_seconds();

    attempt->may_have_arrived = false;
    if (client->transport(client->transport_arg, &exchange, attempt->answer, &attempt->may_have_arrived)) {
        attempt->class = classify(request, attempt->answer);
        attempt->may_have_arrived = attempt->class == SR_FAILED;
    } else {
        attempt->class = SR_FAILED;
    }
    attempt->may_repeat = may_repeat(client, attempt);
    attempt_tell(client, request, attempt, real_seconds() - started);
}

/* One try, if the breaker lets it through. */
static void attempt_make(struct smartrouter_client *client, const struct sr_request *request,
                         const struct message *message, struct attempt *attempt)
{
    struct sr_permit permit;
    enum sr_verdict verdict;

    *attempt = (struct attempt){.answer = sr_answer_new(), .class = SR_NO_MEMORY};
    if (!attempt->answer)
        return;
    if (request->is_unguarded) {
        attempt_send(client, request, message, attempt);
        return;
    }
    if (!sr_breaker_admit(client->breaker, &client->limits, sr_now_ms(client), &permit)) {
        attempt->class = SR_BREAKER_OPEN;
        sr_answer_say(attempt->answer, "the circuit breaker is open");
        return;
    }
    attempt_send(client, request, message, attempt);
    verdict = attempt->class != SR_FAILED                                   ? SR_SUCCESS
              : request->is_cancelled && atomic_load(request->is_cancelled) ? SR_UNKNOWN
                                                                            : SR_FAILURE;
    breaker_notice(client,
                   sr_breaker_judge(client->breaker, &client->limits, sr_now_ms(client), permit, verdict));
}

static void wait_before_next(const struct smartrouter_client *client, const struct attempt *attempt,
                             int number)
{
    const struct sr_hooks *hooks = &client->settings->hooks;
    const struct smartrouter_answer *answer = attempt->answer;
    int64_t wait_ms = (int64_t)SR_TRY_FIRST_MS << (number < 16 ? number - 1 : 15);
    struct timespec left;

    if ((answer->status == 503 || answer->status == 429) && answer->retry_after_ms > wait_ms)
        wait_ms = answer->retry_after_ms;
    wait_ms = sr_jittered_ms(client, wait_ms);
    if (hooks->sleep) {
        hooks->sleep(hooks->sleep_arg, wait_ms);
        return;
    }
    left.tv_sec = wait_ms / 1000;
    left.tv_nsec = wait_ms % 1000 * 1000000;
    while (nanosleep(&left, &left) < 0)
        continue;
}

static enum sr_class ask(struct smartrouter_client *client, const struct sr_request *request,
                         const struct message *message, struct smartrouter_answer **ret_answer,
                         bool *ret_may_have_arrived)
{
    const int tries =
        request->tries ? request->tries : (int)sr_setting_integer(client->settings, SR_RETRY_ATTEMPTS);
    struct attempt attempt = {.class = SR_NO_MEMORY};

    for (int number = 1; number <= tries; number++) {
        struct attempt next;

        if (number > 1)
            wait_before_next(client, &attempt, number - 1);
        attempt_make(client, request, message, &next);
        /* A breaker that opens between two tries ends the operation with what the last try brought. */
        if (number > 1 && (next.class == SR_BREAKER_OPEN || next.class == SR_NO_MEMORY)) {
            smartrouter_answer_free(next.answer);
            break;
        }
        smartrouter_answer_free(attempt.answer);
        attempt = next;
        *ret_may_have_arrived |= attempt.may_have_arrived;
        if (!attempt.may_repeat || (request->is_cancelled && atomic_load(request->is_cancelled)))
            break;
        if (!request->is_unguarded && number < tries &&
            smartrouter_breaker(client) == SMARTROUTER_BREAKER_OPEN)
            break;
    }
    *ret_answer = attempt.answer;
    return attempt.class;
}

enum sr_class sr_ask(struct smartrouter_client *client, const struct sr_request *request,
                     struct smartrouter_answer **ret_answer, bool *ret_may_have_arrived)
{
    struct message message = {.body = request->body ? cJSON_PrintUnformatted(request->body) : NULL};
    bool may_have_arrived = false;
    enum sr_class class = SR_NO_MEMORY;

    *ret_answer = NULL;
    sr_traceparent_find(client, request->traceparent, message.traceparent);
    if (message.body || !request->body)
        class = ask(client, request, &message, ret_answer, &may_have_arrived);
    cJSON_free(message.body);
    if (ret_may_have_arrived)
        *ret_may_have_arrived = may_have_arrived;
    return class;
}

enum smartrouter_result sr_result_of(enum sr_class class)
{
    switch (class) {
    case SR_DONE:
        return SMARTROUTER_OK;
    case SR_NOT_FOUND:
        return SMARTROUTER_NOT_FOUND;
    case SR_REFUSED:
        return SMARTROUTER_REFUSED;
    case SR_NO_PODS:
    case SR_WAITING:
    case SR_STOPPED:
    case SR_ENDED:
    case SR_FAILED:
        return SMARTROUTER_UNAVAILABLE;
    case SR_BREAKER_OPEN:
        return SMARTROUTER_BREAKER;
    case SR_NO_MEMORY:
        return SMARTROUTER_NO_MEMORY;
    }
    return SMARTROUTER_UNAVAILABLE;
}

enum smartrouter_result sr_ask_result(struct smartrouter_client *client, const struct sr_request *request,
                                      struct smartrouter_answer **ret_answer)
{
    struct smartrouter_answer *answer;
    const enum smartrouter_result result = sr_result_of(sr_ask(client, request, &answer, NULL));

    if (ret_answer)
        *ret_answer = answer;
    else
        smartrouter_answer_free(answer);
    return result;
}
