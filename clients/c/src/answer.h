/*
 * answer.h - what the router answered to one request.
 */
#ifndef SR_ANSWER_H
#define SR_ANSWER_H

#include "smartrouter.h"

#include <cjson/cJSON.h>

enum {
    SR_ANSWER_ERROR_MAX = 256,
    SR_RETRY_AFTER_NONE = -1,
};

struct smartrouter_answer {
    int status;             /* of HTTP; 0: there was no answer */
    int64_t retry_after_ms; /* or SR_RETRY_AFTER_NONE */
    char *body;             /* NULL: none */
    cJSON *json;            /* an object; NULL: there is none */
    char error[SR_ANSWER_ERROR_MAX];
};

/* NULL: no memory. */
struct smartrouter_answer *sr_answer_new(void);

/* Parses the body. false: it is no JSON object. */
bool sr_answer_parse(struct smartrouter_answer *answer);

/* Sets a text member, for answers that are not the router's alone. Does nothing without memory. */
void sr_answer_put_text(struct smartrouter_answer *answer, const char *name, const char *text);

/* The same for a number. */
void sr_answer_put_number(struct smartrouter_answer *answer, const char *name, double number);

void sr_answer_say(struct smartrouter_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
