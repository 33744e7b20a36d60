/*
 * answer.c - what the router answered to one request, and the getters of its members.
 */
#include "answer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct smartrouter_answer *sr_answer_new(void)
{
    struct smartrouter_answer *answer = calloc(1, sizeof(*answer));

    if (answer)
        answer->retry_after_ms = SR_RETRY_AFTER_NONE;
    return answer;
}

struct smartrouter_answer *smartrouter_answer_free(struct smartrouter_answer *answer)
{
    if (answer) {
        cJSON_Delete(answer->json);
        free(answer->body);
        free(answer);
    }
    return NULL;
}

void sr_answer_say(struct smartrouter_answer *answer, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(answer->error, sizeof(answer->error), format, args);
    va_end(args);
    for (char *at = answer->error; *at; at++)
        if ((unsigned char)*at < 0x20)
            *at = ' ';
}

bool sr_answer_parse(struct smartrouter_answer *answer)
{
    const char *error;

    cJSON_Delete(answer->json);
    answer->json = answer->body ? cJSON_Parse(answer->body) : NULL;
    if (!cJSON_IsObject(answer->json)) {
        cJSON_Delete(answer->json);
        answer->json = NULL;
        return false;
    }
    error = smartrouter_answer_text(answer, "error");
    if (error)
        sr_answer_say(answer, "%s", error);
    return true;
}

static bool make_room(struct smartrouter_answer *answer, const char *name)
{
    if (!answer->json)
        answer->json = cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(answer->json, name);
    return answer->json != NULL;
}

void sr_answer_put_text(struct smartrouter_answer *answer, const char *name, const char *text)
{
    if (make_room(answer, name))
        cJSON_AddStringToObject(answer->json, name, text);
}

void sr_answer_put_number(struct smartrouter_answer *answer, const char *name, double number)
{
    if (make_room(answer, name))
        cJSON_AddNumberToObject(answer->json, name, number);
}

static const cJSON *member(const struct smartrouter_answer *answer, const char *name)
{
    return answer ? cJSON_GetObjectItemCaseSensitive(answer->json, name) : NULL;
}

int smartrouter_answer_status(const struct smartrouter_answer *answer)
{
    return answer ? answer->status : 0;
}

const char *smartrouter_answer_error(const struct smartrouter_answer *answer)
{
    return answer ? answer->error : "";
}

const char *smartrouter_answer_json(const struct smartrouter_answer *answer)
{
    return answer && answer->body ? answer->body : "";
}

const char *smartrouter_answer_text(const struct smartrouter_answer *answer, const char *name)
{
    return cJSON_GetStringValue(member(answer, name));
}

bool smartrouter_answer_flag(const struct smartrouter_answer *answer, const char *name)
{
    return cJSON_IsTrue(member(answer, name));
}

double smartrouter_answer_number(const struct smartrouter_answer *answer, const char *name)
{
    const cJSON *item = member(answer, name);

    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

size_t smartrouter_answer_count(const struct smartrouter_answer *answer, const char *name)
{
    const cJSON *list = member(answer, name);

    return cJSON_IsArray(list) ? (size_t)cJSON_GetArraySize(list) : 0;
}

const char *smartrouter_answer_item(const struct smartrouter_answer *answer, const char *name, size_t index)
{
    const cJSON *list = member(answer, name);

    if (!cJSON_IsArray(list) || index >= (size_t)cJSON_GetArraySize(list))
        return NULL;
    return cJSON_GetStringValue(cJSON_GetArrayItem(list, (int)index));
}
