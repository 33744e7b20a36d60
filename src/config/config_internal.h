/*
 * config_internal.h - what a loaded configuration holds. Inside the room only.
 */
#ifndef CONFIG_CONFIG_INTERNAL_H
#define CONFIG_CONFIG_INTERNAL_H

#include <stdio.h>

#include "config/table.h"

struct config {
    struct arena arena;
    struct settings settings;
    struct strbuf errors;
    struct strbuf inert;
    /* Beside the table, row by row. */
    const char **texts; /* what is in force, as text */
    bool *is_set;       /* by the environment */
    bool *is_raised;    /* made greater than it was given */
};

#endif
