/*
 * command_table.h - the one description of each command.
 *
 * The type, the name, the dispatch and every table that is indexed by a command come from these rows.
 * A row that names a function that does not exist does not compile. docs/HACKING.md lists the steps
 * of adding a command. The columns:
 *
 * - TYPE: COMMAND_TYPE is its value of enum command_type.
 * - name: its name in metrics and logs. core_NAME() executes it.
 * - kind: LOOKS: it only reads, and makes neither records nor events. CHANGES: it may change the
 *   state. URGENT: the same, and it is executed even on a full disk, because it gives a pod back or
 *   keeps a caller who is about to connect.
 * - leader: may only the leader send it? leader_LEADER() in command.c answers: always, never, or
 *   depending on the source of the pod.
 * - check: validate_CHECK() finds invalid arguments. It is in validate.c or in the command's file.
 * - records: log_size_RECORDS() in store/embedded/log_size.c computes the largest size of its records.
 * - ends: ENDS: it can end calls that nobody released; result.NAME.ended names them. KEEPS: it cannot.
 * - events: events_EVENTS() in store/command_events.c makes the events of its result.
 * - answer: SURE: a client relies on a success, so a store with replicas answers when they have the
 *   change. PLAIN: it answers at once.
 *
 * store/redis/command_table.c says how Redis executes each command.
 */
#ifndef CORE_COMMAND_TABLE_H
#define CORE_COMMAND_TABLE_H

// clang-format off
/*    TYPE             name             kind     leader    check         records    ends   events     answer */
#define COMMAND_TABLE(X) \
    X(ALLOCATE,        allocate,        CHANGES, never,    allocate,     allocate,  KEEPS, allocate,  SURE) \
    X(UNDO,            undo,            URGENT,  never,    nothing,      release,   KEEPS, release,   PLAIN) \
    X(RELEASE,         release,         URGENT,  never,    nothing,      release,   KEEPS, release,   SURE) \
    X(HOLD,            hold,            URGENT,  never,    nothing,      few,       KEEPS, hold,      PLAIN) \
    X(KEEP,            keep,            URGENT,  never,    keep,         keep,      KEEPS, keep,      PLAIN) \
    X(SERVE,           serve,           CHANGES, always,   nothing,      serve,     KEEPS, serve,     PLAIN) \
    X(DEPART,          depart,          URGENT,  never,    depart,       depart,    KEEPS, nothing,   PLAIN) \
    X(LEAVE,           leave,           URGENT,  never,    nothing,      release,   KEEPS, release,   PLAIN) \
    X(RENEW,           renew,           CHANGES, never,    renew,        renew,     KEEPS, renew,     PLAIN) \
    X(PRESENT,         present,         CHANGES, never,    present,      few,       KEEPS, nothing,   PLAIN) \
    X(HEARTBEAT,       heartbeat,       CHANGES, never,    heartbeat,    heartbeat, ENDS,  heartbeat, PLAIN) \
    X(DRAIN,           drain,           CHANGES, never,    nothing,      few,       KEEPS, drain,     PLAIN) \
    X(UNDRAIN,         undrain,         CHANGES, never,    nothing,      undrain,   KEEPS, undrain,   PLAIN) \
    X(MOVE_CALL,       move_call,       CHANGES, never,    nothing,      move_call, KEEPS, move_call, SURE) \
    X(POD_SEEN,        pod_seen,        CHANGES, pod_seen, pod_seen,     pod_calls, ENDS,  pod_seen,  PLAIN) \
    X(POD_GONE,        pod_gone,        CHANGES, pod_gone, nothing,      pod_calls, ENDS,  pod_gone,  PLAIN) \
    X(SYNC,            sync,            CHANGES, always,   sync,         sync,      ENDS,  sync,      PLAIN) \
    X(SWEEP,           sweep,           CHANGES, always,   nothing,      sweep,     ENDS,  sweep,     PLAIN) \
    X(REBALANCE,       rebalance,       CHANGES, always,   nothing,      rebalance, KEEPS, rebalance, PLAIN) \
    X(SCALE,           scale,           CHANGES, always,   nothing,      scale,     KEEPS, scale,     PLAIN) \
    X(TIERS_SET,       tiers_set,       CHANGES, never,    nothing,      tiers,     KEEPS, nothing,   PLAIN) \
    X(MERCHANT_SET,    merchant_set,    CHANGES, never,    merchant_set, merchant,  KEEPS, nothing,   PLAIN) \
    X(MERCHANT_REMOVE, merchant_remove, CHANGES, never,    nothing,      removal,   KEEPS, nothing,   PLAIN) \
    X(STATUS,          status,          LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(PODS,            pods,            LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(POD,             pod,             LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(CALLS,           calls,           LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(CALL,            call,            LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(WAITING,         waiting,         LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(STORY,           story,           LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(MERCHANTS,       merchants,       LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(MERCHANT,        merchant,        LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(TIERS,           tiers,           LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN) \
    X(HISTORY,         history,         LOOKS,   never,    nothing,      none,      KEEPS, nothing,   PLAIN)
// clang-format on

#endif
