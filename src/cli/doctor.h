/*
 * doctor.h - the facts that smart-router doctor has gathered, and the table of what can be wrong with them.
 *
 * Inside the module only.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "base/json.h"
#include "base/strbuf.h"

/* How bad a finding is. Notes do not change the exit status. */
enum doctor_weight {
    DOCTOR_FAULT,   /* calls fail now */
    DOCTOR_WARNING, /* they will, or somebody can do harm */
    DOCTOR_NOTE,
    DOCTOR_WEIGHTS,
};

/* Trees are borrowed. NULL: the router could not tell. */
struct doctor_facts {
    const cJSON *diagnosis; /* never NULL */
    const cJSON *settings;  /* of it */
    const cJSON *status;    /* never NULL; without tiers while the store is down */
    const cJSON *tiers;
    uint64_t expired_calls;
    const char *expired_call; /* one of them */
    uint64_t kept_calls;      /* that somebody has renewed */
    uint64_t refused_calls;   /* by this router in the last five minutes */
    uint64_t longest_wait_s;  /* of the calls that wait and were not rescued */
    uint64_t stuck_calls;     /* that wait although a pod of theirs is free */
    const char *stuck_call;   /* one of them, and that pool */
    const char *stuck_pool;
    bool has_heartbeats;    /* of any pod */
    int64_t clock_ahead_ms; /* of the router, before this machine */
};

/* What is wrong, and the command that helps. */
struct doctor_finding {
    struct strbuf sentence;
    struct strbuf command;
};

struct doctor_check {
    const char *name; /* for programs */
    enum doctor_weight weight;
    bool needs_store; /* it looks at facts that are missing while the store is down */
    /* True: it is wrong, and `ret_finding` says what. */
    bool (*find)(const struct doctor_facts *facts, struct doctor_finding *ret_finding);
};

/*
 * A text of the router for a command that an operator may copy into a shell: one that a shell could take for
 * more than a word is replaced by "...".
 */
const char *doctor_word_of(const char *text);

/* Is there a token of any provider? */
bool doctor_has_token(const struct doctor_facts *facts);

/* For checks, whose parameter is `finding`. */
#define SAY(...) strbuf_printf(&finding->sentence, __VA_ARGS__)
#define HELP(...) strbuf_printf(&finding->command, __VA_ARGS__)

/* The checks of doctor_line.c. */
bool doctor_find_stuck_waits(const struct doctor_facts *facts, struct doctor_finding *finding);
bool doctor_find_full_line(const struct doctor_facts *facts, struct doctor_finding *finding);
bool doctor_find_waiting(const struct doctor_facts *facts, struct doctor_finding *finding);
bool doctor_find_no_waits(const struct doctor_facts *facts, struct doctor_finding *finding);
bool doctor_find_no_resumes(const struct doctor_facts *facts, struct doctor_finding *finding);

/* In the order of their weight: what must be mended first comes first. */
extern const struct doctor_check doctor_checks[];
extern const size_t doctor_checks_len;

#endif
