/*
 * reference.h - the texts of the API reference: what each route does and answers, and the objects in
 * its answers.
 *
 * The routing table (routes.c) says which routes there are, with their parameters and roles. This
 * adds words and types. openapi.c makes the document of both; docs/API.md is made of that document.
 * A route, a parameter or an object without its text fails test/unit/test_reference.c by name.
 *
 * A type is a text:
 *   string, integer, number, boolean      a value
 *   time                                  a string: "2026-02-08T10:00:00Z"
 *   null                                  null
 *   any                                   any value
 *   a|b|c                                 one of these words
 *   [T]                                   an array of T
 *   {T}                                   an object with any keys and values of T
 *   T or U                                either
 *   Name                                  an object of reference_objects
 *
 * Internal to the module.
 */
#ifndef API_REFERENCE_H
#define API_REFERENCE_H

#include "api/routes.h"

enum reference_group {
    GROUP_CALLS,
    GROUP_PODS,
    GROUP_CONFIGURATION,
    GROUP_MONITORING,
    GROUP_PROVIDERS,
    REFERENCE_GROUPS,
};

/* One status that a route answers with. */
struct reference_answer {
    int status; /* 0: the end of the list */
    const char *about;
    const char *type;  /* NULL: Error if the status is 400 or more */
    const char *media; /* NULL: application/json */
};

/*
 * All rows with the same handler share one entry. Answers that follow from the row itself (401, 413
 * and so on, see openapi.c) stand here only if there is more to say about them.
 */
struct reference_entry {
    http_handler_fn handler;
    const char *name; /* the operationId: a name for functions of generated clients */
    enum reference_group group;
    bool is_body_optional;
    bool takes_json; /* fields of a form may come as a JSON object, too */
    const char *about;
    const char *document; /* the type of a parameter of the kind ROUTE_DOCUMENT; NULL: there is none */
    const char *provider; /* the security scheme of a webhook; NULL: it is none */
    struct reference_answer answers[6];
};

struct reference_param {
    const char *name;
    http_handler_fn handler; /* NULL: the name means the same everywhere */
    const char *about;
    bool is_in_query; /* a field of ROUTE_IN_FORM that is not read from the body */
};

struct reference_member {
    const char *name; /* NULL: the end of the list */
    const char *type;
    const char *about;
    bool is_optional;
};

/* An object with `members`, or another name for `type`, which `pattern` may narrow. */
struct reference_object {
    const char *name;
    const char *about;
    const struct reference_member *members;
    const char *type;
    const char *pattern;
};

extern const struct reference_entry reference_entries[];
extern const size_t reference_entries_count;
extern const struct reference_param reference_params[];
extern const size_t reference_params_count;
extern const struct reference_object reference_objects[];
extern const size_t reference_objects_count;

/* NULL: there is none. */
const struct reference_entry *reference_entry_of(http_handler_fn handler);
const struct reference_param *reference_param_of(http_handler_fn handler, const char *name);
const struct reference_object *reference_object_of(const char *name, size_t len);

const char *reference_group_name(enum reference_group group);

/* The object that `of` of a parameter stands for ("pod": PodName); NULL: there is none. */
const char *reference_type_of_name(const char *of);

#endif
