/* test_top.c - what `smart-router top` shows: rows, order, filter, keys and the drawing, without a terminal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/top_draw.h"
#include "cli/top_keys.h"
#include "cli/top_model.h"
#include "cli/top_parse.h"

enum {
    NOW_S = 1770544800, /* 2026-02-08T10:00:00Z */
    SCREEN_MAX = 600,
};

static const uint64_t now_ms = (uint64_t)NOW_S * 1000;

/* ---- a canvas that can be read ---- */

struct grid {
    unsigned width;
    unsigned height;
    size_t puts;
    char text[SCREEN_MAX][SCREEN_MAX + 1];
    enum top_style styles[SCREEN_MAX][SCREEN_MAX];
};

static void grid_put(void *arg, unsigned row, unsigned column, enum top_style style, const char *text,
                     size_t len)
{
    struct grid *grid = arg;

    assert_true(row < grid->height);
    assert_true(column + len <= grid->width);
    grid->puts++;
    for (size_t i = 0; i < len; i++) {
        assert_in_range(text[i], ' ', '~');
        grid->text[row][column + i] = text[i];
        grid->styles[row][column + i] = style;
    }
}

static struct grid *draw_at(struct top_model *model, unsigned width, unsigned height)
{
    static struct grid grid;
    const struct top_canvas canvas = {width, height, grid_put, &grid};
    const struct top_time now = {.wall_ms = now_ms, .elapsed_ms = 60000};

    grid = (struct grid){.width = width, .height = height};
    for (unsigned row = 0; row < height; row++) {
        memset(grid.text[row], ' ', width);
        grid.text[row][width] = '\0';
    }
    top_draw(model, &canvas, &now);
    return &grid;
}

static struct grid *draw(struct top_model *model)
{
    return draw_at(model, TOP_WIDTH_MIN, TOP_HEIGHT_MIN);
}

static void expect(const struct grid *grid, unsigned row, const char *text)
{
    if (!strstr(grid->text[row], text))
        fail_msg("line %u has no \"%s\": \"%s\"", row, text, grid->text[row]);
}

static void expect_not(const struct grid *grid, unsigned row, const char *text)
{
    if (strstr(grid->text[row], text))
        fail_msg("line %u has \"%s\": \"%s\"", row, text, grid->text[row]);
}

/* ---- a model with rows ---- */

static void add_pods(struct top_model *model, unsigned from, unsigned to)
{
    static const char *const states[] = {"available", "busy", "draining", "suspended"};

    for (unsigned i = from; i < to; i++) {
        char name[32];
        const struct top_pod pod = {
            .name = name,
            .tier = i % 2 ? "gold" : "standard",
            .state = states[i % 4],
            .calls = i % 4 == 1,
            .heartbeat_ms = i == 0 ? 0 : now_ms - i * 1000,
            .until_ms = i % 4 == 2 ? now_ms + 600000 : 0,
        };

        snprintf(name, sizeof(name), "agent-%u", i);
        assert_int_equal(top_add_pod(model, &pod), 0);
    }
}

static void load_pods(struct top_model *model, unsigned count)
{
    top_load_begin(model, TOP_PODS);
    add_pods(model, 0, count);
    top_load_commit(model, TOP_PODS);
}

static int setup(void **state)
{
    struct top_model *model = malloc(sizeof(*model));

    assert_non_null(model);
    top_model_init(model, "http://127.0.0.1:8080");
    *state = model;
    return 0;
}

static int teardown(void **state)
{
    top_model_release(*state);
    free(*state);
    return 0;
}

static const char *name_at(struct top_model *model, enum top_view view, size_t at)
{
    top_refresh(model, view);
    assert_true(at < model->lists[view].visible_len);
    return *(const char *const *)model->lists[view].visible[at];
}

static void type(struct top_model *model, const char *keys)
{
    for (; *keys; keys++)
        assert_int_equal(top_key(model, *keys), TOP_GO_ON);
}

/* ---- order ---- */

static void pods__are_sorted_by_state_first(void **state)
{
    struct top_model *model = *state;

    load_pods(model, 8);
    assert_string_equal(name_at(model, TOP_PODS, 0), "agent-3"); /* suspended */
    assert_string_equal(name_at(model, TOP_PODS, 1), "agent-7");
    assert_string_equal(name_at(model, TOP_PODS, 2), "agent-2"); /* draining */
    assert_string_equal(name_at(model, TOP_PODS, 7), "agent-4"); /* available */
}

static void sort__goes_through_the_columns_and_turns_round(void **state)
{
    struct top_model *model = *state;

    load_pods(model, 12);
    type(model, "2sss"); /* calls, heartbeat, until */
    assert_string_equal(top_columns(TOP_PODS)->columns[model->lists[TOP_PODS].sort].title, "DRAINING UNTIL");
    assert_string_equal(name_at(model, TOP_PODS, 0), "agent-2");
    type(model, "s"); /* around to the name */
    assert_int_equal(model->lists[TOP_PODS].sort, 0);
    assert_string_equal(name_at(model, TOP_PODS, 2), "agent-2");
    assert_string_equal(name_at(model, TOP_PODS, 11), "agent-11"); /* a number, not a text */
    type(model, "S");
    assert_string_equal(name_at(model, TOP_PODS, 0), "agent-11");
    assert_string_equal(name_at(model, TOP_PODS, 11), "agent-0");
}

static void sort__by_age_has_the_oldest_first_and_those_without_last(void **state)
{
    struct top_model *model = *state;

    load_pods(model, 4);
    model->view = TOP_PODS;
    top_sort(model, 4, false);
    assert_string_equal(name_at(model, TOP_PODS, 0), "agent-3");
    assert_string_equal(name_at(model, TOP_PODS, 2), "agent-1");
    assert_string_equal(name_at(model, TOP_PODS, 3), "agent-0");
}

static void sort__by_bar_has_the_fullest_pool_first(void **state)
{
    struct top_model *model = *state;
    const struct top_pool pools[] = {{.name = "half", .calls = 50, .capacity = 100},
                                     {.name = "full", .calls = 3, .capacity = 3},
                                     {.name = "closed", .calls = 0, .capacity = 0}};

    top_load_begin(model, TOP_POOLS);
    for (size_t i = 0; i < ARRAY_LEN(pools); i++)
        assert_int_equal(top_add_pool(model, &pools[i]), 0);
    top_load_commit(model, TOP_POOLS);
    assert_string_equal(name_at(model, TOP_POOLS, 0), "closed"); /* by name at first */
    type(model, "s");
    assert_string_equal(name_at(model, TOP_POOLS, 0), "full");
    assert_string_equal(name_at(model, TOP_POOLS, 1), "half");
}

/* ---- filter ---- */

static void filter__finds_texts_of_all_columns_whatever_their_case(void **state)
{
    struct top_model *model = *state;

    load_pods(model, 100);
    type(model, "2/GOLD");
    top_refresh(model, TOP_PODS);
    assert_int_equal(model->lists[TOP_PODS].visible_len, 50);
    assert_int_equal(model->mode, TOP_FILTERING);
    assert_int_equal(top_key(model, TOP_KEY_ESCAPE), TOP_GO_ON);
    type(model, "/suspendedq"); /* a letter, not a command */
    top_refresh(model, TOP_PODS);
    assert_int_equal(model->lists[TOP_PODS].visible_len, 0);
    assert_int_equal(top_key(model, TOP_KEY_BACKSPACE), TOP_GO_ON);
    assert_int_equal(top_key(model, TOP_KEY_ENTER), TOP_GO_ON);
    assert_int_equal(model->mode, TOP_NORMAL);
    top_refresh(model, TOP_PODS);
    assert_int_equal(model->lists[TOP_PODS].visible_len, 25);
    expect(draw(model), 2, "25 of 100");
    assert_int_equal(top_key(model, TOP_KEY_ESCAPE), TOP_GO_ON);
    top_refresh(model, TOP_PODS);
    assert_int_equal(model->lists[TOP_PODS].visible_len, 100);
}

static void filter__is_bounded(void **state)
{
    struct top_model *model = *state;

    type(model, "/");
    for (size_t i = 0; i < 3 * TOP_FILTER_MAX; i++)
        type(model, "x");
    assert_int_equal(strlen(model->lists[TOP_POOLS].filter), TOP_FILTER_MAX);
    assert_int_equal(top_key(model, 200), TOP_GO_ON); /* not ASCII */
    assert_int_equal(strlen(model->lists[TOP_POOLS].filter), TOP_FILTER_MAX);
    draw(model);
}

/* ---- the cursor ---- */

static void cursor__stays_with_its_row_when_others_come_and_go(void **state)
{
    struct top_model *model = *state;
    const struct top_pod *pod;

    load_pods(model, 20);
    type(model, "2");
    top_sort(model, 0, false);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(top_key(model, TOP_KEY_DOWN), TOP_GO_ON);
    pod = top_selected(model, TOP_PODS);
    assert_string_equal(pod->name, "agent-5");
    top_load_begin(model, TOP_PODS);
    add_pods(model, 4, 40); /* four are gone, twenty are new */
    top_load_commit(model, TOP_PODS);
    pod = top_selected(model, TOP_PODS);
    assert_string_equal(pod->name, "agent-5");
    type(model, "S");
    pod = top_selected(model, TOP_PODS);
    assert_string_equal(pod->name, "agent-5");
    load_pods(model, 3); /* it is gone itself */
    pod = top_selected(model, TOP_PODS);
    assert_non_null(pod);
    load_pods(model, 0);
    assert_null(top_selected(model, TOP_PODS));
}

static void cursor__on_the_first_row_stays_there_until_it_is_moved(void **state)
{
    struct top_model *model = *state;
    const struct top_pod *pod;

    model->view = TOP_PODS;
    top_sort(model, 0, true);
    load_pods(model, 5);
    pod = top_selected(model, TOP_PODS);
    assert_string_equal(pod->name, "agent-4");
    load_pods(model, 9);
    pod = top_selected(model, TOP_PODS);
    assert_string_equal(pod->name, "agent-8");
}

static void cursor__never_leaves_the_rows(void **state)
{
    static const int keys[] = {TOP_KEY_UP,   TOP_KEY_PAGE_UP, TOP_KEY_DOWN, TOP_KEY_PAGE_DOWN,
                               TOP_KEY_HOME, TOP_KEY_END,     TOP_KEY_TAB,  TOP_KEY_BACK_TAB};
    struct top_model *model = *state;
    unsigned seed = 1;

    load_pods(model, 100);
    type(model, "2");
    for (unsigned i = 0; i < 5000; i++) {
        const struct top_list *list;

        seed = seed * 1103515245 + 12345;
        assert_int_equal(top_key(model, keys[seed / 65536 % ARRAY_LEN(keys)]), TOP_GO_ON);
        draw(model);
        list = &model->lists[model->view];
        assert_true(list->visible_len == 0 ? list->cursor == 0 : list->cursor < list->visible_len);
        assert_true(list->cursor >= list->first);
        assert_true(list->cursor < list->first + model->page);
    }
}

static void page_keys__move_by_what_is_on_the_screen(void **state)
{
    struct top_model *model = *state;

    load_pods(model, 100);
    type(model, "2");
    draw(model);
    assert_int_equal(model->page, 18); /* 24 without head and foot */
    top_key(model, TOP_KEY_PAGE_DOWN);
    assert_int_equal(model->lists[TOP_PODS].cursor, 18);
    top_key(model, TOP_KEY_END);
    assert_int_equal(model->lists[TOP_PODS].cursor, 99);
    draw(model);
    assert_int_equal(model->lists[TOP_PODS].first, 82);
    top_key(model, TOP_KEY_HOME);
    assert_int_equal(model->lists[TOP_PODS].cursor, 0);
}

/* ---- loads ---- */

static void load__shows_the_old_rows_until_it_is_complete(void **state)
{
    struct top_model *model = *state;

    model->view = TOP_PODS;
    top_load_begin(model, TOP_PODS);
    add_pods(model, 0, 10);
    top_load_page(model, TOP_PODS);
    top_refresh(model, TOP_PODS);
    assert_int_equal(model->lists[TOP_PODS].visible_len, 10); /* the first load is shown as it grows */
    add_pods(model, 10, 20);
    top_load_commit(model, TOP_PODS);
    assert_int_equal(model->lists[TOP_PODS].visible_len, 20);
    top_load_begin(model, TOP_PODS);
    add_pods(model, 0, 3);
    top_load_page(model, TOP_PODS);
    draw(model);
    assert_int_equal(model->lists[TOP_PODS].visible_len, 20);
    top_load_failed(model, TOP_PODS, "503 the store is away");
    assert_true(top_is_old(model, TOP_PODS));
    expect(draw(model), 22, "not up to date: 503 the store is away");
    load_pods(model, 3);
    assert_false(top_is_old(model, TOP_PODS));
    assert_int_equal(model->lists[TOP_PODS].visible_len, 3);
}

static void load__of_more_rows_than_there_is_room_for_is_cut(void **state)
{
    const struct top_pod pod = {.name = "one", .tier = "gold", .state = "busy"};
    struct top_model *model = *state;

    top_load_begin(model, TOP_PODS);
    for (size_t i = 0; i < TOP_ROWS_MAX; i++)
        assert_int_equal(top_add_pod(model, &pod), 0);
    assert_int_equal(top_add_pod(model, &pod), -ENOSPC);
    top_load_commit(model, TOP_PODS);
    assert_int_equal(top_total(&model->lists[TOP_PODS]), TOP_ROWS_MAX);
    type(model, "2");
    expect(draw(model), 2, "100000 (cut)");
}

static void ten_thousand_pods__cost_only_what_is_visible(void **state)
{
    struct top_model *model = *state;
    size_t few;

    type(model, "2");
    load_pods(model, 100);
    few = draw(model)->puts;
    load_pods(model, 10000);
    assert_int_equal(draw(model)->puts, few);
}

static void events__are_bounded_and_the_newest_is_first(void **state)
{
    struct top_model *model = *state;
    const struct top_event *event;

    type(model, "4");
    for (unsigned i = 0; i < TOP_EVENTS_MAX + 500; i++) {
        char call[16];

        snprintf(call, sizeof(call), "CA%u", i);
        top_add_event(model, &(struct top_event){.kind = "allocated", .call = call, .time_ms = now_ms});
        if (i % 100 == 0)
            draw(model);
    }
    assert_int_equal(top_total(&model->lists[TOP_EVENTS]), TOP_EVENTS_MAX);
    event = top_selected(model, TOP_EVENTS);
    assert_string_equal(event->call, "CA1499"); /* also within one millisecond */
    type(model, "S");
    event = top_selected(model, TOP_EVENTS);
    assert_string_equal(event->call, "CA500");
}

/* ---- the line ---- */

static const char line[] =
    "{\"waiting\":[{\"call_sid\":\"CA9\",\"merchant_id\":\"acme\",\"provider\":\"twilio\",\"priority\":3,"
    "\"position\":1,\"waited_seconds\":75,\"until\":\"2026-02-08T10:01:00Z\",\"pools\":[\"pool:gold\","
    "\"merchant:acme\"],\"rescued\":true},{\"call_sid\":\"CA2\",\"position\":1,\"waited_seconds\":12,"
    "\"pools\":["
    "7]},"
    "{\"call_sid\":\"CA1\",\"position\":2,\"waited_seconds\":40,\"pools\":[\"pool:gold\"],\"rescued\":false},"
    "7,null],"
    "\"total\":3,\"next_cursor\":\"\"}";

static void load_line(struct top_model *model)
{
    struct strbuf cursor;

    strbuf_init(&cursor, NULL, 100);
    top_load_begin(model, TOP_WAITING);
    assert_int_equal(top_parse_page(model, TOP_WAITING, SLICE(line), &cursor), 0);
    assert_int_equal(cursor.len, 0);
    assert_int_equal(top_parse_page(model, TOP_WAITING, SLICE("{\"waiting\":3}"), &cursor), -EINVAL);
    top_load_commit(model, TOP_WAITING);
    strbuf_release(&cursor);
}

static void waiting_calls__are_in_the_order_of_the_line(void **state)
{
    struct top_model *model = *state;
    struct grid *grid;

    type(model, "5");
    expect(draw(model), 4, "Loading");
    load_line(model);
    grid = draw(model);
    expect(grid, 3, "POS CALL");
    /* CA9 and CA2 are the first ones of different pools: whoever is before the other in the line. */
    expect(grid, 4, "    1 CA9 ");
    expect(grid, 4, " acme ");
    expect(grid, 4, "twilio      3 rescued  1m15s");
    expect(grid, 5, "    1 CA2 ");
    expect(grid, 5, "waiting    12s");
    expect(grid, 6, "    2 CA1 ");
    expect(grid, 22, "CA9 waits until 10:01:00Z for gold merchant:acme");
    assert_int_equal(top_key(model, TOP_KEY_DOWN), TOP_GO_ON);
    expect(draw(model), 22, "CA2 waits for ?");
    type(model, "S");
    assert_string_equal(name_at(model, TOP_WAITING, 0), ""); /* items that are no objects have no position */
    assert_string_equal(name_at(model, TOP_WAITING, 4), "CA9");
    type(model, "/acme\n");
    expect(draw(model), 2, "1 of 5");
}

static void waiting_calls__that_are_none_are_said(void **state)
{
    struct top_model *model = *state;

    top_load_begin(model, TOP_WAITING);
    top_load_commit(model, TOP_WAITING);
    type(model, "5");
    expect(draw(model), 4, "Nobody waits.");
}

static void waiting_calls__are_released_without_a_pod(void **state)
{
    struct top_model *model = *state;

    load_line(model);
    type(model, "5r");
    expect(draw(model), 23, "Release CA9? It ends, also if it has got a pod meanwhile. (y/n)");
    assert_int_equal(top_key(model, 'y'), TOP_SEND);
    assert_int_equal(model->request.action, TOP_RELEASE);
    assert_string_equal(model->request.name, "CA9");
    assert_string_equal(model->request.pod, "");
    top_parse_answer(model, &model->request, 200, SLICE("{\"success\":true,\"pod_name\":\"\"}"));
    assert_string_equal(model->message, "CA9 is released: it waited for a pod");
    top_parse_answer(model, &model->request, 200,
                     SLICE("{\"success\":true,\"pod_name\":\"a\",\"is_kept\":true}"));
    assert_string_equal(model->message, "CA9 is not released: it has got a pod meanwhile, release it there");
    top_parse_answer(model, &model->request, 200,
                     SLICE("{\"success\":true,\"pod_name\":\"\",\"is_kept\":true}"));
    assert_string_equal(model->message,
                        "CA9 is not released: it has lost its pod a moment ago, try again in a minute");
    assert_true(model->is_message_bad);
}

static void waiting_calls__are_counted_in_their_pool_and_in_the_head(void **state)
{
    static const char some[] =
        "{\"status\":\"up\",\"pods\":1,\"active_calls\":1,\"waiting\":12,\"tiers\":{\"gold\":"
        "{\"calls\":1,\"capacity\":1,\"waiting\":12},\"vip\":{\"calls\":1,\"capacity\":1}}}";
    static const char none[] = "{\"status\":\"up\",\"pods\":1,\"active_calls\":1,\"tiers\":{\"gold\":{}}}";
    struct top_model *model = *state;
    const char *at;
    struct grid *grid;

    model->link = TOP_ANSWERS;
    assert_int_equal(top_parse_status(model, SLICE(some)), 0);
    assert_int_equal(top_key(model, TOP_KEY_DOWN), TOP_GO_ON); /* the selected row has no colours */
    grid = draw(model);
    expect(grid, 1, "1 pods  1 active call  12 waiting");
    expect(grid, 3, " WAIT ");
    at = strstr(grid->text[4], "   12 ");
    assert_non_null(at);
    assert_int_equal(grid->styles[4][at + 3 - grid->text[4]], TOP_BUSY);
    assert_int_equal(top_parse_status(model, SLICE(none)), 0);
    expect_not(draw(model), 1, "waiting");
}

static void events_of_the_line__are_read_with_their_details(void **state)
{
    struct top_model *model = *state;

    top_parse_event(
        model, SLICE("{\"event\":\"call_waiting\",\"call_sid\":\"CA1\",\"merchant_id\":\"acme\"}"), now_ms);
    top_parse_event(
        model,
        SLICE("{\"event\":\"wait_ended\",\"call_sid\":\"CA1\",\"reason\":\"timed_out\",\"from_pod\":\"a\"}"),
        now_ms);
    type(model, "4");
    expect(draw_at(model, 120, 24), 4, "timed_out from a");
    expect(draw_at(model, 120, 24), 5, "merchant acme");
}

/* ---- requests ---- */

static void drain__is_sent_after_yes_alone(void **state)
{
    static const int noes[] = {'n', 'N', 'q', TOP_KEY_ESCAPE};
    struct top_model *model = *state;

    load_pods(model, 4);
    type(model, "2");
    for (size_t i = 0; i < ARRAY_LEN(noes); i++) {
        type(model, "d");
        assert_int_equal(model->mode, TOP_CONFIRM);
        expect(draw(model), 23, "Drain agent-3? It gets no new call. (y/n)");
        type(model, "x2sd/"); /* other keys mean nothing now */
        assert_int_equal(model->mode, TOP_CONFIRM);
        assert_int_equal(top_key(model, noes[i]), TOP_GO_ON);
        assert_int_equal(model->mode, TOP_NORMAL);
        expect(draw(model), 23, "nothing was changed");
    }
    type(model, "d");
    load_pods(model, 3); /* the rows change under the question */
    assert_int_equal(top_key(model, 'y'), TOP_SEND);
    assert_int_equal(model->request.action, TOP_DRAIN);
    assert_string_equal(model->request.name, "agent-3");
}

static void release__names_the_call_and_its_pod(void **state)
{
    struct top_model *model = *state;
    const struct top_call call = {.sid = "CA1", .pod = "agent-1", .state = "active", .allocated_ms = now_ms};

    top_load_begin(model, TOP_CALLS);
    assert_int_equal(top_add_call(model, &call), 0);
    top_load_commit(model, TOP_CALLS);
    type(model, "3r");
    expect(draw(model), 23, "Release CA1? The call ends on agent-1. (y/n)");
    assert_int_equal(top_key(model, 'y'), TOP_SEND);
    assert_int_equal(model->request.action, TOP_RELEASE);
    assert_string_equal(model->request.pod, "agent-1");
}

static void requests__need_a_row_of_their_view(void **state)
{
    struct top_model *model = *state;

    load_pods(model, 4);
    type(model, "1d");
    assert_int_equal(model->mode, TOP_NORMAL);
    expect(draw(model), 23, "select a pod first");
    type(model, "3u");
    assert_int_equal(model->mode, TOP_NORMAL);
    type(model, "2r");
    expect(draw(model), 23, "select a call first");
    type(model, "2/nothing-like-it\nd"); /* no row is visible */
    assert_int_equal(model->mode, TOP_NORMAL);
}

static void small_screen__says_so_and_takes_no_key_but_q(void **state)
{
    struct top_model *model = *state;
    struct grid *grid;

    load_pods(model, 4);
    type(model, "2");
    grid = draw_at(model, 79, 24);
    expect(grid, 0, "79x24 is too small");
    expect(grid, 1, "top needs 80x24");
    type(model, "dy");
    assert_int_equal(model->mode, TOP_NORMAL);
    assert_int_equal(top_key(model, 'q'), TOP_QUIT);
    for (unsigned height = 1; height < 24; height++)
        draw_at(model, height, height); /* the canvas checks */
    draw(model);
    type(model, "d");
    assert_int_equal(model->mode, TOP_CONFIRM);
}

/* ---- drawing ---- */

static void any_size__has_a_drawing_inside_it(void **state)
{
    struct top_model *model = *state;

    load_pods(model, 300);
    model->has_status = true;
    memset(model->status.identity, 'i', TOP_NAME_MAX);
    memset(model->status.leader, 'l', TOP_NAME_MAX);
    memset(model->url, 'u', TOP_TEXT_MAX);
    for (unsigned width = 80; width <= SCREEN_MAX; width += 13) {
        for (int view = '1'; view < '1' + TOP_VIEWS; view++) {
            type(model, (const char[]){(char)view, '\0'});
            draw_at(model, width, 24);
            draw_at(model, width, 200);
        }
    }
}

static void names__never_reach_the_terminal_raw(void **state)
{
    static const char evil[] = "a\033[2Jb\x9b\x01\x7f\r\n\t\xc2\x9b"
                               "31m\xff"
                               "c\xe2\x98\x83z";
    struct top_model *model = *state;
    const struct top_pod pod = {.name = evil, .tier = evil, .state = evil};
    struct grid *grid;

    top_load_begin(model, TOP_PODS);
    assert_int_equal(top_add_pod(model, &pod), 0);
    top_load_commit(model, TOP_PODS);
    top_say(model, true, "%s", evil);
    snprintf(model->status.identity, sizeof(model->status.identity), "%s", evil);
    model->has_status = true;
    model->view = TOP_PODS;
    grid = draw_at(model, 120, 24);  /* the canvas checks each character */
    expect(grid, 4, "a?[2Jb??????"); /* one for each character */
    expect(grid, 4, "31m?c?z");
    expect(grid, 23, "a?[2Jb");
    type(model, "d");
    expect(draw_at(model, 120, 24), 23, "Drain a?[2Jb");
    assert_string_equal(model->request.name, evil); /* the router gets the true name */
}

static void long_names__lose_their_middle(void **state)
{
    struct top_model *model = *state;
    const struct top_pod pod = {.name = "voice-agent-of-the-large-shop-in-the-city-000017", .state = "busy"};

    top_load_begin(model, TOP_PODS);
    assert_int_equal(top_add_pod(model, &pod), 0);
    top_load_commit(model, TOP_PODS);
    model->view = TOP_PODS;
    expect(draw(model), 4, "voice-agent~");
    expect(draw(model), 4, "000017 ");
    expect(draw(model), 22, pod.name); /* in full */
    type(model, "d");
    expect(draw(model), 23, "(y/n)");
}

static void head__says_what_the_router_is_and_whether_it_answers(void **state)
{
    struct top_model *model = *state;
    struct grid *grid = draw(model);
    static const char status[] =
        "{\"tiers\":{\"gold\":{\"type\":\"exclusive\",\"assigned\":4,\"available\":1,\"busy\":2,\"draining\":"
        "1,"
        "\"suspended\":0,\"calls\":2,\"capacity\":4}},\"pods\":4,\"active_calls\":2,\"is_leader\":true,"
        "\"leader\":\"r-0\",\"identity\":\"r-0\",\"store\":\"embedded\",\"version\":\"1.2.3\",\"uptime_"
        "seconds\":75,"
        "\"status\":\"up\"}";
    static const char down[] =
        "{\"is_leader\":false,\"leader\":\"\",\"identity\":\"r-0\",\"store\":\"redis\","
        "\"version\":\"1.2.3\",\"uptime_seconds\":75,\"status\":\"down\"}";

    expect(grid, 0, "connecting");
    assert_int_equal(top_parse_status(model, SLICE(status)), 0);
    model->link = TOP_ANSWERS;
    model->answered_ms = 58000;
    grid = draw(model);
    expect(grid, 0, "http://127.0.0.1:8080  up 1m15s  embedded  1.2.3");
    expect(grid, 0, "answered 2s ago");
    expect(grid, 1, "router r-0  leader: this one");
    expect(grid, 1, "4 pods  2 active calls");
    expect(grid, 4, "gold");
    expect(grid, 4, "[|||||||||||        2/4]");
    model->link = TOP_AWAY;
    model->away_ms = now_ms;
    grid = draw(model);
    expect(grid, 0, "no answer since 10:00:00Z, trying again");
    expect_not(grid, 0, "up 1m15s");
    model->link = TOP_ANSWERS;
    assert_int_equal(top_parse_status(model, SLICE(down)), 0);
    grid = draw(model);
    expect(grid, 0, "DOWN");
    expect(grid, 1, "no leader");
    expect(grid, 4, "gold"); /* the last that is known */
    assert_true(top_is_old(model, TOP_POOLS));
}

static void old_rows__are_grey(void **state)
{
    struct top_model *model = *state;

    load_pods(model, 4);
    model->view = TOP_PODS;
    model->link = TOP_ANSWERS;
    assert_int_equal(draw(model)->styles[5][0], TOP_PLAIN);
    model->link = TOP_AWAY;
    assert_int_equal(draw(model)->styles[5][0], TOP_GREY);
}

static void bars__never_leave_their_field(void **state)
{
    static const uint64_t numbers[] = {0, 1, 2, 99, 100, 12345678, 1000000000000000};
    struct top_model *model = *state;

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        for (size_t j = 0; j < ARRAY_LEN(numbers); j++) {
            const struct top_pool pool = {.name = "p", .calls = numbers[i], .capacity = numbers[j]};

            top_load_begin(model, TOP_POOLS);
            assert_int_equal(top_add_pool(model, &pool), 0);
            top_load_commit(model, TOP_POOLS);
            draw(model);
            draw_at(model, 512, 24);
        }
    }
}

static void ages__are_short(void **state UNUSED)
{
    static const struct {
        uint64_t s;
        const char *text;
    } cases[] = {{0, "0s"}, {59, "59s"}, {60, "1m00s"}, {3599, "59m59s"}, {3600, "1h00m"}, {90000, "1d01h"}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[32];

        top_format_age(cases[i].s * 1000 + 999, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
}

static void until__is_a_time_a_date_or_no_end(void **state)
{
    struct top_model *model = *state;
    const struct top_pod pods[] = {{.name = "a", .state = "draining", .until_ms = now_ms + 600000},
                                   {.name = "b", .state = "draining", .until_ms = now_ms + 3 * 86400000},
                                   {.name = "c", .state = "draining", .until_ms = UINT64_MAX},
                                   {.name = "d", .state = "available"}};

    top_load_begin(model, TOP_PODS);
    for (size_t i = 0; i < ARRAY_LEN(pods); i++)
        assert_int_equal(top_add_pod(model, &pods[i]), 0);
    top_load_commit(model, TOP_PODS);
    model->view = TOP_PODS;
    expect(draw(model), 4, "10:10:00Z");
    expect(draw(model), 5, "02-11 10:00Z");
    expect(draw(model), 6, "no end");
    expect_not(draw(model), 7, "no end");
}

/* ---- answers of the router ---- */

static void pages__are_read_and_lead_to_the_next(void **state)
{
    static const char first[] =
        "{\"pods\":[{\"pod_name\":\"a\",\"tier\":\"gold\",\"state\":\"draining\",\"is_draining\":true,"
        "\"draining_until\":null,\"last_heartbeat_at\":\"2026-02-08T10:00:00Z\",\"calls\":[\"CA1\",\"CA2\"]}]"
        ","
        "\"total\":2,\"next_cursor\":\"n1\"}";
    static const char last[] = "{\"pods\":[{\"pod_name\":\"b\"},7,null],\"next_cursor\":\"\"}";
    struct top_model *model = *state;
    const struct top_pod *pod;
    struct strbuf cursor;

    strbuf_init(&cursor, NULL, 100);
    top_load_begin(model, TOP_PODS);
    assert_int_equal(top_parse_page(model, TOP_PODS, SLICE(first), &cursor), 0);
    assert_string_equal(cursor.data, "n1");
    assert_int_equal(top_parse_page(model, TOP_PODS, SLICE(last), &cursor), 0);
    assert_int_equal(cursor.len, 0);
    assert_int_equal(top_parse_page(model, TOP_PODS, SLICE("{\"pods\":{}}"), &cursor), -EINVAL);
    assert_int_equal(top_parse_page(model, TOP_PODS, SLICE("<html>"), &cursor), -EINVAL);
    assert_int_equal(top_parse_page(model, TOP_CALLS, SLICE(last), &cursor), -EINVAL);
    top_load_commit(model, TOP_PODS);
    top_filter(model, "");
    pod = top_selected(model, TOP_PODS);
    assert_string_equal(pod->name, "a");
    assert_int_equal(pod->calls, 2);
    assert_int_equal(pod->heartbeat_ms, now_ms);
    assert_true(pod->until_ms == UINT64_MAX);
    strbuf_release(&cursor);
}

static void status__refuses_what_is_none(void **state)
{
    struct top_model *model = *state;

    assert_int_equal(top_parse_status(model, SLICE("")), -EINVAL);
    assert_int_equal(top_parse_status(model, SLICE("[]")), -EINVAL);
    assert_int_equal(top_parse_status(model, SLICE("{\"hello\":1}")), -EINVAL);
    assert_false(model->has_status);
    assert_int_equal(top_parse_status(model, SLICE("{\"status\":\"up\",\"tiers\":[],\"pods\":-1e300}")), 0);
    assert_int_equal(model->status.pods, 0);
    draw(model);
}

static void events__are_read_with_their_details(void **state)
{
    struct top_model *model = *state;
    const struct top_event *event;

    top_parse_event(model, SLICE("{\"event\":\"listening\"}"), now_ms);
    top_parse_event(model, SLICE("no JSON"), now_ms);
    top_parse_event(model, SLICE("{\"event\":7}"), now_ms);
    assert_int_equal(top_total(&model->lists[TOP_EVENTS]), 1);
    top_parse_event(
        model,
        SLICE("{\"event\":\"allocated\",\"time\":\"2026-02-08T10:00:01.500Z\",\"call_sid\":\"CA1\","
              "\"pod_name\":\"a\",\"source_pool\":\"pool:gold\",\"merchant_id\":\"acme\"}"),
        now_ms);
    top_parse_event(model, SLICE("{\"event\":\"pods_changed\",\"reason\":\"added\",\"count\":3}"), now_ms);
    type(model, "4");
    event = top_selected(model, TOP_EVENTS);
    assert_string_equal(event->kind, "allocated");
    assert_int_equal(event->time_ms, now_ms + 1500);
    assert_string_equal(event->detail, "pool:gold merchant acme");
    assert_non_null(strstr(draw(model)->text[5], "added 3"));
}

static void answers__become_messages(void **state)
{
    struct top_request drain = {.action = TOP_DRAIN, .name = "a"};
    struct top_request release = {.action = TOP_RELEASE, .name = "CA1"};
    struct top_model *model = *state;

    top_parse_answer(
        model, &drain, 200,
        SLICE("{\"success\":true,\"calls_left\":1,\"draining_until\":\"2026-02-08T10:10:00Z\"}"));
    assert_string_equal(model->message, "a is draining, 1 call left, until 2026-02-08T10:10:00Z");
    assert_false(model->is_message_bad);
    top_parse_answer(model, &drain, 403, SLICE("{\"success\":false,\"error\":\"not for this key\"}"));
    assert_string_equal(model->message, "a is not drained: 403 not for this key");
    assert_true(model->is_message_bad);
    top_parse_answer(model, &release, 200,
                     SLICE("{\"success\":true,\"pod_name\":\"a\",\"released_to_pool\":\"pool:gold\"}"));
    assert_string_equal(model->message, "CA1 is released, a is back in pool:gold");
    top_parse_answer(model, &release, 502, SLICE("<html>"));
    assert_string_equal(model->message, "CA1 is not released: status 502");
}

static void times__are_read_to_the_millisecond(void **state UNUSED)
{
    static const char *const bad[] = {"", "now", "2026-02-08", "2026-02-08T10:00:00",
                                      "2026-02-08T10:00:00Zx"};

    assert_int_equal(top_parse_time("2026-02-08T10:00:00Z"), now_ms);
    assert_int_equal(top_parse_time("2026-02-08T10:00:00.007Z"), now_ms + 7);
    assert_int_equal(top_parse_time("2026-02-08T10:00:00.5Z"), now_ms + 500);
    assert_int_equal(top_parse_time("2026-02-08T10:00:00.123456789Z"), now_ms + 123);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(top_parse_time(bad[i]), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pods__are_sorted_by_state_first),
        TEST(sort__goes_through_the_columns_and_turns_round),
        TEST(sort__by_age_has_the_oldest_first_and_those_without_last),
        TEST(sort__by_bar_has_the_fullest_pool_first),
        TEST(filter__finds_texts_of_all_columns_whatever_their_case),
        TEST(filter__is_bounded),
        TEST(cursor__stays_with_its_row_when_others_come_and_go),
        TEST(cursor__on_the_first_row_stays_there_until_it_is_moved),
        TEST(cursor__never_leaves_the_rows),
        TEST(page_keys__move_by_what_is_on_the_screen),
        TEST(load__shows_the_old_rows_until_it_is_complete),
        TEST(load__of_more_rows_than_there_is_room_for_is_cut),
        TEST(ten_thousand_pods__cost_only_what_is_visible),
        TEST(events__are_bounded_and_the_newest_is_first),
        TEST(waiting_calls__are_in_the_order_of_the_line),
        TEST(waiting_calls__that_are_none_are_said),
        TEST(waiting_calls__are_released_without_a_pod),
        TEST(waiting_calls__are_counted_in_their_pool_and_in_the_head),
        TEST(events_of_the_line__are_read_with_their_details),
        TEST(drain__is_sent_after_yes_alone),
        TEST(release__names_the_call_and_its_pod),
        TEST(requests__need_a_row_of_their_view),
        TEST(small_screen__says_so_and_takes_no_key_but_q),
        TEST(any_size__has_a_drawing_inside_it),
        TEST(names__never_reach_the_terminal_raw),
        TEST(long_names__lose_their_middle),
        TEST(head__says_what_the_router_is_and_whether_it_answers),
        TEST(old_rows__are_grey),
        TEST(bars__never_leave_their_field),
        TEST(ages__are_short),
        TEST(until__is_a_time_a_date_or_no_end),
        TEST(pages__are_read_and_lead_to_the_next),
        TEST(status__refuses_what_is_none),
        TEST(events__are_read_with_their_details),
        TEST(answers__become_messages),
        TEST(times__are_read_to_the_millisecond),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
