/*
 * view.h - what the commands share that show or change something: they ask, they print JSON or a text, and
 * they do it again with --watch.
 *
 * A function that returns an exit status other than EXIT_OK has printed the reason.
 */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include "base/json.h"
#include "cli/client.h"
#include "cli/table.h"

struct view {
    const struct cli_options *options;
    struct client *client;
    struct terminal terminal;
    struct arena arena; /* of the last answer */
    struct strbuf out;  /* what is shown */
    struct strbuf path; /* for view_path */
    bool takes_any;     /* an answer need not be an object, nor JSON: what is stored may be any text */
    bool is_json;       /* --json: the answers are in `out` already, and nothing else belongs there */
    bool is_done;       /* the picture is whole although the status is not EXIT_OK: a watch goes on */
    bool is_away;       /* the router cannot answer now, but perhaps later */
};

/* Fills view->out. It may be called many times. */
typedef int (*view_fn)(struct view *view);

/* Runs `fn` once, or with --watch again and again, and prints what it shows. Returns the exit status. */
int view_run(const struct cli_options *options, view_fn fn);

/*
 * Begins a path: view_path(view, "/api/v1/pod/", name) escapes the name, which may be NULL. view_query adds a
 * parameter of the query, unless `value` is NULL.
 */
void view_path(struct view *view, const char *path, const char *name);
void view_query(struct view *view, const char *name, const char *value);

/*
 * Asks for view->path. EXIT_OK: the answer is 2xx, and *ret_json is its tree, valid until the next question.
 * `ret_json` may also get the tree of a refusal: it is NULL if there is none.
 */
int view_ask(struct view *view, const char *method, const char *json, cJSON **ret_json) MUST_CHECK;
int view_get(struct view *view, cJSON **ret_json) MUST_CHECK;

/* view_ask for `path` with the body that `write` has made; see view_body. */
void view_body(struct view *view, struct strbuf *body, struct json_writer *json);

/* Asks for all pages of a list at view->path, and calls `fn` with the tree of each. */
typedef void (*view_page_fn)(void *arg, const cJSON *page);
int view_pages(struct view *view, view_page_fn fn, void *arg) MUST_CHECK;

/* Appends to view->out: a text that is safe, one that may not be, and a table. */
void view_text(struct view *view, enum colour colour, const char *text);
void view_safe(struct view *view, const char *text);
void view_table(struct view *view, struct table *table);
/* A line "name      text" with the name in a column of its own. */
void view_field(struct view *view, const char *name, const char *text);

/* Members of answers; 0, false and NULL if they are absent or of another type. */
const cJSON *member(const cJSON *object, const char *name);
uint64_t member_u64(const cJSON *object, const char *name);
bool member_is_true(const cJSON *object, const char *name);

/* The colour of the state of a pod or a call. */
enum colour view_colour_of_state(const char *state);

#endif
