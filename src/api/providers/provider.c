#include "api/providers/provider.h"

const char *provider_default_template(const char *name)
{
    return strcmp(name, provider_exotel.name) == 0 ? provider_exotel.default_template
                                                   : provider_twilio.default_template;
}
