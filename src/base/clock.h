/*
 * clock.h - the time. Modules that make decisions get it as an argument; only the outer modules ask
 * here.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/base.h"

enum { CLOCK_TEXT_MAX = 32 };

/* Since 1970, as the machine believes; can jump. */
uint64_t clock_wall_ms(void);

/* Never goes back, counts while the machine sleeps. */
uint64_t clock_elapsed_ms(void);
uint64_t clock_elapsed_ns(void);

/* "2026-02-08T10:00:00Z" (whole seconds) and "2026-02-08T10:00:00.123Z"; times beyond year 9999 are clipped.
 */
void clock_format_seconds(uint64_t wall_ms, char text[CLOCK_TEXT_MAX]);
void clock_format_millis(uint64_t wall_ms, char text[CLOCK_TEXT_MAX]);

#endif
