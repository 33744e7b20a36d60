/*
 * top_draw.c - draws the model of `smart-router top`.
 *
 *   0          the router: URL, version, store, state; the age of the last good answer
 *   1          its name, the leader, pods and calls
 *   2          the views; sort and filter
 *   3          the columns
 *   4 ...      rows
 *   height-2   the selected row in full
 *   height-1   a question, a message, or the keys
 */
#include "cli/top_draw.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/top_keys.h"

enum {
    ROW_FIRST = 4,
    ROWS_BELOW = 2,
    LINE_MAX_LEN = 2 * TOP_TEXT_MAX,
};

static const char keys[] = "tab 1-5 views  s sort  / filter  d drain  u undrain  r release  ? help  q quit";

static const char *const help[] = {
    "1 2 3 4 5, tab     pools, pods, calls, events, the calls that wait",
    "up, down, j, k     move by a row",
    "PgUp, PgDn         move by a page",
    "Home, g / End, G   the first row, the last row",
    "s                  sort by the next column",
    "S                  turn the order round",
    "/                  show only rows with a text; Enter keeps the filter, Esc ends it",
    "d                  drain the selected pod: it gets no new call",
    "u                  undrain the selected pod",
    "r                  release the selected call: it ends, or leaves the line",
    "?                  this help",
    "q, Ctrl-C          quit",
    "",
    "d, u and r ask first, and are carried out with y.",
    "Grey rows are not up to date: the router, or its store, does not answer.",
    "Times of the clock are UTC.",
    "",
    "Any key goes back.",
};

/* ---- text ---- */

/*
 * A name can have any bytes, and some would be commands to the terminal. Each character that is not printable
 * ASCII becomes one question mark. Returns the length.
 */
static size_t make_printable(const char *text, char *clean, size_t size)
{
    size_t left = strlen(text), len = 0;

    while (left > 0 && len + 1 < size) {
        size_t bytes = utf8_length(text, left);

        clean[len++] = text[0] >= ' ' && text[0] < 127 ? text[0] : '?';
        bytes = bytes > 0 ? bytes : 1;
        text += bytes;
        left -= bytes;
    }
    clean[len] = '\0';
    return len;
}

/* Cuts the middle out of a text that is too long: the ends of names are what they differ in. */
static size_t fit(char *text, size_t len, size_t width)
{
    size_t tail = width / 2;

    if (len <= width)
        return len;
    if (width < 4)
        return width;
    memmove(text + width - tail, text + len - tail, tail);
    text[width - tail - 1] = '~';
    return width;
}

/* Puts a text into a field of `width`, and returns how many columns it takes. */
static unsigned put(const struct top_canvas *canvas, unsigned row, unsigned column, unsigned width,
                    enum top_style style, const char *text)
{
    char clean[LINE_MAX_LEN + 1];
    size_t len = make_printable(text, clean, sizeof(clean));

    if (column >= canvas->width || row >= canvas->height)
        return 0;
    len = fit(clean, len, min_u64(width, canvas->width - column));
    if (len > 0)
        canvas->put(canvas->arg, row, column, style, clean, len);
    return (unsigned)len;
}

/* A sentence, up to the right edge; one that is too long loses its end. */
static unsigned put_format(const struct top_canvas *canvas, unsigned row, unsigned column,
                           enum top_style style, const char *format, ...) PRINTF_LIKE(5, 6);

static unsigned put_format(const struct top_canvas *canvas, unsigned row, unsigned column,
                           enum top_style style, const char *format, ...)
{
    char text[LINE_MAX_LEN + 1], clean[LINE_MAX_LEN + 1];
    va_list args;
    size_t len;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (column >= canvas->width || row >= canvas->height)
        return 0;
    len = make_printable(text, clean, sizeof(clean));
    if (len > canvas->width - column) {
        len = canvas->width - column;
        clean[len - 1] = '~';
    }
    if (len > 0)
        canvas->put(canvas->arg, row, column, style, clean, len);
    return (unsigned)len;
}

/* At the right edge; what is there already stays if the text has no room. */
static void put_right(const struct top_canvas *canvas, unsigned row, unsigned from, enum top_style style,
                      const char *text)
{
    unsigned len = (unsigned)strlen(text);

    if (from + 1 + len <= canvas->width)
        put(canvas, row, canvas->width - len, len, style, text);
}

static void fill(const struct top_canvas *canvas, unsigned row, unsigned width, enum top_style style)
{
    char blanks[TOP_WIDTH_MAX];

    memset(blanks, ' ', sizeof(blanks));
    canvas->put(canvas->arg, row, 0, style, blanks, min_u64(width, sizeof(blanks)));
}

/* ---- the head ---- */

static uint64_t since(uint64_t now_ms, uint64_t then_ms)
{
    return now_ms > then_ms ? now_ms - then_ms : 0;
}

/* The state of the connection, at the right of the first line; what is left of the line is the router's. */
static unsigned draw_link(const struct top_model *model, const struct top_canvas *canvas,
                          const struct top_time *now)
{
    char text[128], age[32], at[CLOCK_TEXT_MAX];
    unsigned len;

    if (model->link == TOP_AWAY) {
        clock_format_seconds(model->away_ms, at);
        snprintf(text, sizeof(text), "no answer since %.8sZ, trying again", at + strlen("2026-02-08T"));
    } else if (model->link == TOP_CONNECTING) {
        snprintf(text, sizeof(text), "connecting");
    } else {
        top_format_age(since(now->elapsed_ms, model->answered_ms), age, sizeof(age));
        snprintf(text, sizeof(text), "answered %s ago", age);
    }
    len = (unsigned)strlen(text);
    put(canvas, 0, canvas->width - len, len, model->link == TOP_AWAY ? TOP_BAD : TOP_PLAIN, text);
    return canvas->width - len - 1;
}

static void draw_router(const struct top_model *model, const struct top_canvas *canvas, unsigned width)
{
    const struct top_status *status = &model->status;
    struct top_canvas left = *canvas;
    unsigned at;
    char age[32];

    left.width = width;
    at = put_format(&left, 0, 0, TOP_BOLD, "%.*s  ", model->has_status ? 40 : TOP_TEXT_MAX, model->url);
    if (!model->has_status)
        return;
    top_format_age(status->uptime_s * 1000, age, sizeof(age));
    if (model->link != TOP_AWAY && status->is_up)
        at += put_format(&left, 0, at, TOP_GOOD, "up %s  ", age);
    else if (model->link != TOP_AWAY)
        at += put_format(&left, 0, at, TOP_BAD, "DOWN: no store  ");
    put_format(&left, 0, at, TOP_PLAIN, "%s  %s", status->store, status->version); /* may be cut */
}

static void draw_counts(const struct top_model *model, const struct top_canvas *canvas)
{
    const struct top_status *status = &model->status;
    enum top_style style = model->link == TOP_AWAY ? TOP_GREY : TOP_PLAIN;
    struct top_canvas left = *canvas;
    char counts[96];
    unsigned at, len;

    if (!model->has_status) {
        put_format(canvas, 1, 0, TOP_BAD, "%s", model->link_error);
        return;
    }
    snprintf(counts, sizeof(counts), "%" PRIu64 " pods  %" PRIu64 " active call%s", status->pods,
             status->active_calls, status->active_calls == 1 ? "" : "s");
    if (status->waiting > 0)
        snprintf(counts + strlen(counts), sizeof(counts) - strlen(counts), "  %" PRIu64 " waiting",
                 status->waiting);
    len = (unsigned)strlen(counts);
    put(canvas, 1, canvas->width - len, len, style, counts);
    left.width = canvas->width - len - 2;
    at = put_format(&left, 1, 0, style, "router %.*s  ", (int)left.width / 2 - 9, status->identity);
    if (status->is_leader)
        put_format(&left, 1, at, style, "leader: this one");
    else if (status->leader[0])
        put_format(&left, 1, at, style, "leader %s", status->leader);
    else
        put_format(&left, 1, at, TOP_BAD, "no leader");
}

static void draw_views(const struct top_model *model, const struct top_canvas *canvas)
{
    const struct top_list *list = &model->lists[model->view];
    const struct top_columns *columns = top_columns(model->view);
    char text[2 * TOP_FILTER_MAX];
    unsigned at = 0;

    for (unsigned i = 0; i < TOP_VIEWS; i++)
        at += 1 + put_format(canvas, 2, at, i == model->view ? TOP_MARKED : TOP_PLAIN, " %u %s ", i + 1,
                             top_columns((enum top_view)i)->title);
    snprintf(text, sizeof(text), "sort %s%s", columns->columns[list->sort].title,
             list->is_reversed ? " reversed" : "");
    at += 1 + put_format(canvas, 2, at + 1, TOP_PLAIN, "%s", text);
    if (list->filter[0] || model->mode == TOP_FILTERING)
        snprintf(text, sizeof(text), "%zu of %zu%s", list->visible_len, top_total(list),
                 list->shown.is_cut ? " (cut)" : "");
    else
        snprintf(text, sizeof(text), "%zu%s", top_total(list), list->shown.is_cut ? " (cut)" : "");
    put_right(canvas, 2, at, TOP_PLAIN, text);
}

/* ---- the table ---- */

static void set_widths(const struct top_columns *columns, unsigned width, unsigned *widths)
{
    unsigned used = (unsigned)columns->len - 1, weights = 0, left;

    for (size_t i = 0; i < columns->len; i++) {
        used += columns->columns[i].width;
        weights += columns->columns[i].weight;
    }
    assert(used <= TOP_WIDTH_MIN);
    left = width > used ? width - used : 0;
    for (size_t i = 0; i < columns->len; i++)
        widths[i] = columns->columns[i].width + left * columns->columns[i].weight / weights;
}

static bool is_right(enum top_kind kind)
{
    return kind == TOP_COUNT || kind == TOP_AGE || kind == TOP_ALARM || kind == TOP_TIME || kind == TOP_PLACE;
}

static void put_aligned(const struct top_canvas *canvas, unsigned row, unsigned column, unsigned width,
                        enum top_kind kind, enum top_style style, const char *text)
{
    size_t len = strlen(text);

    if (is_right(kind) && len < width)
        column += width - (unsigned)len;
    put(canvas, row, column, width, style, text);
}

static enum top_style style_of_state(const char *state)
{
    if (strcmp(state, "available") == 0 || strcmp(state, "connected") == 0 || strcmp(state, "active") == 0)
        return TOP_GOOD;
    if (strcmp(state, "busy") == 0 || strcmp(state, "granted") == 0)
        return TOP_BUSY;
    if (strcmp(state, "draining") == 0 || strcmp(state, "rescued") == 0)
        return TOP_LEAVING;
    return strcmp(state, "suspended") == 0 || strcmp(state, "expired") == 0 ? TOP_BAD : TOP_PLAIN;
}

/* "[||||||||      12/40]" */
static void draw_bar(const struct top_canvas *canvas, unsigned row, unsigned column, unsigned width,
                     enum top_style style, const struct top_pool *pool)
{
    char text[TOP_WIDTH_MAX + 1], count[48];
    uint64_t inside = min_u64(width, TOP_WIDTH_MAX) - 2;
    uint64_t capacity = max_u64(pool->capacity, 1), full = min_u64(pool->calls, capacity);
    uint64_t bars = full * inside / capacity;
    int len = snprintf(count, sizeof(count), "%" PRIu64 "/%" PRIu64, pool->calls, pool->capacity);

    if (full > 0 && bars == 0)
        bars = 1;
    memset(text, ' ', sizeof(text));
    text[0] = '[';
    memset(text + 1, '|', bars);
    if (len > 0 && (uint64_t)len <= inside)
        memcpy(text + 1 + inside - (unsigned)len, count, (size_t)len);
    text[1 + inside] = ']';
    text[2 + inside] = '\0';
    if (style == TOP_PLAIN)
        style = pool->calls >= pool->capacity ? TOP_BAD : full * 10 >= capacity * 8 ? TOP_BUSY : TOP_GOOD;
    put(canvas, row, column, width, style, text);
}

static void draw_row(const struct top_model *model, const struct top_canvas *canvas, unsigned row,
                     const unsigned *widths, const void *data, bool is_selected, uint64_t wall_ms)
{
    const struct top_columns *columns = top_columns(model->view);
    enum top_style all = is_selected ? TOP_MARKED : top_is_old(model, model->view) ? TOP_GREY : TOP_PLAIN;
    char text[TOP_TEXT_MAX + 1];
    unsigned at = 0;

    if (is_selected)
        fill(canvas, row, canvas->width, TOP_MARKED);
    for (size_t i = 0; i < columns->len; i++) {
        const struct top_column *column = &columns->columns[i];
        enum top_style style = all;

        if (column->kind == TOP_BAR) {
            draw_bar(canvas, row, at, widths[i], style, data);
        } else {
            top_cell(column, data, wall_ms, text, sizeof(text));
            if (column->kind == TOP_STATE && style == TOP_PLAIN)
                style = style_of_state(text);
            if (column->kind == TOP_ALARM && style == TOP_PLAIN && strcmp(text, "0") != 0)
                style = TOP_BUSY;
            put_aligned(canvas, row, at, widths[i], column->kind, style, text);
        }
        at += widths[i] + 1;
    }
}

static void draw_titles(const struct top_model *model, const struct top_canvas *canvas,
                        const unsigned *widths)
{
    const struct top_columns *columns = top_columns(model->view);
    unsigned at = 0;

    for (size_t i = 0; i < columns->len; i++) {
        put_aligned(canvas, 3, at, widths[i], columns->columns[i].kind, TOP_BOLD, columns->columns[i].title);
        at += widths[i] + 1;
    }
}

/* The cursor is on the screen, and no page is half empty as long as there are rows. */
static void scroll(struct top_list *list, size_t page)
{
    if (list->cursor < list->first)
        list->first = list->cursor;
    if (list->cursor >= list->first + page)
        list->first = list->cursor - page + 1;
    if (list->first + page > list->visible_len)
        list->first = list->visible_len > page ? list->visible_len - page : 0;
}

static const char *why_empty(const struct top_model *model, const struct top_list *list)
{
    if (list->filter[0] && top_total(list) > 0)
        return "No row has the text of the filter. Esc removes it.";
    if (!list->is_loaded && model->view != TOP_EVENTS)
        return model->link == TOP_AWAY ? "No answer yet." : "Loading ...";
    switch (model->view) {
    case TOP_POOLS:
        return "No pools.";
    case TOP_PODS:
        return "No pods.";
    case TOP_CALLS:
        return "No calls.";
    case TOP_WAITING:
        return "Nobody waits.";
    case TOP_EVENTS:
    case TOP_VIEWS:
        break;
    }
    return "No events since top was started.";
}

static void draw_table(struct top_model *model, const struct top_canvas *canvas, uint64_t wall_ms)
{
    struct top_list *list = &model->lists[model->view];
    unsigned widths[16] = {0}, page = canvas->height - ROW_FIRST - ROWS_BELOW;

    assert(top_columns(model->view)->len <= ARRAY_LEN(widths));
    model->page = page;
    scroll(list, page);
    set_widths(top_columns(model->view), canvas->width, widths);
    draw_titles(model, canvas, widths);
    if (list->visible_len == 0)
        put(canvas, ROW_FIRST, 0, canvas->width, TOP_GREY, why_empty(model, list));
    for (unsigned i = 0; i < page && list->first + i < list->visible_len; i++) {
        size_t at = list->first + i;

        draw_row(model, canvas, ROW_FIRST + i, widths, list->visible[at], at == list->cursor, wall_ms);
    }
}

/* ---- below the table ---- */

static void draw_event(const struct top_event *event, const struct top_canvas *canvas, unsigned row)
{
    const char *const texts[] = {event->kind, event->call, event->pod, event->detail};
    unsigned at = 0;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (texts[i][0])
            at += 1 + put_format(canvas, row, at, TOP_PLAIN, "%s", texts[i]);
    }
}

static void draw_waiter(const struct top_waiter *waiter, const struct top_canvas *canvas, unsigned row)
{
    char until[CLOCK_TEXT_MAX] = "";
    unsigned at = put_format(canvas, row, 0, TOP_PLAIN, "%s waits", waiter->sid);

    if (waiter->until_ms > 0) {
        clock_format_seconds(waiter->until_ms, until);
        at += put_format(canvas, row, at, TOP_PLAIN, " until %.8sZ", until + strlen("2026-02-08T"));
    }
    put_format(canvas, row, at, TOP_PLAIN, " for %s", waiter->pools[0] ? waiter->pools : "no pool");
}

/* The selected row with its names in full, or why the rows are old. */
static void draw_detail(struct top_model *model, const struct top_canvas *canvas)
{
    const struct top_list *list = &model->lists[model->view];
    const void *row = top_selected(model, model->view);
    unsigned at = canvas->height - 2;

    if (model->link == TOP_AWAY)
        put_format(canvas, at, 0, TOP_BAD, "%s", model->link_error);
    else if (model->view == TOP_EVENTS && !model->has_events)
        put_format(canvas, at, 0, TOP_BAD, "no events now: %s", model->events_error);
    else if (model->view != TOP_EVENTS && list->is_stale)
        put_format(canvas, at, 0, TOP_BAD, "not up to date: %s", list->error);
    else if (row && model->view == TOP_CALLS)
        put_format(canvas, at, 0, TOP_PLAIN, "%s on %s", ((const struct top_call *)row)->sid,
                   ((const struct top_call *)row)->pod);
    else if (row && model->view == TOP_EVENTS)
        draw_event(row, canvas, at);
    else if (row && model->view == TOP_WAITING)
        draw_waiter(row, canvas, at);
    else if (row)
        put_format(canvas, at, 0, TOP_PLAIN, "%s", *(const char *const *)row);
}

static void draw_last(const struct top_model *model, const struct top_canvas *canvas)
{
    const struct top_list *list = &model->lists[model->view];
    unsigned at = canvas->height - 1;
    char text[LINE_MAX_LEN];

    if (model->mode == TOP_CONFIRM) {
        top_question(&model->request, text, sizeof(text));
        put(canvas, at, 0, canvas->width, TOP_MARKED, text);
    } else if (model->mode == TOP_FILTERING) {
        put_format(canvas, at, 0, TOP_BOLD, "filter: %s_", list->filter);
    } else if (model->message[0]) {
        put_format(canvas, at, 0, model->is_message_bad ? TOP_BAD : TOP_BOLD, "%s", model->message);
    } else if (list->filter[0]) {
        put_format(canvas, at, 0, TOP_BOLD, "filter: %s  (/ changes it, Esc removes it)", list->filter);
    } else {
        put(canvas, at, 0, canvas->width, TOP_GREY, keys);
    }
}

static void draw_help(const struct top_canvas *canvas)
{
    put(canvas, 0, 0, canvas->width, TOP_BOLD, "smart-router top");
    for (unsigned i = 0; i < ARRAY_LEN(help); i++)
        put(canvas, 2 + i, 2, canvas->width - 2, TOP_PLAIN, help[i]);
}

void top_draw(struct top_model *model, const struct top_canvas *whole, const struct top_time *now)
{
    struct top_canvas canvas = *whole;
    uint64_t wall_ms = now->wall_ms + (uint64_t)model->clock_ahead_ms;

    canvas.width = (unsigned)min_u64(canvas.width, TOP_WIDTH_MAX);
    model->is_too_small = canvas.width < TOP_WIDTH_MIN || canvas.height < TOP_HEIGHT_MIN;
    if (model->is_too_small) {
        put_format(&canvas, 0, 0, TOP_PLAIN, "%ux%u is too small:", whole->width, whole->height);
        put_format(&canvas, 1, 0, TOP_PLAIN, "top needs %dx%d", TOP_WIDTH_MIN, TOP_HEIGHT_MIN);
        put_format(&canvas, 2, 0, TOP_PLAIN, "q quits");
        return;
    }
    top_refresh(model, model->view);
    if (model->mode == TOP_HELP) {
        draw_help(&canvas);
        return;
    }
    draw_router(model, &canvas, draw_link(model, &canvas, now));
    draw_counts(model, &canvas);
    draw_views(model, &canvas);
    draw_table(model, &canvas, wall_ms);
    draw_detail(model, &canvas);
    draw_last(model, &canvas);
}
