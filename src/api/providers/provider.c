/*
 * provider.c - rules that are common to all providers: final statuses, spelling of names, default
 * templates.
 */
#include "api/providers/provider.h"

#include <strings.h>

bool provider_status_is_final(const char *status)
{
    static const char *const words[] = {"completed", "busy",      "failed", "no-answer",
                                        "canceled",  "cancelled", "cancel", "timeout"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strcasecmp(status, words[i]) == 0)
            return true;
    }
    return false;
}

const char *provider_spelling(const char *name)
{
    static const struct provider *const providers[] = {&provider_twilio, &provider_plivo, &provider_exotel};

    for (size_t i = 0; i < ARRAY_LEN(providers); i++) {
        if (strcasecmp(name, providers[i]->name) == 0)
            return providers[i]->name;
    }
    return name;
}

const char *provider_default_template(const char *name)
{
    return strcmp(name, provider_exotel.name) == 0 ? provider_exotel.default_template
                                                   : provider_twilio.default_template;
}
