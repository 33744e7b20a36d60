/*
 * ask.c - sends a command to the store and measures the time until the answer.
 */
#include "gateway/ask.h"

#include "base/clock.h"

enum { ASK_MAGIC = 0x61736b20 };

int asker_init(struct asker *asker, struct store *store, struct metrics *metrics)
{
    asker->store = store;
    asker->durations = metrics_store_durations(metrics);
    return asker->durations ? 0 : -ENOMEM;
}

static void ask_answered(void *arg, int err, const struct result *result)
{
    struct ask *ask = arg;
    const char *name = command_name(ask->type);

    MAGIC_CHECK(ask, ASK_MAGIC);
    ask->magic = 0; /* a second answer is an error */
    metrics_observe(metrics_series(ask->asker->durations, &name),
                    (double)(clock_elapsed_ns() - ask->asked_ns) / 1e9);
    ask->done(ask->arg, err, result);
}

int ask_store(const struct asker *asker, struct ask *ask, const struct command *command, struct arena *arena,
              store_done_fn done, void *arg)
{
    *ask = (struct ask){.magic = ASK_MAGIC,
                        .asker = asker,
                        .type = command->type,
                        .asked_ns = clock_elapsed_ns(),
                        .done = done,
                        .arg = arg};
    return store_execute(asker->store, command, arena, ask_answered, ask);
}
