/*
 * pod_list.c - parses the pages of a pod list item by item, and sorts the pods by name.
 */
#include "k8s/pod_list.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

enum {
    LIST_STRINGS_MAX = K8S_POD_LIST_MAX * 512,
    LIST_TREE_MAX = 256 * 1024 * 1024, /* of one item: a tree takes many times its text */
    LIST_FIRST = 64,
};

/*
 * What is left of a page. Only brackets, commas and strings are looked at here; whether an item is valid is
 * found out when it is parsed, so that a bad one does not hide the others.
 */
struct page {
    const char *at;
    const char *end;
};

void k8s_pod_list_init(struct k8s_pod_list *list, const char *agent_container)
{
    *list = (struct k8s_pod_list){.agent_container = agent_container};
    arena_init(&list->strings, LIST_STRINGS_MAX);
}

void k8s_pod_list_release(struct k8s_pod_list *list)
{
    free(list->pods);
    arena_release(&list->strings);
    k8s_pod_list_init(list, list->agent_container);
}

static void page_skip_space(struct page *page)
{
    while (page->at < page->end &&
           (*page->at == ' ' || *page->at == '\t' || *page->at == '\n' || *page->at == '\r'))
        page->at++;
}

/* White space, then that character. */
static bool page_take(struct page *page, char c)
{
    page_skip_space(page);
    if (page->at == page->end || *page->at != c)
        return false;
    page->at++;
    return true;
}

/* The rest of a string whose first quote has been taken. */
static bool page_take_string(struct page *page)
{
    while (page->at < page->end) {
        char c = *page->at++;

        if (c == '"')
            return true;
        if (c == '\\' && page->at < page->end)
            page->at++;
    }
    return false;
}

/* The rest of an object or array whose first bracket has been taken. */
static bool page_take_brackets(struct page *page)
{
    size_t depth = 1;

    while (page->at < page->end) {
        char c = *page->at++;

        if (c == '"') {
            if (!page_take_string(page))
                return false;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return true;
        }
    }
    return false;
}

/* Any value, as it stands in the text. */
static bool page_take_value(struct page *page, struct slice *ret_value)
{
    const char *start;
    bool is_whole = true;

    page_skip_space(page);
    if (page->at == page->end)
        return false;
    start = page->at++;
    if (*start == '"')
        is_whole = page_take_string(page);
    else if (*start == '{' || *start == '[')
        is_whole = page_take_brackets(page);
    else
        while (page->at < page->end && *page->at != ',' && *page->at != '}' && *page->at != ']')
            page->at++;
    *ret_value = (struct slice){start, (size_t)(page->at - start)};
    return is_whole;
}

static int list_make_room(struct k8s_pod_list *list)
{
    size_t room = list->room ? list->room * 2 : LIST_FIRST;
    struct k8s_pod *pods;

    if (list->count >= K8S_POD_LIST_MAX)
        return -E2BIG;
    if (list->count < list->room)
        return 0;
    pods = realloc(list->pods, room * sizeof(*pods));
    if (!pods)
        return -ENOMEM;
    list->pods = pods;
    list->room = room;
    return 0;
}

/* Says the name of the first of them. */
static void list_count(size_t *count, char name[K8S_POD_NAME_MAX + 1], const struct k8s_pod *pod)
{
    if ((*count)++ == 0)
        snprintf(name, K8S_POD_NAME_MAX + 1, "%s", pod->name);
}

static int list_add_item(struct k8s_pod_list *list, struct slice text, struct arena *tree)
{
    struct k8s_pod *pod;
    const cJSON *object;
    int err = list_make_room(list);

    if (err < 0)
        return err;
    arena_reset(tree);
    pod = &list->pods[list->count];
    object = k8s_object_parse(tree, text);
    err = k8s_pod_parse(object, list->agent_container, &list->strings, pod);
    if (err == -EINVAL)
        err = k8s_pod_parse_name(object, &list->strings, pod);
    if (err < 0)
        return err == -EINVAL ? -EBADMSG : err;
    if (pod->is_unreadable)
        list_count(&list->skipped, list->skipped_name, pod);
    if (pod->lacks_container)
        list_count(&list->lacking, list->lacking_name, pod);
    list->count++;
    return 0;
}

static int list_add_items(struct k8s_pod_list *list, struct page *page)
{
    struct arena tree;
    struct slice item;
    int err = 0;

    if (!page_take(page, '['))
        return page_take_value(page, &item) && slice_equals(item, "null") ? 0 : -EBADMSG;
    if (page_take(page, ']'))
        return 0;
    arena_init(&tree, LIST_TREE_MAX);
    do {
        err = page_take_value(page, &item) ? list_add_item(list, item, &tree) : -EBADMSG;
    } while (err == 0 && page_take(page, ','));
    arena_release(&tree);
    if (err < 0)
        return err;
    return page_take(page, ']') ? 0 : -EBADMSG;
}

static int list_read_metadata(struct k8s_pod_list *list, struct slice text)
{
    const char *version, *token;
    struct arena tree;
    const cJSON *metadata;
    int err = -EBADMSG;

    arena_init(&tree, LIST_TREE_MAX);
    metadata = k8s_object_parse(&tree, text);
    version = json_get_string(metadata, "resourceVersion");
    token = json_get_string(metadata, "continue");
    if (version && version[0] && strlen(version) <= K8S_VERSION_MAX &&
        (!token || strlen(token) <= K8S_CONTINUE_MAX)) {
        memcpy(list->version, version, strlen(version) + 1);
        if (token)
            memcpy(list->continue_token, token, strlen(token) + 1);
        err = 0;
    }
    arena_release(&tree);
    return err;
}

static int list_add_member(struct k8s_pod_list *list, struct page *page, bool *has_items)
{
    struct slice key, value;

    page_skip_space(page);
    if (page->at == page->end || *page->at != '"' || !page_take_value(page, &key) || !page_take(page, ':'))
        return -EBADMSG;
    page_skip_space(page);
    if (slice_equals(key, "\"items\"")) {
        *has_items = true;
        return list_add_items(list, page);
    }
    if (!page_take_value(page, &value))
        return -EBADMSG;
    return slice_equals(key, "\"metadata\"") ? list_read_metadata(list, value) : 0;
}

int k8s_pod_list_add_page(struct k8s_pod_list *list, struct slice text)
{
    struct page page = {text.data, text.data + text.len};
    bool has_items = false;
    int err;

    list->version[0] = '\0';
    list->continue_token[0] = '\0';
    if (!page_take(&page, '{'))
        return -EBADMSG;
    do {
        err = list_add_member(list, &page, &has_items);
    } while (err == 0 && page_take(&page, ','));
    if (err < 0)
        return err;
    if (!page_take(&page, '}'))
        return -EBADMSG;
    page_skip_space(&page);
    /* Without a version there is nothing to watch from; and no items are something else than none of them. */
    return page.at == page.end && has_items && list->version[0] ? 0 : -EBADMSG;
}

/* By name, then in the order in which they came: where a pod stands in the array says that. */
static int list_compare(const void *a, const void *b)
{
    const struct k8s_pod *left = *(const struct k8s_pod *const *)a;
    const struct k8s_pod *right = *(const struct k8s_pod *const *)b;
    int order = strcmp(left->name, right->name);

    if (order != 0)
        return order;
    return left < right ? -1 : left > right;
}

int k8s_pod_list_finish(struct k8s_pod_list *list)
{
    const struct k8s_pod **order = NULL;
    struct k8s_pod *sorted = NULL;
    size_t count = 0;

    if (list->count == 0)
        return 0;
    order = malloc(list->count * sizeof(struct k8s_pod *));
    sorted = malloc(list->count * sizeof(*sorted));
    if (!order || !sorted) {
        free(order);
        free(sorted);
        return -ENOMEM;
    }
    for (size_t i = 0; i < list->count; i++)
        order[i] = &list->pods[i];
    qsort(order, list->count, sizeof(struct k8s_pod *), list_compare);
    for (size_t i = 0; i < list->count; i++) {
        if (i + 1 == list->count || strcmp(order[i]->name, order[i + 1]->name) != 0)
            sorted[count++] = *order[i];
    }
    free(order);
    free(list->pods);
    list->pods = sorted;
    list->room = list->count;
    list->count = count;
    return 0;
}
