/*
 * page.h - one page of a list, read and rendered in slices.
 *
 * A page has up to PAGE_MAX entries. Rendering them at once would hold up every other request for a
 * millisecond, and so would one script in Redis. So a page asks the store for PAGE_SLICE entries at a
 * time, and the loop serves others between two slices.
 */
#ifndef API_PAGE_H
#define API_PAGE_H

#include "api/api_internal.h"

enum { PAGE_SLICE = 50 };

struct page {
    struct api_task task;
    struct command command; /* the caller fills it */
    size_t left;            /* entries that the client still wants; the caller sets it first */
    size_t asked;           /* entries of the slice that is under way */
    const char *cursor;     /* where the next slice begins: see page_goes_on */
    struct strbuf buf;
    struct json_writer json;
};

/*
 * Makes a page whose entries stand in the member `name` of the answer. `stored` gets each slice: page_of() is
 * its page. NULL: no memory; the request is answered.
 */
struct page *page_new(struct api *api, struct http_request *request, const char *name,
                      void (*stored)(struct api_task *task, const struct result *result));

struct page *page_of(struct api_task *task);

/* The limit of the next slice. */
size_t page_next(struct page *page);

/* Sends the command. */
void page_ask(struct page *page);

/*
 * The slice had `count` entries. True: the next one is to be asked for, from page->cursor on. False: the page
 * is complete; or the store gave fewer entries than it was asked for, because it has looked at as many as one
 * request may make it look at.
 */
bool page_goes_on(struct page *page, size_t count, const char *cursor);

/* Ends the answer, and sends it. */
void page_reply(struct page *page, uint64_t total, const char *cursor);

#endif
