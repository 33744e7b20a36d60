/*
 * check.h - checks of settings that need other modules: tiers, names of pods, URL templates.
 */
#ifndef APP_CHECK_H
#define APP_CHECK_H

#include "config/config.h"

/* Adds an error to `config` for each value that the module it is meant for would refuse. */
void check_settings(struct config *config);

/* The same for the secrets alone: what a reload may change. */
void check_secrets(struct config *config);

#endif
