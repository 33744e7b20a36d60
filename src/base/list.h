/*
 * list.h - doubly linked lists whose links live inside the elements.
 *
 * An element that is in no list has a link that points at itself, so that removing it twice is harmless.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/base.h"

struct list {
    struct list *next;
    struct list *prev;
};

static inline void list_init(struct list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool list_is_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_append(struct list *list, struct list *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* Moves all of `from` to the end of `list`. */
static inline void list_move(struct list *list, struct list *from)
{
    while (from->next != from) {
        struct list *first = from->next;

        list_remove(first);
        list_append(list, first);
    }
}

#define LIST_ENTRY(link, type, member) CONTAINER_OF(link, type, member)

/* The body may remove `link` itself, and nothing else. */
#define LIST_FOR_EACH(link, head)                                                                            \
    for (struct list *link = (head)->next, *link##_next_ = link->next; link != (head);                       \
         link = link##_next_, link##_next_ = link->next)

#endif
