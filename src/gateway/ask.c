/*
 * ask.c - sends a command to the store and measures the time until the answer.
 */
#include "gateway/ask.h"

#include "base/clock.h"

int asker_init(struct asker *asker, struct store *store, struct metrics *metrics)
{
    /* Those of src/api/instruments.c, which observes the same family. */
    static const double bounds[] = {0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                    0.005,   0.01,     0.025,   0.05,   0.1,     0.25,   0.5,   1};
    static const char *const labels[] = {"operation"};

    asker->store = store;
    asker->durations =
        metrics_family(metrics, METRICS_HISTOGRAM, "smart_router_store_duration_seconds",
                       "Time that the store took to answer.", labels, 1, bounds, ARRAY_LEN(bounds));
    return asker->durations ? 0 : -ENOMEM;
}

static void ask_answered(void *arg, int err, const struct result *result)
{
    struct ask *ask = arg;
    const char *name = command_name(ask->type);

    metrics_observe(metrics_series(ask->asker->durations, &name),
                    (double)(clock_elapsed_ns() - ask->asked_ns) / 1e9);
    ask->done(ask->arg, err, result);
}

int ask_store(const struct asker *asker, struct ask *ask, const struct command *command, struct arena *arena,
              store_done_fn done, void *arg)
{
    *ask = (struct ask){
        .asker = asker, .type = command->type, .asked_ns = clock_elapsed_ns(), .done = done, .arg = arg};
    return store_execute(asker->store, command, arena, ask_answered, ask);
}
