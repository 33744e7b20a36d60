/*
 * params.h - reads and validates the parameters of a request: JSON members, fields of a form or of
 * the query.
 *
 * Only parameters that the route's row in routes.c lists may be read: that is asserted.
 *
 * The first thing that is wrong is remembered as a sentence for the client, and what is asked
 * afterwards is empty: read everything, then look at `error` once. All texts live in the request's
 * arena.
 */
#ifndef API_PARAMS_H
#define API_PARAMS_H

#include "base/json.h"
#include "http/form.h"
#include "http/http.h"

struct params {
    struct arena *arena;
    const struct http_route *route; /* its row lists what may be read */
    const cJSON *json;              /* NULL: the body is not read as JSON */
    struct form form;               /* the body as a form; empty if it is not read as one */
    struct form query;
    bool query_first;  /* where a name is in both, the query wins; else the body does */
    const char *error; /* NULL: nothing is wrong so far */
};

/* Reads the body as a JSON object, whatever its content type says. */
void params_read_json(struct params *params, struct http_request *request);
/* Reads the query only. */
void params_read_query(struct params *params, struct http_request *request);
/* Reads the query, and the body as a form, or as a JSON object if `takes_json` and it looks like one. */
void params_read_webhook(struct params *params, struct http_request *request, bool takes_json);

/* Remembers what is wrong, unless something is already. */
void params_fail(struct params *params, const char *format, ...) PRINTF_LIKE(2, 3);

/* The text of that name; NULL if it is absent or null. Wrong: anything but a string, a NUL in it. */
const char *params_text(struct params *params, const char *name);

/* Required: a call_sid. NULL if it is wrong. */
const char *params_call_sid(struct params *params, const char *name);
/*
 * merchant_id, or reseller_id, its other name; "" if there is none. What comes first, the query or the body,
 * wins, whichever of the two names it uses.
 */
const char *params_merchant(struct params *params);
/* Required: pod_name. NULL if it is wrong. */
const char *params_pod_name(struct params *params);
/* The same where it may be left out: NULL. */
const char *params_pod_name_if_given(struct params *params);
/* Required: address. NULL if it is wrong. */
const char *params_address(struct params *params);
/* A text of at most API_TEXT_MAX bytes without control characters; `otherwise` if absent or empty. */
const char *params_label(struct params *params, const char *name, const char *otherwise);
/* A whole number from `min` to `max`, in a JSON body or in the query; `otherwise` if absent. */
uint64_t params_number(struct params *params, const char *name, uint64_t min, uint64_t max,
                       uint64_t otherwise);
/* true or false in a JSON body; *ret_is_given: it is there. False if absent. */
bool params_boolean(struct params *params, const char *name, bool *ret_is_given);
/* A duration such as "10m", or a whole number of seconds, in milliseconds; 0 if absent. */
uint64_t params_duration(struct params *params, const char *name);
/* One of the `count` words that `name_of` gives, as its number; -1 if absent. */
int params_word(struct params *params, const char *name, const char *(*name_of)(int word), int count);
/* The name of a pod or of a merchant, for a filter; NULL if absent. */
const char *params_pod_filter(struct params *params, const char *name);
const char *params_merchant_filter(struct params *params, const char *name);
/* A JSON array of at most SIDS_MAX call_sids. False: it is absent or wrong; the caller says if it may be. */
bool params_call_sids(struct params *params, const char *name, const char *const **ret_sids,
                      size_t *ret_count);

/* Wrong: a text that becomes part of a URL's path, and leads elsewhere in it: "." or "..". NULL is fine. */
void params_check_segment(struct params *params, const char *name, const char *text);

/* What is wrong with a name that came in the path; NULL: nothing. */
const char *params_check_call_sid(const char *text);
const char *params_check_pod(const char *text);
const char *params_check_merchant(const char *text);

#endif
