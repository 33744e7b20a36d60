/*
 * event_memory.c - keeps the last events in one piece of text, so that everything after an event is
 * one slice.
 */
#include "api/event_memory.h"

#include <stdlib.h>

enum {
    /* Twice as much as may be kept: the text moves to the front only once per EVENT_MEMORY_BYTES. */
    MEMORY_ROOM = 2 * EVENT_MEMORY_BYTES,
};

struct remembered {
    size_t at; /* in `text` */
    size_t len;
    size_t id_at;
    size_t id_len;
};

struct event_memory {
    size_t first; /* in `events`: the oldest */
    size_t count;
    size_t start; /* in `text`: of the oldest event */
    size_t end;
    struct remembered events[EVENT_MEMORY_COUNT];
    char text[MEMORY_ROOM];
};

int event_memory_new(struct event_memory **ret_memory)
{
    struct event_memory *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return -ENOMEM;
    *ret_memory = memory;
    return 0;
}

struct event_memory *event_memory_free(struct event_memory *memory)
{
    free(memory);
    return NULL;
}

void event_memory_forget(struct event_memory *memory)
{
    memory->first = 0;
    memory->count = 0;
    memory->start = 0;
    memory->end = 0;
}

static struct remembered *remembered_at(struct event_memory *memory, size_t index)
{
    return &memory->events[(memory->first + index) % EVENT_MEMORY_COUNT];
}

static void drop_oldest(struct event_memory *memory)
{
    assert(memory->count > 0);
    memory->start += remembered_at(memory, 0)->len;
    memory->first = (memory->first + 1) % EVENT_MEMORY_COUNT;
    memory->count--;
}

static void move_to_front(struct event_memory *memory)
{
    size_t moved = memory->start;

    memmove(memory->text, memory->text + moved, memory->end - moved);
    memory->start = 0;
    memory->end -= moved;
    for (size_t i = 0; i < memory->count; i++)
        remembered_at(memory, i)->at -= moved;
}

void event_memory_add(struct event_memory *memory, struct slice text, struct slice id)
{
    assert(text.len <= EVENT_MEMORY_BYTES);
    assert(id.data >= text.data && id.data + id.len <= text.data + text.len);

    while (memory->count == EVENT_MEMORY_COUNT || memory->end - memory->start + text.len > EVENT_MEMORY_BYTES)
        drop_oldest(memory);
    if (memory->end + text.len > MEMORY_ROOM)
        move_to_front(memory);
    memcpy(memory->text + memory->end, text.data, text.len);
    *remembered_at(memory, memory->count) = (struct remembered){
        .at = memory->end,
        .len = text.len,
        .id_at = (size_t)(id.data - text.data),
        .id_len = id.len,
    };
    memory->count++;
    memory->end += text.len;
}

bool event_memory_after(const struct event_memory *memory, struct slice id, struct slice *ret_text)
{
    /* From the newest on: clients mostly come back soon. */
    for (size_t left = memory->count; left > 0; left--) {
        const struct remembered *event = &memory->events[(memory->first + left - 1) % EVENT_MEMORY_COUNT];
        size_t end = event->at + event->len;

        if (event->id_len == id.len &&
            memcmp(memory->text + event->at + event->id_at, id.data, id.len) == 0) {
            *ret_text = (struct slice){memory->text + end, memory->end - end};
            return true;
        }
    }
    return false;
}
