/*
 * slice.h - texts as they stand in headers: words whatever their case, blanks around them, lists with commas.
 *
 * Pure functions; nothing is copied.
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include "base/base.h"

/* Is `text` that word, whatever the case? `word` is lower case. */
static inline bool slice_is_word(struct slice text, const char *word)
{
    size_t len = strlen(word); /* known to the compiler, where the word is a literal */

    if (text.len != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text.data[i];

        if ((c >= 'A' && c <= 'Z' ? c | 0x20 : c) != word[i])
            return false;
    }
    return true;
}

/* Has it only printable ASCII characters, and no space? True for an empty one. */
bool slice_is_printable(struct slice text);

/* Without blanks and tabs at its ends. */
struct slice slice_trim(struct slice text);

/*
 * Cuts the first entry, or the last, off a list with commas; it is trimmed and may be empty. False: nothing
 * is left; `list->data` is NULL then.
 */
bool slice_take_first(struct slice *list, struct slice *ret_entry);
bool slice_take_last(struct slice *list, struct slice *ret_entry);

#endif
