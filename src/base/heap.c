/*
 * heap.c - a binary heap of nodes, as an array of pointers that grows.
 */
#include "base/heap.h"

#include <stdlib.h>

void heap_init(struct heap *heap)
{
    *heap = (struct heap){0};
}

void heap_init_ordered(struct heap *heap, heap_tie_fn *tie)
{
    *heap = (struct heap){.tie = tie};
}

void heap_release(struct heap *heap)
{
    free(heap->nodes);
    heap_init_ordered(heap, heap->tie);
}

static bool node_is_before(const struct heap *heap, const struct heap_node *a, const struct heap_node *b)
{
    return a->at != b->at ? a->at < b->at : heap->tie && heap->tie(a, b);
}

int heap_reserve(struct heap *heap, size_t count)
{
    struct heap_node **nodes;
    size_t room = heap->room ? heap->room : 64;

    if (count <= heap->room)
        return 0;
    while (room < count)
        room *= 2;
    nodes = realloc(heap->nodes, room * sizeof(*nodes));
    if (!nodes)
        return -ENOMEM;
    heap->nodes = nodes;
    heap->room = room;
    return 0;
}

static void heap_put(struct heap *heap, struct heap_node *node, size_t place)
{
    heap->nodes[place - 1] = node;
    node->place = place;
}

static void heap_rise(struct heap *heap, struct heap_node *node)
{
    size_t place = node->place;

    while (place > 1 && node_is_before(heap, node, heap->nodes[place / 2 - 1])) {
        heap_put(heap, heap->nodes[place / 2 - 1], place);
        place /= 2;
    }
    heap_put(heap, node, place);
}

static void heap_sink(struct heap *heap, struct heap_node *node)
{
    size_t place = node->place;

    for (;;) {
        size_t child = place * 2;

        if (child > heap->count)
            break;
        if (child < heap->count && node_is_before(heap, heap->nodes[child], heap->nodes[child - 1]))
            child++;
        if (!node_is_before(heap, heap->nodes[child - 1], node))
            break;
        heap_put(heap, heap->nodes[child - 1], place);
        place = child;
    }
    heap_put(heap, node, place);
}

void heap_set(struct heap *heap, struct heap_node *node, uint64_t at)
{
    node->at = at;
    if (node->place == 0) {
        assert(heap->count < heap->room);
        heap->count++;
        heap_put(heap, node, heap->count);
    }
    heap_rise(heap, node);
    heap_sink(heap, node);
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    struct heap_node *last;

    if (node->place == 0)
        return;
    assert(heap->nodes[node->place - 1] == node);
    last = heap->nodes[heap->count - 1];
    heap->count--;
    if (last != node) {
        heap_put(heap, last, node->place);
        heap_rise(heap, last);
        heap_sink(heap, last);
    }
    node->place = 0;
}

struct heap_node *heap_first(const struct heap *heap)
{
    return heap->count ? heap->nodes[0] : NULL;
}
