/*
 * base.h - the few macros and types that every module uses.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef NDEBUG
#error "assertions stay on in every build"
#endif

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt_index, args_index) __attribute__((format(printf, fmt_index, args_index)))
#define UNUSED __attribute__((unused))

/* Runs `fn(&variable)` when the variable goes out of scope. */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Hands over ownership: gives the pointer and leaves NULL behind, so that a CLEANUP does nothing. */
#define TAKE(pointer)                                                                                        \
    __extension__({                                                                                          \
        __typeof__(pointer) taken_ = (pointer);                                                              \
        (pointer) = NULL;                                                                                    \
        taken_;                                                                                              \
    })

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

#define CONTAINER_OF(pointer, type, member)                                                                  \
    ((type *)(void *)((char *)(uintptr_t)(pointer)-offsetof(type, member)))

/*
 * Checks a pointer that came back through a `void *`. The struct has a member `unsigned magic`, which
 * has this value from its initialisation until it is freed.
 */
#define MAGIC_CHECK(pointer, value) assert((pointer)->magic == (value))

/* A run of bytes that somebody else owns; not NUL-terminated. */
struct slice {
    const char *data;
    size_t len;
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline struct slice slice_of(const char *text)
{
    return (struct slice){text, text ? strlen(text) : 0};
}

static inline bool slice_equals(struct slice slice, const char *text)
{
    size_t len = strlen(text);

    return slice.len == len && memcmp(slice.data, text, len) == 0;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
