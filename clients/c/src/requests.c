/*
 * requests.c - the requests about pods, and status and health.
 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_MAX_SIZE = 160,
    DRAINED_WAIT_MAX_S = 60,
    TTL_MAX_S = 604800,
};

/* Sends a body that this function frees; NULL: no memory for it. */
static enum smartrouter_result send_body(struct smartrouter_client *client, struct sr_request *request,
                                         cJSON *body, struct smartrouter_answer **ret_answer)
{
    enum smartrouter_result result = SMARTROUTER_NO_MEMORY;

    if (ret_answer)
        *ret_answer = NULL;
    request->body = body;
    if (body)
        result = sr_ask_result(client, request, ret_answer);
    cJSON_Delete(body);
    return result;
}

static enum smartrouter_result refuse(struct smartrouter_answer **ret_answer)
{
    if (ret_answer)
        *ret_answer = NULL;
    return SMARTROUTER_INVALID;
}

static bool put(cJSON *body, const char *name, const char *text)
{
    return !text || cJSON_AddStringToObject(body, name, text);
}

/* An object with the list; NULL: no memory. */
static cJSON *list_of(const char *const *call_sids, size_t count)
{
    cJSON *body = cJSON_CreateObject(), *list;

    if (body) {
        list = count > 0 ? cJSON_CreateStringArray(call_sids, (int)count) : cJSON_CreateArray();
        if (list && cJSON_AddItemToObject(body, "call_sids", list))
            return body;
        cJSON_Delete(list);
    }
    cJSON_Delete(body);
    return NULL;
}

static bool are_call_sids(const char *const *call_sids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!sr_is_call_sid(call_sids[i]))
            return false;
    return count <= SR_CALLS_MAX;
}

enum smartrouter_result smartrouter_renew(struct smartrouter_client *client, const char *const *call_sids,
                                          size_t count, struct smartrouter_answer **ret_answer)
{
    struct sr_request request = {
        .operation = "renew", .method = "POST", .path = "/api/v1/renew", .needs = "renewed", .tries = 1};

    if (count == 0 || !are_call_sids(call_sids, count))
        return refuse(ret_answer);
    return send_body(client, &request, list_of(call_sids, count), ret_answer);
}

enum smartrouter_result smartrouter_heartbeat(struct smartrouter_client *client, const char *pod_name,
                                              const char *const *call_sids, size_t count,
                                              struct smartrouter_answer **ret_answer)
{
    char path[PATH_MAX_SIZE];
    struct sr_request request = {
        .operation = "heartbeat", .method = "POST", .path = path, .needs = "renewed", .tries = 1};

    if (!sr_is_pod_name(pod_name) || !are_call_sids(call_sids, count))
        return refuse(ret_answer);
    snprintf(path, sizeof(path), "/api/v1/pod/%s/heartbeat", pod_name);
    return send_body(client, &request, list_of(call_sids, count), ret_answer);
}

enum smartrouter_result smartrouter_register(struct smartrouter_client *client, const char *pod_name,
                                             const char *address, const char *incarnation, const char *tier,
                                             struct smartrouter_answer **ret_answer)
{
    struct sr_request request = {.operation = "register", .method = "POST", .path = "/api/v1/pods"};
    cJSON *body;

    if (!sr_is_pod_name(pod_name) || !address || !*address || !incarnation || !*incarnation)
        return refuse(ret_answer);
    body = cJSON_CreateObject();
    if (!body || !put(body, "pod_name", pod_name) || !put(body, "address", address) ||
        !put(body, "incarnation", incarnation) || !put(body, "tier", tier)) {
        cJSON_Delete(body);
        body = NULL;
    }
    return send_body(client, &request, body, ret_answer);
}

enum smartrouter_result smartrouter_remove(struct smartrouter_client *client, const char *pod_name,
                                           struct smartrouter_answer **ret_answer)
{
    char path[PATH_MAX_SIZE];
    const struct sr_request request = {.operation = "remove", .method = "DELETE", .path = path};
    enum smartrouter_result result;

    if (!sr_is_pod_name(pod_name))
        return refuse(ret_answer);
    snprintf(path, sizeof(path), "/api/v1/pod/%s", pod_name);
    result = sr_ask_result(client, &request, ret_answer);
    return result == SMARTROUTER_NOT_FOUND ? SMARTROUTER_OK : result;
}

/* The body of a drain and of an undrain. */
static cJSON *pod_body(const char *pod_name, int ttl_s)
{
    cJSON *body = cJSON_CreateObject();

    if (body && put(body, "pod_name", pod_name) &&
        (ttl_s < 0 || cJSON_AddNumberToObject(body, "ttl_seconds", ttl_s)))
        return body;
    cJSON_Delete(body);
    return NULL;
}

enum smartrouter_result smartrouter_drain(struct smartrouter_client *client, const char *pod_name, int ttl_s,
                                          struct smartrouter_answer **ret_answer)
{
    struct sr_request request = {.operation = "drain", .method = "POST", .path = "/api/v1/drain"};

    if (!sr_is_pod_name(pod_name) || ttl_s < -1 || ttl_s > TTL_MAX_S)
        return refuse(ret_answer);
    return send_body(client, &request, pod_body(pod_name, ttl_s), ret_answer);
}

enum smartrouter_result smartrouter_undrain(struct smartrouter_client *client, const char *pod_name,
                                            struct smartrouter_answer **ret_answer)
{
    struct sr_request request = {.operation = "undrain", .method = "POST", .path = "/api/v1/undrain"};

    if (!sr_is_pod_name(pod_name))
        return refuse(ret_answer);
    return send_body(client, &request, pod_body(pod_name, -1), ret_answer);
}

enum smartrouter_result sr_drained(struct smartrouter_client *client, const char *pod_name, int wait_s,
                                   atomic_bool *is_cancelled, struct smartrouter_answer **ret_answer)
{
    char path[PATH_MAX_SIZE];
    const struct sr_request request = {.operation = "drained",
                                       .method = "GET",
                                       .path = path,
                                       .needs = "is_drained",
                                       .longer_ms = 1000 * (int64_t)wait_s,
                                       .is_cancelled = is_cancelled};
    struct smartrouter_answer *answer = NULL;
    enum smartrouter_result result;

    if (!sr_is_pod_name(pod_name) || wait_s < 0 || wait_s > DRAINED_WAIT_MAX_S)
        return refuse(ret_answer);
    snprintf(path, sizeof(path), "/api/v1/pod/%s/drained?timeout_seconds=%d", pod_name, wait_s);
    result = sr_ask_result(client, &request, &answer);
    if (result == SMARTROUTER_OK && !smartrouter_answer_flag(answer, "is_drained"))
        result = SMARTROUTER_NOT_DRAINED;
    if (ret_answer)
        *ret_answer = answer;
    else
        smartrouter_answer_free(answer);
    return result;
}

enum smartrouter_result smartrouter_drained(struct smartrouter_client *client, const char *pod_name,
                                            int wait_s, struct smartrouter_answer **ret_answer)
{
    return sr_drained(client, pod_name, wait_s, NULL, ret_answer);
}

enum smartrouter_result smartrouter_status(struct smartrouter_client *client,
                                           struct smartrouter_answer **ret_answer)
{
    const struct sr_request request = {.operation = "status", .method = "GET", .path = "/api/v1/status"};

    return sr_ask_result(client, &request, ret_answer);
}

enum smartrouter_result smartrouter_health(struct smartrouter_client *client,
                                           struct smartrouter_answer **ret_answer)
{
    const struct sr_request request = {.operation = "health",
                                       .method = "GET",
                                       .path = "/health",
                                       .needs = "",
                                       .tries = 1,
                                       .is_unguarded = true};
    const enum smartrouter_result result = sr_ask_result(client, &request, ret_answer);

    return result == SMARTROUTER_OK || result == SMARTROUTER_NO_MEMORY ? result : SMARTROUTER_UNAVAILABLE;
}
