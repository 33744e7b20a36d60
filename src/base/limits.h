/*
 * limits.h - limits that both a module and the description of a setting need, written once.
 *
 * They are macros, so that LIMIT_TEXT can put them into a sentence.
 */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#define KEYS_MAX 1000   /* lines of API_KEYS with a key */
#define KEY_NAME_MAX 31 /* shorter than a good secret: one that stands in the place of a name is refused */

/* "31" for KEY_NAME_MAX. */
#define LIMIT_TEXT(limit) LIMIT_TEXT_OF_(limit)
#define LIMIT_TEXT_OF_(limit) #limit

#endif
