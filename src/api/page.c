/*
 * page.c - one page of a list, read and rendered in slices.
 */
#include "api/page.h"

struct page *page_new(struct api *api, struct http_request *request, const char *name,
                      void (*stored)(struct api_task *task, const struct result *result))
{
    struct page *page = api_task_new(api, request, sizeof(*page), stored);

    if (!page)
        return NULL;
    api_reply_begin(request, &page->buf, &page->json);
    json_key(&page->json, name);
    json_array_begin(&page->json);
    return page;
}

struct page *page_of(struct api_task *task)
{
    return CONTAINER_OF(task, struct page, task);
}

size_t page_next(struct page *page)
{
    page->asked = (size_t)min_u64(page->left, PAGE_SLICE);
    return page->asked;
}

void page_ask(struct page *page)
{
    api_execute(&page->task, &page->command);
}

bool page_goes_on(struct page *page, size_t count, const char *cursor)
{
    assert(count <= page->asked && page->asked <= page->left);
    page->left -= count;
    if (count < page->asked || page->left == 0 || cursor[0] == '\0')
        return false;
    page->cursor = arena_strdup(http_request_arena(page->task.request), cursor);
    page->buf.failed |= !page->cursor;
    return page->cursor != NULL;
}

void page_reply(struct page *page, uint64_t total, const char *cursor)
{
    json_array_end(&page->json);
    json_put_u64(&page->json, "total", total);
    json_put_string(&page->json, "next_cursor", cursor);
    json_object_end(&page->json);
    api_reply_json(page->task.request, 200, &page->buf);
}
