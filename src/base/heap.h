/*
 * heap.h - finds the element that is due first: a binary heap of nodes that live inside the
 * elements.
 *
 * A node knows its place, so that it can be moved or removed without a search.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "base/base.h"

struct heap_node {
    uint64_t at;
    size_t place; /* 1-based; 0: in no heap */
};

/* Is the element of `a` to come before that of `b`, which is due at the same time? */
typedef bool heap_tie_fn(const struct heap_node *a, const struct heap_node *b);

struct heap {
    struct heap_node **nodes;
    size_t count;
    size_t room;
    heap_tie_fn *tie; /* NULL: elements that are due at the same time are in no order */
};

void heap_init(struct heap *heap);
/* The same, with an order for elements that are due at the same time. */
void heap_init_ordered(struct heap *heap, heap_tie_fn *tie);
void heap_release(struct heap *heap);

/* Makes sure that `count` nodes fit, so that the next heap_set cannot fail. 0 or -ENOMEM. */
int heap_reserve(struct heap *heap, size_t count) MUST_CHECK;

/* Inserts the node or moves it. The heap must have room (heap_reserve) if the node is not in it yet. */
void heap_set(struct heap *heap, struct heap_node *node, uint64_t at);

/* Does nothing for a node that is in no heap. */
void heap_remove(struct heap *heap, struct heap_node *node);

/* The node that falls due first, or NULL. */
struct heap_node *heap_first(const struct heap *heap);

#endif
