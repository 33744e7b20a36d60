/*
 * descriptors.h - how many files and sockets the process may open, and how many it may need.
 */
#ifndef APP_DESCRIPTORS_H
#define APP_DESCRIPTORS_H

#include "config/config.h"

enum { METRICS_CONNECTIONS_MAX = 100 };

/*
 * Raises the limit as far as it goes, and warns if that is not enough for the settings. Returns how many
 * connections the API may have: MAX_CONNECTIONS, or as many as fit.
 */
size_t app_raise_descriptors(const struct settings *settings);

#endif
