/*
 * core_settings.h - the settings of the domain, which both stores need.
 */
#ifndef APP_CORE_SETTINGS_H
#define APP_CORE_SETTINGS_H

#include "config/config.h"
#include "core/core.h"

struct core_settings app_core_settings(const struct settings *settings);

#endif
