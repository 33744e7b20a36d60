/*
 * top_parse.h - reads the router's answers into the model of `smart-router top`.
 *
 * Answers come from outside: members that are missing or of another type are taken as empty, and an answer
 * that is no JSON object is refused. No I/O.
 */
#ifndef CLI_TOP_PARSE_H
#define CLI_TOP_PARSE_H

#include "base/strbuf.h"
#include "cli/top_model.h"

/* GET /api/v1/status, into the head and the pools. 0, or -EINVAL: it is no such answer. */
int top_parse_status(struct top_model *model, struct slice body) MUST_CHECK;

/*
 * A page of GET /api/v1/pods, /api/v1/calls or /api/v1/waiting, added to the load of that view. `cursor`
 * becomes that of the next page, and is empty behind the last one, or if the list is full. 0, or -EINVAL: it
 * is no such answer.
 */
int top_parse_page(struct top_model *model, enum top_view view, struct slice body,
                   struct strbuf *cursor) MUST_CHECK;

/* The list of a view in its pages, which is also the end of their path: "pods", "calls", "waiting". */
const char *top_parse_member(enum top_view view);

/* The data of one event. `wall_ms` is the time of an event that has none. Anything else is left out. */
void top_parse_event(struct top_model *model, struct slice data, uint64_t wall_ms);

/* What became of the request that the operator confirmed, as a message. */
void top_parse_answer(struct top_model *model, const struct top_request *request, int status,
                      struct slice body);

/* "error" of a refusal, with the status. */
void top_parse_refusal(int status, struct slice body, char *text, size_t size);

/* "2026-02-08T10:00:00.123Z"; 0: something else. */
uint64_t top_parse_time(const char *text);

#endif
