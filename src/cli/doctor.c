/*
 * doctor.c - smart-router doctor: gathers facts from the router, and tells what is wrong, the worst first.
 *
 * doctor_checks.c judges. Exit status 0: nothing is wrong (notes do not count), 1: something is.
 */
#include "cli/doctor.h"

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "cli/view.h"

enum {
    FACTS_MAX = 256 * 1024 * 1024,
    SENTENCE_MAX = 16 * 1024,
    REPORT_MAX = 1024 * 1024,
    REFUSED_SUMS = 20,
    WAIT_PATIENCE_S = 3, /* the leader serves the line every second */
};

/* The facts and the memory of their trees. */
struct patient {
    struct doctor_facts facts;
    struct arena arena;
};

static const char *const weight_names[DOCTOR_WEIGHTS] = {
    [DOCTOR_FAULT] = "fault", [DOCTOR_WARNING] = "warning", [DOCTOR_NOTE] = "note"};

/* Asks for a path; the tree stays until the patient is released. */
static int ask(struct view *view, struct patient *patient, const char *path, const cJSON **ret_json)
{
    cJSON *json;
    int status;

    view_path(view, path, NULL);
    status = view_get(view, &json);
    if (status == EXIT_OK)
        *ret_json = json_parse(&patient->arena, client_body(view->client));
    return status;
}

static void note_expired(void *arg, const cJSON *page)
{
    struct patient *patient = arg;
    const cJSON *calls = member(page, "calls");

    patient->facts.expired_calls += (uint64_t)cJSON_GetArraySize(calls);
    if (!patient->facts.expired_call && cJSON_GetArraySize(calls) > 0) {
        const char *sid = json_get_string(cJSON_GetArrayItem(calls, 0), "call_sid");

        patient->facts.expired_call = arena_strdup(&patient->arena, sid ? sid : "?");
    }
}

/* Looks at the first page only: one call that is kept is enough. */
static int ask_kept_calls(struct view *view, struct patient *patient)
{
    const cJSON *calls = NULL, *call;
    int status = ask(view, patient, "/api/v1/calls?limit=1000", &calls);

    cJSON_ArrayForEach(call, member(calls, "calls"))
    {
        patient->facts.kept_calls += json_get_string(call, "last_renewed_at") != NULL;
    }
    return status;
}

static int ask_heartbeats(struct view *view, struct patient *patient)
{
    const cJSON *pods = NULL, *pod;
    int status = ask(view, patient, "/api/v1/pods?limit=1000", &pods);

    cJSON_ArrayForEach(pod, member(pods, "pods"))
    {
        if (json_get_string(pod, "last_heartbeat_at"))
            patient->facts.has_heartbeats = true;
    }
    return status;
}

/* A free pod of one of its pools; NULL: there is none. "pool:gold" is the tier "gold". */
static const char *find_free_pool(const cJSON *call, const cJSON *tiers)
{
    static const char prefix[] = "pool:";
    const cJSON *pool;

    cJSON_ArrayForEach(pool, member(call, "pools"))
    {
        const char *name = cJSON_IsString(pool) ? pool->valuestring : "";

        if (strncmp(name, prefix, sizeof(prefix) - 1) == 0)
            name += sizeof(prefix) - 1;
        if (member_u64(member(tiers, name), "free") > 0)
            return name;
    }
    return NULL;
}

static const cJSON *find_call(const cJSON *line, const char *sid)
{
    const cJSON *call;

    cJSON_ArrayForEach(call, line)
    {
        const char *other = json_get_string(call, "call_sid");

        if (other && sid && strcmp(other, sid) == 0)
            return call;
    }
    return NULL;
}

static void note_waiting(struct doctor_facts *facts, const cJSON *before, const cJSON *after)
{
    const cJSON *call;

    cJSON_ArrayForEach(call, after)
    {
        const char *sid = json_get_string(call, "call_sid");
        const char *pool = find_free_pool(call, member(facts->status, "tiers"));
        uint64_t waited_s = member_u64(call, "waited_seconds");

        if (!member_is_true(call, "rescued"))
            facts->longest_wait_s = max_u64(facts->longest_wait_s, waited_s);
        if (!pool || waited_s < WAIT_PATIENCE_S || !find_call(before, sid))
            continue;
        facts->stuck_calls++;
        facts->stuck_call = sid;
        facts->stuck_pool = pool;
    }
}

/*
 * The line is looked at twice, with the state of the pools in between: a call that stands in both looks
 * waited when its pod was free. The first page is enough: whoever is behind it waits for the same pods.
 */
static int ask_waiting(struct view *view, struct patient *patient)
{
    static const char path[] = "/api/v1/waiting?limit=1000";
    const cJSON *before = NULL, *after = NULL;
    int status = EXIT_OK;

    if (member_u64(patient->facts.status, "waiting") == 0)
        return EXIT_OK;
    status = ask(view, patient, path, &before);
    if (status == EXIT_OK)
        status = ask(view, patient, "/api/v1/status", &patient->facts.status);
    if (status == EXIT_OK)
        status = ask(view, patient, path, &after);
    if (status == EXIT_OK)
        note_waiting(&patient->facts, member(before, "waiting"), member(after, "waiting"));
    return status;
}

/* The sums of the last five minutes, of 15 seconds each. */
static int ask_refused(struct view *view, struct patient *patient)
{
    const cJSON *history = NULL, *refused;
    int status = ask(view, patient, "/api/v1/history/pools", &history);
    int count = cJSON_GetArraySize(member(history, "refused"));
    int at = 0;

    cJSON_ArrayForEach(refused, member(history, "refused"))
    {
        if (count - at++ <= REFUSED_SUMS && cJSON_IsNumber(refused) && refused->valuedouble > 0)
            patient->facts.refused_calls += (uint64_t)refused->valuedouble;
    }
    return status;
}

static void note_clock(struct doctor_facts *facts, uint64_t asked_ms)
{
    uint64_t router_ms, now_ms = clock_wall_ms();

    /* The answer was written between the question and now: half way is as good a guess as any. */
    if (text_read_time(json_get_string(facts->diagnosis, "time"), &router_ms))
        facts->clock_ahead_ms = (int64_t)router_ms - (int64_t)((asked_ms + now_ms) / 2);
}

static int gather_from_store(struct view *view, struct patient *patient)
{
    int status;

    view->takes_any = true; /* they may be unreadable: that is a finding */
    status = ask(view, patient, "/api/v1/tiers", &patient->facts.tiers);
    view->takes_any = false;
    if (status == EXIT_OK) {
        view_path(view, "/api/v1/calls?state=expired&limit=1000", NULL);
        status = view_pages(view, note_expired, patient);
    }
    if (status == EXIT_OK)
        status = ask_refused(view, patient);
    if (status == EXIT_OK)
        status = ask_kept_calls(view, patient);
    if (status == EXIT_OK)
        status = ask_waiting(view, patient);
    return status == EXIT_OK ? ask_heartbeats(view, patient) : status;
}

static int gather(struct view *view, struct patient *patient, bool *ret_has_store)
{
    struct doctor_facts *facts = &patient->facts;
    uint64_t asked_ms = clock_wall_ms();
    int status = ask(view, patient, "/api/v1/diagnosis", &facts->diagnosis);

    if (status != EXIT_OK)
        return status;
    note_clock(facts, asked_ms);
    facts->settings = member(facts->diagnosis, "settings");
    status = ask(view, patient, "/api/v1/status", &facts->status);
    if (status != EXIT_OK)
        return status;
    *ret_has_store =
        member(facts->status, "tiers") && member_is_true(member(facts->diagnosis, "store"), "is_ready");
    if (*ret_has_store)
        status = gather_from_store(view, patient);
    /* It went down in between: that is a finding, and no failure of ours. */
    if (status != EXIT_OK && view->is_away && facts->diagnosis && facts->status) {
        *ret_has_store = false;
        status = EXIT_OK;
    }
    return status;
}

static void show_finding(struct view *view, const struct doctor_check *check, struct doctor_finding *finding)
{
    static const enum colour colours[DOCTOR_WEIGHTS] = {COLOUR_BAD, COLOUR_WARNING, COLOUR_DIM};

    view_text(view, colours[check->weight], weight_names[check->weight]);
    strbuf_append_str(&view->out, ": ");
    text_append_safe(&view->out, strbuf_slice(&finding->sentence));
    strbuf_append_str(&view->out, "\n    ");
    text_append_safe(&view->out, strbuf_slice(&finding->command));
    strbuf_append_char(&view->out, '\n');
}

static void put_finding(struct json_writer *json, const struct doctor_check *check,
                        struct doctor_finding *finding)
{
    json_object_begin(json);
    json_put_string(json, "name", check->name);
    json_put_string(json, "weight", weight_names[check->weight]);
    json_key(json, "sentence");
    json_slice(json, strbuf_slice(&finding->sentence));
    json_key(json, "command");
    json_slice(json, strbuf_slice(&finding->command));
    json_object_end(json);
}

/* Runs all checks; how many findings of each weight there are. `json` NULL: as text. */
static void examine(struct view *view, const struct doctor_facts *facts, bool has_store,
                    struct json_writer *json, size_t counts[DOCTOR_WEIGHTS])
{
    for (size_t i = 0; i < doctor_checks_len; i++) {
        const struct doctor_check *check = &doctor_checks[i];
        struct doctor_finding finding;

        if (check->needs_store && !has_store)
            continue;
        strbuf_init(&finding.sentence, NULL, SENTENCE_MAX);
        strbuf_init(&finding.command, NULL, SENTENCE_MAX);
        if (check->find(facts, &finding)) {
            counts[check->weight]++;
            if (json)
                put_finding(json, check, &finding);
            else
                show_finding(view, check, &finding);
        }
        strbuf_release(&finding.sentence);
        strbuf_release(&finding.command);
    }
}

static void report_json(struct view *view, const struct doctor_facts *facts, bool has_store,
                        size_t counts[DOCTOR_WEIGHTS])
{
    struct json_writer json;
    struct strbuf buf;

    strbuf_init(&buf, NULL, REPORT_MAX);
    json_begin(&json, &buf);
    json_object_begin(&json);
    json_key(&json, "findings");
    json_array_begin(&json);
    examine(view, facts, has_store, &json, counts);
    json_array_end(&json);
    json_put_bool(&json, "is_well", counts[DOCTOR_FAULT] == 0 && counts[DOCTOR_WARNING] == 0);
    json_object_end(&json);
    if (strbuf_failed(&buf))
        view->out.failed = true;
    else if (view->terminal.is_terminal)
        text_append_safe_json(&view->out, strbuf_slice(&buf));
    else
        strbuf_append(&view->out, buf.data, buf.len);
    strbuf_append_char(&view->out, '\n');
    strbuf_release(&buf);
}

static int report(struct view *view, const struct doctor_facts *facts, bool has_store, bool is_json)
{
    size_t counts[DOCTOR_WEIGHTS] = {0};
    bool is_well;

    if (is_json)
        report_json(view, facts, has_store, counts);
    else
        examine(view, facts, has_store, NULL, counts);
    is_well = counts[DOCTOR_FAULT] == 0 && counts[DOCTOR_WARNING] == 0;
    if (is_well && !is_json) {
        view_text(view, COLOUR_GOOD, "Nothing is wrong.");
        strbuf_append_char(&view->out, '\n');
    }
    view->is_done = true;
    return is_well ? EXIT_OK : EXIT_FAILED;
}

static int examine_router(struct view *view)
{
    bool is_json = view->is_json, has_store = false;
    struct patient patient = {.facts = {.expired_call = NULL}};
    int status;

    arena_init(&patient.arena, FACTS_MAX);
    view->is_json = false; /* the findings are the answer, not the facts */
    status = gather(view, &patient, &has_store);
    if (status == EXIT_OK)
        status = report(view, &patient.facts, has_store, is_json);
    else if (status == EXIT_UNREACHABLE)
        cli_say("is it running? systemctl status smart-router, or kubectl get pods; and is --url right?");
    view->is_json = is_json;
    arena_release(&patient.arena);
    return status;
}

int command_doctor(const struct cli_options *options)
{
    return view_run(options, examine_router);
}
