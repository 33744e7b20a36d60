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

/* The provider of that name, in whatever case; NULL: there is none. */
static const struct provider *provider_find(const char *name)
{
    static const struct provider *const providers[] = {&provider_twilio, &provider_plivo, &provider_exotel};

    for (size_t i = 0; i < ARRAY_LEN(providers); i++) {
        if (strcasecmp(name, providers[i]->name) == 0)
            return providers[i];
    }
    return NULL;
}

const char *provider_spelling(const char *name)
{
    const struct provider *provider = provider_find(name);

    return provider ? provider->name : name;
}

bool provider_can_wait(const char *name)
{
    const struct provider *provider = provider_find(name);

    return provider && provider->render_later;
}

const char *provider_default_template(const char *name)
{
    const struct provider *provider = provider_find(name);
    bool is_spelled_so = provider && strcmp(provider->name, name) == 0; /* the URL has the name as it came */

    return (is_spelled_so ? provider : &provider_twilio)->default_template;
}
