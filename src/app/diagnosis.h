/*
 * diagnosis.h - the part of GET /api/v1/diagnosis that the API does not know: settings that matter, the
 * certificate, the last sync.
 */
#ifndef APP_DIAGNOSIS_H
#define APP_DIAGNOSIS_H

#include "app/leadership.h"
#include "base/json.h"
#include "config/config.h"

/* Borrowed; `leadership` may be NULL, and may change. */
struct diagnosis_facts {
    const struct config *config;
    struct leadership *const *leadership;
};

/* See api_settings.put_facts; `arg` is a struct diagnosis_facts. Puts no secret. */
void diagnosis_put_facts(void *arg, struct json_writer *json);

#endif
