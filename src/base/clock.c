/*
 * clock.c - reads the system's clocks, and formats times as RFC 3339 text.
 */
#include "base/clock.h"

#include <time.h>

static uint64_t clock_read_ns(clockid_t id)
{
    struct timespec ts;
    int err = clock_gettime(id, &ts);

    assert(err == 0);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

uint64_t clock_wall_ms(void)
{
    return clock_read_ns(CLOCK_REALTIME) / 1000000;
}

uint64_t clock_elapsed_ns(void)
{
    return clock_read_ns(CLOCK_BOOTTIME);
}

uint64_t clock_elapsed_ms(void)
{
    return clock_elapsed_ns() / 1000000;
}

static void put_digits(char *at, unsigned value, int digits)
{
    while (digits-- > 0) {
        at[digits] = (char)('0' + value % 10);
        value /= 10;
    }
}

/* Civil date from days since 1970, by whole 400-year eras that start on 1 March. */
static void clock_format_date(uint64_t days, char *text)
{
    uint64_t shifted = days + 719468;
    uint64_t era = shifted / 146097;
    unsigned day_of_era = (unsigned)(shifted % 146097);
    unsigned year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month_from_march = (5 * day_of_year + 2) / 153;
    unsigned day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    unsigned month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    unsigned year = (unsigned)(year_of_era + era * 400 + (month <= 2 ? 1 : 0));

    put_digits(text, year, 4);
    text[4] = '-';
    put_digits(text + 5, month, 2);
    text[7] = '-';
    put_digits(text + 8, day, 2);
}

void clock_format_seconds(uint64_t wall_ms, char text[CLOCK_TEXT_MAX])
{
    const uint64_t last_second = UINT64_C(253402300799); /* 9999-12-31T23:59:59Z */
    uint64_t seconds = min_u64(wall_ms / 1000, last_second);
    unsigned in_day = (unsigned)(seconds % 86400);

    clock_format_date(seconds / 86400, text);
    text[10] = 'T';
    put_digits(text + 11, in_day / 3600, 2);
    text[13] = ':';
    put_digits(text + 14, in_day / 60 % 60, 2);
    text[16] = ':';
    put_digits(text + 17, in_day % 60, 2);
    text[19] = 'Z';
    text[20] = '\0';
}

void clock_format_millis(uint64_t wall_ms, char text[CLOCK_TEXT_MAX])
{
    clock_format_seconds(wall_ms, text);
    text[19] = '.';
    put_digits(text + 20, (unsigned)(wall_ms % 1000), 3);
    text[23] = 'Z';
    text[24] = '\0';
}
