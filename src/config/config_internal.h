/*
 * config_internal.h - the struct of a loaded configuration. Inside the module only.
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
    struct strbuf service_ports;
    /* Beside the table, row by row. */
    const char **texts; /* what is in force, as text */
    bool *is_set;       /* by the environment, or by a file that it names */
    bool *is_from_file; /* which of the two */
    const char **notes; /* why it is not as given or by default, after a comma; NULL: it is */
    const char **paths; /* of the file that it came from; NULL: none */
};

/*
 * The secret in the file at `path`, in the config's arena, without the newlines at its end.
 *
 * 0; -ENOMEM; -EINVAL with a sentence part in `why` that goes on after "that file ".
 */
int config_read_secret(struct config *config, const char *path, const char **ret_text,
                       struct strbuf *why) MUST_CHECK;

#endif
