/*
 * app.h - the router as a process: builds the modules from the settings, runs the loop, takes
 * everything down.
 */
#ifndef APP_APP_H
#define APP_APP_H

#include "config/config.h"

/* Serves until a signal ends it. Returns the exit status. The settings must have no errors. */
int app_run(const struct config *config);

#endif
