/*
 * warn.h - what an operator should know at the start: settings that are allowed, and leave a door open.
 */
#ifndef APP_WARN_H
#define APP_WARN_H

#include "config/config.h"

/* Logs what is unset or without effect; names of settings, never their values. */
void warn_of_settings(const struct config *config);

/* Names the secrets that could be guessed. */
void warn_of_short_secrets(const struct settings *settings);

#endif
