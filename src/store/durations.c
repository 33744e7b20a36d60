#include "store/durations.h"

static const double bounds[] = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                0.005,   0.01,     0.025,   0.05,   0.1,     0.25,   0.5,   1};

int store_durations_init(struct store_durations *durations, struct metrics *metrics)
{
    static const char *const labels[] = {"operation"};

    *durations = (struct store_durations){0};
    durations->family =
        metrics_family(metrics, METRICS_HISTOGRAM, "smart_router_store_duration_seconds",
                       "Time that the store took to answer.", labels, 1, bounds, ARRAY_LEN(bounds));
    return durations->family ? 0 : -ENOMEM;
}

void store_durations_observe(struct store_durations *durations, enum command_type type, uint64_t duration_ns)
{
    const char *name = command_name(type);

    if (!durations->by_type[type])
        durations->by_type[type] = metrics_series(durations->family, &name);
    metrics_observe(durations->by_type[type], (double)duration_ns / 1e9);
}
