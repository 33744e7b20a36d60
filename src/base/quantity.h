/*
 * quantity.h - numbers and durations as people write them: "250", "90s", "1h30m".
 */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

#include "base/strbuf.h"

/*
 * Decimal digits: no sign, no blanks. *text is behind them afterwards. False: there are none, or they are too
 * many.
 */
bool quantity_digits(const char **text, uint64_t *ret_value);

/* "0", or numbers with the units ms, s, m or h, each with its own: "1h30m". */
bool quantity_duration(const char *text, uint64_t *ret_ms);

/* 5400000 gives "1h30m". */
void quantity_append_duration(struct strbuf *buf, uint64_t ms);

#endif
