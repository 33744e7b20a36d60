/*
 * sim.h - the simulator of core: one run, and what the shadow knows.
 *
 * The shadow is a second opinion: a few arrays that only know what core has answered, and from which every
 * answer about a call can be foretold. Only for the files of sim-core.
 */
#ifndef TEST_SIM_SIM_H
#define TEST_SIM_SIM_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "core/core.h"

enum {
    PODS = 14,
    SIDS = 60,
    MERCHANTS = 6,
    NOWHERE = -1, /* instead of a pod */
};

/* The place of a call in line. */
struct shadow_wait {
    bool is_waiting;
    bool has_joined; /* in this step, after its pod broke */
    bool is_rescued;
    bool was_renewed; /* before its pod broke */
    bool awaits_stream;
    bool is_held;
    uint64_t since_ms; /* also of a granted call */
    uint64_t until_ms;
    uint64_t heard_at_ms;
    uint64_t lost_pod_at_ms; /* is_rescued: or the start of the process; 0: never */
    int64_t place;
    unsigned priority;
    uint64_t attempt;
    char pools[512];    /* labels, with a space around each; of a granted call the one of its pod */
    char stood_in[512]; /* of a granted call: the labels when it stood in line */
};

/* Grants of one pool in one minute. */
struct shadow_grants {
    char label[32];
    uint64_t minute;
    uint64_t count;
};

struct shadow_call {
    bool is_known;        /* answered with success, and no end was reported */
    int pod;              /* where it is, or was last */
    const char *provider; /* whose call it is */
    uint64_t allocated_at_ms;
    uint64_t placed_at_ms; /* when it got this pod */
    uint64_t expires_at_ms;
    uint64_t kept_at_ms; /* when somebody last gave it a lease */
    unsigned misses;     /* heartbeats in a row that left it out */
    bool was_renewed;
    bool is_carried;
    bool was_connected;
    uint64_t attempts[ATTEMPTS_MAX];
    unsigned attempt_count;
    bool attempts_are_lost;
    char merchant[16];
    bool can_move;            /* its carrier connects it to another pod if its own breaks */
    bool is_the_gateways;     /* its last renewal was the gateway's */
    uint64_t short_lease_ms;  /* of the last lease, if that was shorter than all others; else 0 */
    uint64_t unsettled_at_ms; /* it was moved, cut, resumed, or granted after a rescue; 0: never */
    uint64_t resumes_from_ms;
    unsigned resumes;
    uint64_t claim; /* of the newest stream that was held for it */
    struct shadow_wait wait;
    bool is_granted;  /* with is_known: and not taken */
    bool has_arrived; /* in this step, on its pod, without having asked for it */
    bool has_end;     /* recorded at over_at_ms; forgotten after ENDED_KEEP_MS */
    uint64_t over_at_ms;
    enum finish_reason why;
};

/* The last time that a call has left a pod. */
struct shadow_exit {
    uint64_t number; /* it was the so manieth since the start; 0: it has left none */
    uint64_t at_ms;
    unsigned moves; /* at that time, this one included */
    int pod;
    enum past_end how;
};

/* A stream of the call, as the gateway sees it, which does not ask the store where the call is. */
struct stream {
    bool is_open;
    int pod;
};

struct shadow_pod {
    unsigned incarnation;
    unsigned accepted; /* the incarnation that core was last told with success */
    enum pod_source source;
    uint32_t last_load;
    bool is_absent; /* its source does not show it any more, and it has stayed for its calls */
};

/* What a run must have seen; see nothing_was_left_out(). */
struct sim_counts {
    uint64_t outcomes[COMMAND_TYPES][OUTCOMES];
    uint64_t ended[4];
    uint64_t moved;
    uint64_t restarts;
    uint64_t outlived;              /* calls that a new incarnation of their pod has kept */
    uint64_t absent[COMMAND_TYPES]; /* pods that stayed for their calls */
    uint64_t unabsent;              /* those that were seen again */
    uint64_t kept_pods;             /* syncs that left pods with calls as they were */
    uint64_t kept[COMMAND_TYPES];   /* calls whose lease had run out, by what kept them */
    uint64_t adopted[COMMAND_TYPES];
    uint64_t full[COMMAND_TYPES]; /* lost calls that found no room */
    uint64_t late[COMMAND_TYPES]; /* words about calls whose end is recorded */
    uint64_t begun_anew;          /* allocations of such calls */
    uint64_t attempts_lost;
    uint64_t exits[PAST_ENDS]; /* that stories have told */
    uint64_t streams_kept;     /* calls that were lost under their stream, and that it brought back */
    /* Every call that joined has left in one of the ways that follow, or stands in line. */
    uint64_t joined, rejoined, rescued, waited_again, elsewhere;
    uint64_t granted, waits_abandoned, waits_timed_out, waits_released, waits_undone, waits_adopted;
    uint64_t line_full;            /* could not join */
    uint64_t taken[COMMAND_TYPES]; /* granted calls, by what took them */
    uint64_t untaken;              /* granted calls that serve has ended */
    uint64_t passed_over;          /* grants although an overdue call stood in front */
    uint64_t rescue_moves, departed, kept_releases, resumes_refused, resumed_ends;
};

struct sim {
    uint64_t seed;
    uint64_t random;
    uint64_t step;
    uint64_t now_ms;
    struct core_settings settings;
    struct core *core;
    struct core *replica; /* fed with nothing but the records */
    struct arena arena;
    struct command command;
    struct result result;
    struct shadow_call calls[SIDS];
    struct stream streams[SIDS];
    struct shadow_exit exits[SIDS];
    uint64_t exit_count;
    struct shadow_pod pods[PODS];
    char sid_names[SIDS][16];
    char pod_names[PODS][24];
    uint64_t last_attempt;
    uint64_t tombstones_told; /* carried calls that core said are over */
    uint64_t tombstones_due;  /* the same, as the shadow expects it */
    unsigned outage;          /* steps until the sweep after an outage; 0: there is none */
    uint64_t carrier_at_ms;   /* its last word; 0: none */
    const char *merchants[MERCHANTS];
    struct shadow_grants grants[64];
    bool was_told[SIDS]; /* in this command: something happened to a call that is held or carried */
    bool is_unsettled;   /* a command was executed, and its effects on other calls are not looked at yet */
    char new_pool[32];   /* of a call that was allocated in this command without waiting; "": none */
    struct sim_counts counts;
};

#define SIM_FAIL(sim, ...)                                                                                   \
    do {                                                                                                     \
        fprintf(stderr, "\nFAILED: ");                                                                       \
        fprintf(stderr, __VA_ARGS__);                                                                        \
        fprintf(stderr, "\nreproduce: sim-core --seed %" PRIu64 " --steps %" PRIu64 " (%s)\n", (sim)->seed,  \
                (sim)->step + 1, command_name((sim)->command.type));                                         \
        exit(1);                                                                                             \
    } while (0)

#define SIM_CHECK(sim, condition, ...)                                                                       \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            SIM_FAIL(sim, __VA_ARGS__);                                                                      \
    } while (0)

/* sim_core.c */
unsigned pick(struct sim *sim, unsigned count);
/* Carries out sim->command. */
void execute(struct sim *sim);
/* The same for one that only looks. */
void look(struct sim *sim, struct command command, struct result *ret_result);
int pod_index(struct sim *sim, const char *name);

/* sim_calls.c: the shadow of the calls */
struct shadow_call *shadow_call(struct sim *sim, const char *sid);
bool is_live(const struct sim *sim, const struct shadow_call *call);
bool is_over(const struct sim *sim, const struct shadow_call *call);
/* The lease of a call that nobody has renewed. */
uint64_t sim_first_lease_ms(const struct sim *sim);
/* Did the call get its pod before the pod's process started? */
bool is_older(const struct shadow_call *call, uint64_t started_at_ms);
size_t shadow_load(const struct sim *sim, int pod);
/* To be given to core_on_ended and core_on_finished. */
void shadow_end(void *arg, const struct ended_call *end);
void shadow_over(void *arg, const char *call_sid);
/* What an answer names as ended has been told before. */
void check_ended(struct sim *sim, const struct ended_array *ended);
/* Nobody could be heard for a while: every lease has as long again. */
void shadow_forgive(struct sim *sim);
/* The story of a call tells how the call has left its pod. */
void check_story(struct sim *sim, int at);
/* The call leaves its pod. */
void shadow_exit(struct sim *sim, const struct shadow_call *call, enum past_end how);
/* The process has died: what is in no record is gone. */
void shadow_restart(struct sim *sim);

/* sim_calls.c: steps */
void sim_allocate(struct sim *sim);
void sim_undo(struct sim *sim);
void sim_release(struct sim *sim);
void sim_hold(struct sim *sim);
void sim_leave(struct sim *sim);
void sim_move(struct sim *sim);
/* sim_line.c: the shadow of the line */
/* Has a newer stream than the one with this claim the call? */
bool shadow_is_elsewhere(const struct sim *sim, const struct shadow_call *call, uint64_t claim);
/* A stream of it begins. */
void shadow_claim(struct sim *sim, struct shadow_call *call);
bool shadow_is_overdue(const struct sim *sim, const struct shadow_call *call);
bool shadow_has_carrier(const struct sim *sim, const struct shadow_call *call);
/* Of a merchant: how long its calls may wait; 0: they may not. */
uint64_t shadow_max_wait_ms(const struct sim *sim, const char *merchant);
bool shadow_line_is_full(const struct sim *sim, const char *merchant);
size_t shadow_line_size(const struct sim *sim);
/* The call joins the line, as the answer says. */
void shadow_join(struct sim *sim, struct shadow_call *call, uint64_t since_ms, uint64_t until_ms);
void shadow_take_pools(struct shadow_call *call, const struct waiting_call *answer);
/* The call is granted, as `info` says. */
void shadow_grant(struct sim *sim, struct shadow_call *call, const struct call_info *info);
/* The call leaves its pod for the line. */
void shadow_leave_pod(struct sim *sim, struct shadow_call *call);
void shadow_take(struct sim *sim, struct shadow_call *call);
/* Of a waiting call: its wait is over, and that is recorded. */
void shadow_record_end(struct sim *sim, struct shadow_call *call, enum finish_reason why);
/* To be given to core_on_changed. */
void shadow_told(void *arg, const char *call_sid);
/* What the last command has done to calls that it does not name. */
void settle_others(struct sim *sim);
/* The same for all; and nobody was overtaken, no slot is free beside a waiting call. */
void settle(struct sim *sim);
void check_nobody_forgotten(struct sim *sim);
/* sim_line.c: steps */
void sim_keep(struct sim *sim);
void sim_serve(struct sim *sim);
void sim_depart(struct sim *sim);
/* sim_life.c: steps that keep calls alive */
void sim_renew(struct sim *sim);
void sim_carry(struct sim *sim);
void sim_heartbeat(struct sim *sim);

/* for both: somebody has kept the call, and it has this lease from now on */
void shadow_keep(struct sim *sim, struct shadow_call *call, uint64_t lease_ms);
/* The same by a word that renews. */
void shadow_renew(struct sim *sim, struct shadow_call *call);
/* A provider that somebody names, or "". */
const char *some_provider(struct sim *sim);
/* A call, mostly one that is there. */
unsigned known_or_any(struct sim *sim);

/* sim_pods.c: steps */
void sim_drain(struct sim *sim);
void sim_pod_seen(struct sim *sim);
void sim_pod_gone(struct sim *sim);
void sim_sync(struct sim *sim);
void sim_sweep(struct sim *sim);
void sim_rebalance(struct sim *sim);
void sim_scale(struct sim *sim);
void sim_tiers(struct sim *sim);
void sim_merchant(struct sim *sim);

#endif
