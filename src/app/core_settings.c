/*
 * core_settings.c - copies the settings of the domain from those of the process.
 */
#include "app/core_settings.h"

struct core_settings app_core_settings(const struct settings *settings)
{
    return (struct core_settings){
        .lease_ttl_ms = settings->lease_ttl_ms,
        .call_max_duration_ms = settings->call_max_duration_ms,
        .connect_timeout_ms = settings->connect_timeout_ms,
        .draining_ttl_ms = settings->draining_ttl_ms,
        .heartbeat_ttl_ms = settings->heartbeat_ttl_ms,
        .hold_max_wait_ms = settings->hold_max_wait_ms,
        .hold_max_calls = settings->hold_max_calls,
        .hold_ageing_ms = settings->hold_ageing_ms,
        .rescues = settings->rescue,
    };
}
