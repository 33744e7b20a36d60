/*
 * table.h - one row per setting. Inside the module only.
 */
#ifndef CONFIG_TABLE_H
#define CONFIG_TABLE_H

#include "config/config.h"

enum setting_type {
    SETTING_STRING,   /* min and max: its length */
    SETTING_LINES,    /* the same, of several lines */
    SETTING_JSON,     /* a string that is a JSON object */
    SETTING_URL,      /* a string; choices: the schemes */
    SETTING_PORT,     /* uint16_t */
    SETTING_UINT,     /* uint64_t */
    SETTING_DURATION, /* uint64_t, in milliseconds */
    SETTING_BOOL,     /* bool */
    SETTING_ENUM,     /* int: the place among the choices */
};

enum setting_state {
    SETTING_WORKS,
    SETTING_INERT, /* checked and shown, but there is nothing for it to tune */
};

struct setting {
    const char *name;
    const char *group;
    enum setting_type type;
    enum setting_state state;
    bool is_secret;       /* masked, and readable from the file that NAME_FILE names */
    size_t offset;        /* in struct settings */
    const char *fallback; /* the default as text; "" means unset */
    uint64_t min;
    uint64_t max;
    const char *choices; /* separated by '|' */
    const char *help;
};

extern const struct setting config_table[];
extern const size_t config_table_len;

#endif
