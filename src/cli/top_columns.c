/*
 * top_columns.c - the columns of each view of `smart-router top`: their order, their text, and what the
 * filter finds.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "cli/top_model.h"

#define POOL(member) offsetof(struct top_pool, member)
#define POD(member) offsetof(struct top_pod, member)
#define CALL(member) offsetof(struct top_call, member)
#define EVENT(member) offsetof(struct top_event, member)
#define WAITER(member) offsetof(struct top_waiter, member)

static const struct top_column pools[] = {
    {"POOL", TOP_TEXT, POOL(name), 18, 1},   {"CALLS OF ITS CAPACITY", TOP_BAR, POOL(calls), 24, 2},
    {"WAIT", TOP_ALARM, POOL(waiting), 5},   {"AVAIL", TOP_COUNT, POOL(available), 5},
    {"BUSY", TOP_COUNT, POOL(busy), 5},      {"DRAIN", TOP_COUNT, POOL(draining), 5},
    {"SUSP", TOP_COUNT, POOL(suspended), 5}, {"PODS", TOP_COUNT, POOL(assigned), 5},
};

static const struct top_column pods[] = {
    {"POD", TOP_TEXT, POD(name), 20, 3},          {"TIER", TOP_TEXT, POD(tier), 14, 1},
    {"STATE", TOP_STATE, POD(state), 9},          {"CALLS", TOP_COUNT, POD(calls), 5},
    {"HEARTBEAT", TOP_AGE, POD(heartbeat_ms), 9}, {"DRAINING UNTIL", TOP_UNTIL, POD(until_ms), 14},
};

static const struct top_column calls[] = {
    {"CALL", TOP_TEXT, CALL(sid), 15, 4},      {"POD", TOP_TEXT, CALL(pod), 14, 2},
    {"POOL", TOP_TEXT, CALL(pool), 13, 1},     {"MERCHANT", TOP_TEXT, CALL(merchant), 9, 1},
    {"PROVIDER", TOP_TEXT, CALL(provider), 8}, {"STATE", TOP_STATE, CALL(state), 9},
    {"AGE", TOP_AGE, CALL(allocated_ms), 6},
};

static const struct top_column events[] = {
    {"TIME UTC", TOP_CLOCK, EVENT(time_ms), 8}, {"EVENT", TOP_TEXT, EVENT(kind), 14},
    {"CALL", TOP_TEXT, EVENT(call), 15, 2},     {"POD", TOP_TEXT, EVENT(pod), 15, 2},
    {"DETAIL", TOP_TEXT, EVENT(detail), 22, 3},
};

static const struct top_column waiting[] = {
    {"POS", TOP_PLACE, WAITER(position), 5},        {"CALL", TOP_TEXT, WAITER(sid), 15, 4},
    {"MERCHANT", TOP_TEXT, WAITER(merchant), 9, 1}, {"POOLS", TOP_TEXT, WAITER(pools), 16, 3},
    {"PROVIDER", TOP_TEXT, WAITER(provider), 8},    {"PRIO", TOP_COUNT, WAITER(priority), 4},
    {"STATE", TOP_STATE, WAITER(state), 7},         {"WAITED", TOP_TIME, WAITER(waited_ms), 6},
};

static const struct top_columns all[TOP_VIEWS] = {
    [TOP_POOLS] = {"Pools", pools, ARRAY_LEN(pools), 0},
    [TOP_PODS] = {"Pods", pods, ARRAY_LEN(pods), 2},
    [TOP_CALLS] = {"Calls", calls, ARRAY_LEN(calls), 6},
    [TOP_EVENTS] = {"Events", events, ARRAY_LEN(events), 0},
    [TOP_WAITING] = {"Waiting", waiting, ARRAY_LEN(waiting), 0},
};

const struct top_columns *top_columns(enum top_view view)
{
    assert(view < TOP_VIEWS);
    return &all[view];
}

static const char *text_of(const struct top_column *column, const void *row)
{
    const char *const *text = (const void *)((const char *)row + column->offset);

    assert(column->kind == TOP_TEXT || column->kind == TOP_STATE);
    return *text;
}

static uint64_t number_of(const struct top_column *column, const void *row)
{
    const uint64_t *number = (const void *)((const char *)row + column->offset);

    assert(column->kind != TOP_TEXT && column->kind != TOP_STATE);
    return *number;
}

/* ---- order ---- */

/* What an operator looks for is first. A state that a newer router has is behind the known ones. */
static size_t weight_of_state(const char *state)
{
    static const char *const states[] = {"suspended", "draining", "busy",      "available",
                                         "expired",   "granted",  "allocated", "active",
                                         "connected", "rescued",  "waiting"};
    size_t i = 0;

    while (i < ARRAY_LEN(states) && strcmp(states[i], state) != 0)
        i++;
    return i;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* The fullest pool first. Numbers of calls and pods are small enough for the product. */
static int compare_bars(const struct top_pool *a, const struct top_pool *b)
{
    unsigned __int128 left = (unsigned __int128)a->calls * max_u64(b->capacity, 1);
    unsigned __int128 right = (unsigned __int128)b->calls * max_u64(a->capacity, 1);

    return left > right ? -1 : left < right;
}

/* Calls of different pools can have the same position. Those without one are last: 0 wraps around. */
static int compare_places(const struct top_waiter *a, const struct top_waiter *b)
{
    int compared = compare_u64(a->position - 1, b->position - 1);

    return compared != 0 ? compared : compare_u64(a->place, b->place);
}

int top_compare(const struct top_column *column, const void *a, const void *b)
{
    switch (column->kind) {
    case TOP_TEXT:
        return strverscmp(text_of(column, a), text_of(column, b)); /* agent-2 before agent-10 */
    case TOP_STATE:
        return compare_u64(weight_of_state(text_of(column, a)), weight_of_state(text_of(column, b)));
    case TOP_BAR:
        return compare_bars(a, b);
    case TOP_AGE:   /* the oldest first */
    case TOP_UNTIL: /* what ends soon first; in both, those without a time last: 0 wraps around */
        return compare_u64(number_of(column, a) - 1, number_of(column, b) - 1);
    case TOP_PLACE:
        return compare_places(a, b);
    case TOP_COUNT:
    case TOP_ALARM:
    case TOP_TIME:
    case TOP_CLOCK:
        return compare_u64(number_of(column, b), number_of(column, a));
    }
    return 0;
}

bool top_matches(const struct top_columns *columns, const void *row, const char *filter)
{
    if (!filter[0])
        return true;
    for (size_t i = 0; i < columns->len; i++) {
        enum top_kind kind = columns->columns[i].kind;

        if ((kind == TOP_TEXT || kind == TOP_STATE) && strcasestr(text_of(&columns->columns[i], row), filter))
            return true;
    }
    return false;
}

/* ---- text ---- */

void top_format_age(uint64_t ms, char *text, size_t size)
{
    uint64_t s = ms / 1000;

    if (s < 60)
        snprintf(text, size, "%" PRIu64 "s", s);
    else if (s < 3600)
        snprintf(text, size, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    else if (s < 24 * 3600)
        snprintf(text, size, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
    else
        snprintf(text, size, "%" PRIu64 "d%02" PRIu64 "h", s / 86400, s / 3600 % 24);
}

static struct tm time_of(uint64_t time_ms)
{
    time_t seconds = (time_t)(min_u64(time_ms, INT64_MAX) / 1000);
    struct tm tm = {0};

    (void)gmtime_r(&seconds, &tm);
    return tm;
}

static void format_clock(uint64_t time_ms, char *text, size_t size, const char *zone)
{
    struct tm tm = time_of(time_ms);

    snprintf(text, size, "%02d:%02d:%02d%s", tm.tm_hour, tm.tm_min, tm.tm_sec, zone);
}

static void format_date(uint64_t time_ms, char *text, size_t size)
{
    struct tm tm = time_of(time_ms);

    snprintf(text, size, "%02d-%02d %02d:%02dZ", tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min);
}

static void format_until(uint64_t until_ms, uint64_t wall_ms, char *text, size_t size)
{
    if (until_ms == 0)
        snprintf(text, size, "-");
    else if (until_ms == UINT64_MAX)
        snprintf(text, size, "no end");
    else if (until_ms > wall_ms && until_ms - wall_ms >= 24 * 3600 * 1000)
        format_date(until_ms, text, size);
    else
        format_clock(until_ms, text, size, "Z");
}

void top_cell(const struct top_column *column, const void *row, uint64_t wall_ms, char *text, size_t size)
{
    assert(size > 0);
    text[0] = '\0';
    if (column->kind == TOP_TEXT || column->kind == TOP_STATE) {
        const char *from = text_of(column, row);

        snprintf(text, size, "%s", from[0] ? from : "-");
        return;
    }
    switch (column->kind) {
    case TOP_COUNT:
    case TOP_ALARM:
    case TOP_PLACE:
        snprintf(text, size, "%" PRIu64, number_of(column, row));
        return;
    case TOP_AGE: {
        uint64_t since_ms = number_of(column, row);

        if (since_ms == 0)
            snprintf(text, size, "-");
        else
            top_format_age(wall_ms > since_ms ? wall_ms - since_ms : 0, text, size);
        return;
    }
    case TOP_TIME:
        top_format_age(number_of(column, row), text, size);
        return;
    case TOP_CLOCK:
        format_clock(number_of(column, row), text, size, "");
        return;
    case TOP_UNTIL:
        format_until(number_of(column, row), wall_ms, text, size);
        return;
    case TOP_TEXT:
    case TOP_STATE:
    case TOP_BAR:
        return;
    }
}
