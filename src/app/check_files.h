/*
 * check_files.h - for `check-config`: opens the files that settings name, and reads what it can.
 */
#ifndef APP_CHECK_FILES_H
#define APP_CHECK_FILES_H

#include "config/config.h"

/*
 * Appends a line for each finding, which begins with the name of the setting; lines that begin with
 * "warning: " are no faults. The settings must be valid. False: there is a fault.
 */
bool check_files(const struct config *config, struct strbuf *findings);

#endif
