/*
 * top_model.c - keeps the rows of `smart-router top`, and decides which of them are visible and selected.
 */
#include "cli/top_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ROWS_MEMORY_MAX = 128 * 1024 * 1024, /* TOP_ROWS_MAX rows with names as long as they can be */
    ROWS_FIRST = 256,
};

/* The first member of each row. */
static const char *key_of(const void *row)
{
    return *(const char *const *)row;
}

/* ---- rows ---- */

static void rows_init(struct top_rows *rows)
{
    *rows = (struct top_rows){0};
    arena_init(&rows->arena, ROWS_MEMORY_MAX);
}

static void rows_release(struct top_rows *rows)
{
    arena_release(&rows->arena);
    free(rows->rows);
    rows_init(rows);
}

/* Room for `count` pointers. False: no memory. */
static bool reserve(const void ***rows, size_t *room, size_t count)
{
    size_t more = *room > 0 ? *room : ROWS_FIRST;
    const void **longer;

    if (count <= *room)
        return true;
    while (more < count)
        more *= 2;
    longer = reallocarray(*rows, more, sizeof(**rows));
    if (!longer)
        return false;
    *rows = longer;
    *room = more;
    return true;
}

/* Adds a copy of the row. NULL: there is no room for it, and the list is marked. */
static void *rows_add(struct top_rows *rows, const void *row, size_t size)
{
    void *copy = NULL;

    if (rows->len < TOP_ROWS_MAX && reserve(&rows->rows, &rows->room, rows->len + 1))
        copy = arena_alloc(&rows->arena, size);
    if (!copy) {
        rows->is_cut = true;
        return NULL;
    }
    memcpy(copy, row, size);
    return copy;
}

/* Copies the texts of a row that rows_add made; the row counts from then on. */
static int rows_add_texts(struct top_rows *rows, const void *row, const char **texts[], size_t len)
{
    for (size_t i = 0; i < len; i++) {
        *texts[i] = arena_strdup(&rows->arena, *texts[i] ? *texts[i] : "");
        if (!*texts[i]) {
            rows->is_cut = true;
            return -ENOSPC;
        }
    }
    rows->rows[rows->len++] = row;
    return 0;
}

/* ---- the model ---- */

void top_model_init(struct top_model *model, const char *url)
{
    *model = (struct top_model){.view = TOP_POOLS};
    snprintf(model->url, sizeof(model->url), "%s", url);
    for (size_t i = 0; i < TOP_VIEWS; i++) {
        rows_init(&model->lists[i].shown);
        rows_init(&model->lists[i].next);
        model->lists[i].sort = top_columns((enum top_view)i)->sort;
    }
}

static void events_release(struct top_list *list)
{
    for (size_t i = 0; i < list->shown.len; i++)
        free((void *)(uintptr_t)list->shown.rows[i]);
}

void top_model_release(struct top_model *model)
{
    events_release(&model->lists[TOP_EVENTS]);
    for (size_t i = 0; i < TOP_VIEWS; i++) {
        rows_release(&model->lists[i].shown);
        rows_release(&model->lists[i].next);
        free(model->lists[i].visible);
        model->lists[i].visible = NULL;
    }
}

static void changed(struct top_model *model, enum top_view view)
{
    model->lists[view].is_dirty = true;
    model->version++;
}

void top_load_begin(struct top_model *model, enum top_view view)
{
    struct top_list *list = &model->lists[view];

    assert(view != TOP_EVENTS);
    arena_reset(&list->next.arena);
    list->next.len = 0;
    list->next.is_cut = false;
    if (!list->is_loaded) { /* `next` is what is shown */
        list->visible_len = 0;
        changed(model, view);
    }
}

void top_load_page(struct top_model *model, enum top_view view)
{
    if (!model->lists[view].is_loaded)
        changed(model, view);
}

void top_load_commit(struct top_model *model, enum top_view view)
{
    struct top_list *list = &model->lists[view];
    struct top_rows old = list->shown;

    list->shown = list->next;
    list->next = old;
    list->is_loaded = true;
    list->is_stale = false;
    changed(model, view);
    /* The visible ones may be rows of the old list, which is free to be written from now on. */
    top_refresh(model, view);
}

void top_load_failed(struct top_model *model, enum top_view view, const char *error)
{
    struct top_list *list = &model->lists[view];

    list->is_stale = true;
    snprintf(list->error, sizeof(list->error), "%s", error);
    model->version++;
}

int top_add_pool(struct top_model *model, const struct top_pool *pool)
{
    struct top_rows *rows = &model->lists[TOP_POOLS].next;
    struct top_pool *copy = rows_add(rows, pool, sizeof(*pool));

    return copy ? rows_add_texts(rows, copy, (const char **[]){&copy->name, &copy->type}, 2) : -ENOSPC;
}

int top_add_pod(struct top_model *model, const struct top_pod *pod)
{
    struct top_rows *rows = &model->lists[TOP_PODS].next;
    struct top_pod *copy = rows_add(rows, pod, sizeof(*pod));

    return copy ? rows_add_texts(rows, copy, (const char **[]){&copy->name, &copy->tier, &copy->state}, 3)
                : -ENOSPC;
}

int top_add_call(struct top_model *model, const struct top_call *call)
{
    struct top_rows *rows = &model->lists[TOP_CALLS].next;
    struct top_call *copy = rows_add(rows, call, sizeof(*call));

    if (!copy)
        return -ENOSPC;
    return rows_add_texts(rows, copy,
                          (const char **[]){&copy->sid, &copy->pod, &copy->pool, &copy->merchant,
                                            &copy->provider, &copy->state},
                          6);
}

int top_add_waiter(struct top_model *model, const struct top_waiter *waiter)
{
    struct top_rows *rows = &model->lists[TOP_WAITING].next;
    struct top_waiter *copy = rows_add(rows, waiter, sizeof(*waiter));

    if (!copy)
        return -ENOSPC;
    copy->place = rows->len;
    return rows_add_texts(
        rows, copy,
        (const char **[]){&copy->sid, &copy->merchant, &copy->provider, &copy->pools, &copy->state}, 5);
}

bool top_has_pages(enum top_view view)
{
    return view == TOP_PODS || view == TOP_CALLS || view == TOP_WAITING;
}

/* ---- events: each is one piece of memory, because they go one by one ---- */

static void put_text(char **at, const char **text)
{
    const char *from = *text ? *text : "";
    size_t size = strlen(from) + 1;

    memcpy(*at, from, size);
    *text = *at;
    *at += size;
}

static struct top_event *copy_event(const struct top_event *event, uint64_t number)
{
    char key[24];
    struct top_event full = *event;
    const char **texts[] = {&full.key, &full.kind, &full.call, &full.pod, &full.detail};
    size_t size = sizeof(full);
    struct top_event *copy;
    char *at;

    snprintf(key, sizeof(key), "%llu", (unsigned long long)number);
    full.key = key;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        size += strlen(*texts[i] ? *texts[i] : "") + 1;
    copy = malloc(size);
    if (!copy)
        return NULL;
    at = (char *)(copy + 1);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        put_text(&at, texts[i]);
    *copy = full;
    return copy;
}

void top_add_event(struct top_model *model, const struct top_event *event)
{
    struct top_list *list = &model->lists[TOP_EVENTS];
    struct top_rows *rows = &list->shown;
    struct top_event *copy;

    if (!reserve(&rows->rows, &rows->room, TOP_EVENTS_MAX))
        return;
    copy = copy_event(event, ++model->events_count);
    if (!copy)
        return;
    if (rows->len == TOP_EVENTS_MAX) {
        list->visible_len = 0; /* the oldest may be visible */
        free((void *)(uintptr_t)rows->rows[0]);
        memmove(rows->rows, rows->rows + 1, (rows->len - 1) * sizeof(*rows->rows));
        rows->len--;
    }
    rows->rows[rows->len++] = copy;
    list->is_loaded = true;
    changed(model, TOP_EVENTS);
}

void top_say(struct top_model *model, bool is_bad, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(model->message, sizeof(model->message), format, args);
    va_end(args);
    model->is_message_bad = is_bad;
    model->version++;
}

/* ---- what is visible ---- */

struct order {
    const struct top_columns *columns;
    const struct top_column *column;
    bool is_reversed;
};

/* Equal rows are in the order of their names. Events have numbers, and the newest is first. */
static int compare_rows(const void *left, const void *right, void *arg)
{
    const struct order *order = arg;
    const void *a = *(const void *const *)left, *b = *(const void *const *)right;
    int compared = top_compare(order->column, a, b);

    if (compared == 0 && order->columns == top_columns(TOP_EVENTS))
        compared = strverscmp(key_of(b), key_of(a));
    if (compared != 0)
        return order->is_reversed ? -compared : compared;
    return strverscmp(key_of(a), key_of(b));
}

static const struct top_rows *rows_of(const struct top_list *list)
{
    return list->is_loaded ? &list->shown : &list->next;
}

static void select_cursor(struct top_list *list)
{
    snprintf(list->selected, sizeof(list->selected), "%s", key_of(list->visible[list->cursor]));
}

/* A row that is gone leaves the selection to the one in its place. */
static void find_selected(struct top_list *list)
{
    for (size_t i = 0; list->is_following && i < list->visible_len; i++) {
        if (strcmp(key_of(list->visible[i]), list->selected) == 0) {
            list->cursor = i;
            return;
        }
    }
    list->cursor = list->visible_len > 0 ? min_u64(list->cursor, list->visible_len - 1) : 0;
    if (list->is_following && list->visible_len > 0)
        select_cursor(list);
}

void top_refresh(struct top_model *model, enum top_view view)
{
    const struct top_columns *columns = top_columns(view);
    struct top_list *list = &model->lists[view];
    const struct top_rows *rows = rows_of(list);
    struct order order = {columns, &columns->columns[list->sort], list->is_reversed};

    if (!list->is_dirty)
        return;
    list->is_dirty = false;
    list->visible_len = 0;
    if (rows->len > 0 && reserve(&list->visible, &list->visible_room, rows->len)) {
        for (size_t i = 0; i < rows->len; i++) {
            if (top_matches(columns, rows->rows[i], list->filter))
                list->visible[list->visible_len++] = rows->rows[i];
        }
        qsort_r(list->visible, list->visible_len, sizeof(*list->visible), compare_rows, &order);
    }
    find_selected(list);
}

const void *top_selected(struct top_model *model, enum top_view view)
{
    struct top_list *list = &model->lists[view];

    top_refresh(model, view);
    return list->visible_len > 0 ? list->visible[list->cursor] : NULL;
}

void top_move(struct top_model *model, int64_t by, bool is_home)
{
    struct top_list *list = &model->lists[model->view];
    size_t last;

    top_refresh(model, model->view);
    last = list->visible_len > 0 ? list->visible_len - 1 : 0;
    if (is_home || (by < 0 && (uint64_t)-by > list->cursor))
        list->cursor = 0;
    else
        list->cursor = min_u64(list->cursor + (uint64_t)by, last);
    list->is_following = !is_home && list->visible_len > 0;
    if (list->is_following)
        select_cursor(list);
    model->version++;
}

void top_sort(struct top_model *model, size_t column, bool is_reversed)
{
    struct top_list *list = &model->lists[model->view];

    list->sort = column % top_columns(model->view)->len;
    list->is_reversed = is_reversed;
    changed(model, model->view);
}

void top_filter(struct top_model *model, const char *filter)
{
    struct top_list *list = &model->lists[model->view];

    snprintf(list->filter, sizeof(list->filter), "%s", filter);
    list->cursor = 0; /* unless the selected row passes it */
    changed(model, model->view);
}

size_t top_total(const struct top_list *list)
{
    return rows_of(list)->len;
}

bool top_is_old(const struct top_model *model, enum top_view view)
{
    return model->link == TOP_AWAY || (view != TOP_EVENTS && model->lists[view].is_stale) ||
           (view == TOP_EVENTS && !model->has_events);
}
