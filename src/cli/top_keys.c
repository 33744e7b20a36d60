/*
 * top_keys.c - what a key does in `smart-router top`: views, cursor, sort, filter, and the requests that are
 * confirmed first.
 */
#include "cli/top_keys.h"

#include <stdio.h>

static void switch_view(struct top_model *model, enum top_view view)
{
    model->view = view;
    model->version++;
}

static void start_request(struct top_model *model, enum top_action action, const char *name, const char *pod)
{
    struct top_request *request = &model->request;

    if (strlen(name) >= sizeof(request->name) || strlen(pod) >= sizeof(request->pod)) {
        top_say(model, true, "this name is longer than any that the API accepts");
        return;
    }
    request->action = action;
    snprintf(request->name, sizeof(request->name), "%s", name);
    snprintf(request->pod, sizeof(request->pod), "%s", pod);
    model->mode = TOP_CONFIRM;
}

static void ask_about_pod(struct top_model *model, enum top_action action)
{
    const struct top_pod *pod = model->view == TOP_PODS ? top_selected(model, TOP_PODS) : NULL;

    if (pod)
        start_request(model, action, pod->name, "");
    else
        top_say(model, true, "select a pod first, in the view of the pods: 2");
}

static void ask_about_call(struct top_model *model)
{
    const struct top_call *call = model->view == TOP_CALLS ? top_selected(model, TOP_CALLS) : NULL;
    const struct top_waiter *waiter = model->view == TOP_WAITING ? top_selected(model, TOP_WAITING) : NULL;

    if (call)
        start_request(model, TOP_RELEASE, call->sid, call->pod);
    else if (waiter)
        start_request(model, TOP_RELEASE, waiter->sid, "");
    else
        top_say(model, true, "select a call first, in the view of the calls (3) or of the line (5)");
}

void top_question(const struct top_request *request, char *text, size_t size)
{
    switch (request->action) {
    case TOP_DRAIN:
        snprintf(text, size, "Drain %s? It gets no new call. (y/n)", request->name);
        return;
    case TOP_UNDRAIN:
        snprintf(text, size, "Undrain %s? It gets calls again. (y/n)", request->name);
        return;
    case TOP_RELEASE:
        if (request->pod[0])
            snprintf(text, size, "Release %s? The call ends on %s. (y/n)", request->name, request->pod);
        else
            snprintf(text, size, "Release %s? It ends, also if it has got a pod meanwhile. (y/n)",
                     request->name);
        return;
    }
}

static enum top_answer key_confirm(struct top_model *model, int key)
{
    if (key == 'y' || key == 'Y') {
        model->mode = TOP_NORMAL;
        return TOP_SEND;
    }
    if (key == 'n' || key == 'N' || key == TOP_KEY_ESCAPE || key == 'q') {
        model->mode = TOP_NORMAL;
        top_say(model, false, "nothing was changed");
    }
    return TOP_GO_ON;
}

/* The rows follow each key. Escape takes the filter away, Enter keeps it. */
static void key_filter(struct top_model *model, int key)
{
    char filter[TOP_FILTER_MAX + 1];
    size_t len;

    snprintf(filter, sizeof(filter), "%s", model->lists[model->view].filter);
    len = strlen(filter);
    if (key == TOP_KEY_ENTER || key == TOP_KEY_ESCAPE)
        model->mode = TOP_NORMAL;
    if (key == TOP_KEY_ESCAPE)
        filter[0] = '\0';
    else if (key == TOP_KEY_BACKSPACE && len > 0)
        filter[len - 1] = '\0';
    else if (key >= ' ' && key < 127 && len < TOP_FILTER_MAX)
        snprintf(filter + len, sizeof(filter) - len, "%c", key);
    top_filter(model, filter);
}

static bool key_moves(struct top_model *model, int key)
{
    int64_t page = (int64_t)max_u64(model->page, 1);

    switch (key) {
    case TOP_KEY_UP:
    case 'k':
        top_move(model, -1, false);
        return true;
    case TOP_KEY_DOWN:
    case 'j':
        top_move(model, 1, false);
        return true;
    case TOP_KEY_PAGE_UP:
        top_move(model, -page, false);
        return true;
    case TOP_KEY_PAGE_DOWN:
        top_move(model, page, false);
        return true;
    case TOP_KEY_HOME:
    case 'g':
        top_move(model, 0, true);
        return true;
    case TOP_KEY_END:
    case 'G':
        top_move(model, INT32_MAX, false);
        return true;
    default:
        return false;
    }
}

static enum top_answer key_normal(struct top_model *model, int key)
{
    const struct top_list *list = &model->lists[model->view];

    if (key_moves(model, key))
        return TOP_GO_ON;
    if (key >= '1' && key < '1' + TOP_VIEWS) {
        switch_view(model, (enum top_view)(key - '1'));
        return TOP_GO_ON;
    }
    switch (key) {
    case 'q':
        return TOP_QUIT;
    case TOP_KEY_TAB:
        switch_view(model, (enum top_view)((model->view + 1) % TOP_VIEWS));
        break;
    case TOP_KEY_BACK_TAB:
        switch_view(model, (enum top_view)((model->view + TOP_VIEWS - 1) % TOP_VIEWS));
        break;
    case 's':
        top_sort(model, list->sort + 1, false);
        break;
    case 'S':
        top_sort(model, list->sort, !list->is_reversed);
        break;
    case '/':
        model->mode = TOP_FILTERING;
        break;
    case TOP_KEY_ESCAPE:
        top_filter(model, "");
        break;
    case 'd':
        ask_about_pod(model, TOP_DRAIN);
        break;
    case 'u':
        ask_about_pod(model, TOP_UNDRAIN);
        break;
    case 'r':
        ask_about_call(model);
        break;
    case '?':
    case 'h':
        model->mode = TOP_HELP;
        break;
    default:
        break;
    }
    return TOP_GO_ON;
}

enum top_answer top_key(struct top_model *model, int key)
{
    if (model->is_too_small)
        return key == 'q' ? TOP_QUIT : TOP_GO_ON;
    model->message[0] = '\0';
    model->version++;
    switch (model->mode) {
    case TOP_CONFIRM:
        return key_confirm(model, key);
    case TOP_FILTERING:
        key_filter(model, key);
        return TOP_GO_ON;
    case TOP_HELP:
        model->mode = TOP_NORMAL;
        return TOP_GO_ON;
    case TOP_NORMAL:
        return key_normal(model, key);
    }
    return TOP_GO_ON;
}
