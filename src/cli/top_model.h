/*
 * top_model.h - the data of `smart-router top` as plain structs: pools, pods, calls, events and the line;
 * which rows pass the filter, in which order, and which one is selected.
 *
 * No I/O, no clock, no terminal. top_parse.c and top_fetch.c fill it, top_keys.c changes what is shown, and
 * top_draw.c draws it. Texts are kept as the router sent them; top_draw.c makes them safe for a terminal.
 */
#ifndef CLI_TOP_MODEL_H
#define CLI_TOP_MODEL_H

#include "base/arena.h"
#include "base/base.h"

enum {
    TOP_ROWS_MAX = 100 * 1000, /* of a list; further ones are left out, and the screen says so */
    TOP_EVENTS_MAX = 1000,     /* the oldest go */
    TOP_FILTER_MAX = 63,
    TOP_NAME_MAX = 255, /* longer than any name that the API accepts */
    TOP_TEXT_MAX = 511, /* a message, an error */
};

enum top_view {
    TOP_POOLS,
    TOP_PODS,
    TOP_CALLS,
    TOP_EVENTS,
    TOP_WAITING,
    TOP_VIEWS, /* how many */
};

/* ---- rows: each begins with its key, the name that it is found again by ---- */

struct top_pool {
    const char *name;
    const char *type;
    uint64_t assigned;
    uint64_t available;
    uint64_t busy;
    uint64_t draining;
    uint64_t suspended;
    uint64_t calls;
    uint64_t capacity;
    uint64_t waiting; /* calls whose chain begins here */
};

struct top_pod {
    const char *name;
    const char *tier;
    const char *state;
    uint64_t calls;
    uint64_t heartbeat_ms; /* wall clock; 0: never */
    uint64_t until_ms;     /* the end of its drain; 0: it does not drain; UINT64_MAX: there is no end */
};

struct top_call {
    const char *sid;
    const char *pod;
    const char *pool;
    const char *merchant;
    const char *provider;
    const char *state;
    uint64_t allocated_ms;
};

struct top_waiter {
    const char *sid;
    const char *merchant;
    const char *provider;
    const char *pools;
    const char *state;
    uint64_t position; /* the best of its places in the lines of its pools: several calls may have the same */
    uint64_t place;    /* in the whole line */
    uint64_t priority;
    uint64_t waited_ms;
    uint64_t until_ms; /* wall clock; 0: not known */
};

struct top_event {
    const char *key; /* top_add_event makes it */
    const char *kind;
    const char *call;
    const char *pod;
    const char *detail;
    uint64_t time_ms;
};

/* ---- columns: what is known of a member of a row. top_columns.c has them ---- */

enum top_kind {
    TOP_TEXT,  /* const char * */
    TOP_STATE, /* const char *: the state of a pod or a call, which has a colour and a weight */
    TOP_COUNT, /* uint64_t */
    TOP_ALARM, /* uint64_t: a count that should be 0 */
    TOP_TIME,  /* uint64_t: milliseconds */
    TOP_PLACE, /* the position of a struct top_waiter, and its place */
    TOP_AGE,   /* uint64_t: wall clock; 0: never */
    TOP_CLOCK, /* uint64_t: wall clock */
    TOP_UNTIL, /* uint64_t: as until_ms of a pod */
    TOP_BAR,   /* the calls of a struct top_pool and their limit */
};

struct top_column {
    const char *title;
    enum top_kind kind;
    size_t offset;   /* of the member */
    unsigned width;  /* at least */
    unsigned weight; /* its part of the room that is left */
};

struct top_columns {
    const char *title; /* of the view */
    const struct top_column *columns;
    size_t len;
    size_t sort; /* the column that sorts at first */
};

const struct top_columns *top_columns(enum top_view view);

/* Negative, 0, positive: `a` before `b` in the column's natural order, in which what matters most is first.
 */
int top_compare(const struct top_column *column, const void *a, const void *b);

/* Does a text of the row contain `filter`, whatever the case? */
bool top_matches(const struct top_columns *columns, const void *row, const char *filter);

/* The text of a cell; not of a TOP_BAR. It may have any bytes of a name in it. */
void top_cell(const struct top_column *column, const void *row, uint64_t wall_ms, char *text, size_t size);

/* "42s", "3m12s", "2h05m", "3d04h". */
void top_format_age(uint64_t ms, char *text, size_t size);

/* ---- lists ---- */

/* Rows with all their texts. */
struct top_rows {
    struct arena arena;
    const void **rows;
    size_t len;
    size_t room;
    bool is_cut; /* there was no room for all */
};

struct top_list {
    struct top_rows shown;
    struct top_rows next; /* a load that is not complete yet */
    bool is_loaded;       /* `shown` has had a complete load; before that `next` is shown as it grows */
    bool is_stale;        /* the last load failed; `error` says why */
    char error[TOP_TEXT_MAX + 1];

    const void **visible; /* those that pass the filter, sorted: top_refresh */
    size_t visible_len;
    size_t visible_room;
    bool is_dirty;

    size_t sort; /* a column */
    bool is_reversed;
    char filter[TOP_FILTER_MAX + 1];

    size_t cursor;                   /* of the visible ones */
    size_t first;                    /* the first one on the screen */
    bool is_following;               /* the cursor stays with `selected`, else with its place */
    char selected[TOP_NAME_MAX + 1]; /* the key of the row under the cursor */
};

struct top_status {
    char identity[TOP_NAME_MAX + 1];
    char leader[TOP_NAME_MAX + 1];
    char version[64];
    char store[16];
    bool is_leader;
    bool is_up;
    uint64_t pods;
    uint64_t active_calls;
    uint64_t waiting;
    uint64_t uptime_s;
};

enum top_link {
    TOP_CONNECTING, /* there was no answer yet, and no failure */
    TOP_ANSWERS,
    TOP_AWAY,
};

enum top_mode {
    TOP_NORMAL,
    TOP_FILTERING, /* keys change the filter */
    TOP_CONFIRM,   /* y or n */
    TOP_HELP,
};

enum top_action {
    TOP_DRAIN,
    TOP_UNDRAIN,
    TOP_RELEASE,
};

/* Something that changes the router's state, and is asked about first. */
struct top_request {
    enum top_action action;
    char name[TOP_NAME_MAX + 1]; /* the pod, or the call */
    char pod[TOP_NAME_MAX + 1];  /* of the call; "": it waits for one */
};

struct top_model {
    char url[TOP_TEXT_MAX + 1];
    enum top_view view;
    enum top_mode mode;
    struct top_list lists[TOP_VIEWS];
    size_t page;       /* rows on the screen, as it was drawn last */
    bool is_too_small; /* the screen; then nobody sees what a key would do */

    struct top_status status;
    bool has_status;
    enum top_link link;
    uint64_t answered_ms; /* clock_elapsed_ms of the last good answer */
    uint64_t away_ms;     /* wall clock of this machine: since then there is none */
    char link_error[TOP_TEXT_MAX + 1];
    int64_t clock_ahead_ms; /* the router's clock minus ours */

    bool has_events; /* the stream is open */
    char events_error[TOP_TEXT_MAX + 1];
    uint64_t events_count;

    struct top_request request; /* what TOP_CONFIRM asks about */
    char message[TOP_TEXT_MAX + 1];
    bool is_message_bad;

    uint64_t version; /* changes with everything that is drawn */
};

void top_model_init(struct top_model *model, const char *url);
void top_model_release(struct top_model *model);

/* ---- filling ---- */

/*
 * A load: begin, add rows, commit. What was shown before stays until the commit; only the very first load is
 * shown as it grows, page by page.
 */
void top_load_begin(struct top_model *model, enum top_view view);
void top_load_page(struct top_model *model, enum top_view view);
void top_load_commit(struct top_model *model, enum top_view view);

/* The load did not come to its end: the old rows stay and are marked. */
void top_load_failed(struct top_model *model, enum top_view view, const char *error);

/* Copy the row with its texts. 0, or -ENOSPC: the list is full, and is marked as cut. */
int top_add_pool(struct top_model *model, const struct top_pool *pool);
int top_add_pod(struct top_model *model, const struct top_pod *pod);
int top_add_call(struct top_model *model, const struct top_call *call);
/* Its place is behind those that were added before it. */
int top_add_waiter(struct top_model *model, const struct top_waiter *waiter);

/* Shown at once. Without memory the event is lost. */
void top_add_event(struct top_model *model, const struct top_event *event);

void top_say(struct top_model *model, bool is_bad, const char *format, ...) PRINTF_LIKE(3, 4);

/* ---- what is shown ---- */

/* Pods, calls and the line are lists of their own, which are asked for while they are shown. */
bool top_has_pages(enum top_view view);

/* Filters and sorts again if something has changed, and finds the selected row again. */
void top_refresh(struct top_model *model, enum top_view view);

/* The row under the cursor, or NULL. It is valid until the next change of the model. */
const void *top_selected(struct top_model *model, enum top_view view);

/* Moves the cursor by so many rows. Back on the first row with `is_home`: it stays there, whatever sorts
 * there. */
void top_move(struct top_model *model, int64_t by, bool is_home);

void top_sort(struct top_model *model, size_t column, bool is_reversed);
void top_filter(struct top_model *model, const char *filter);

/* How many rows the list has, whatever the filter. */
size_t top_total(const struct top_list *list);

/* Is what the list shows older than it should be? */
bool top_is_old(const struct top_model *model, enum top_view view);

#endif
