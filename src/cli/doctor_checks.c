/*
 * doctor_checks.c - the table of what can be wrong, in order of weight, each with the command that helps.
 *
 * Each check looks at the facts, and writes one sentence about what is wrong and what it means for calls, and
 * a command. A new check is a function and a row.
 */
#include "cli/doctor.h"

#include <arpa/inet.h>

#include "base/clock.h"
#include "cli/text.h"
#include "cli/view.h"

enum {
    CLOCK_STORE_MAX_MS = 2 * 1000,
    CLOCK_HERE_MAX_MS = 5 * 1000,
    CERTIFICATE_SOON_MS = 14 * 24 * 3600 * 1000,
    SYNC_PATIENCE_S = 60,
    START_PATIENCE_S = 3, /* a router that has just started is given the time to find its pods */
    NAMES_MAX = 5,        /* of one sentence */
};

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = json_get_string(object, name);

    return text ? text : "";
}

const char *doctor_word_of(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@+=,/-{}";

    return text[0] && text[0] != '-' && strspn(text, plain) == strlen(text) ? text : "...";
}

bool doctor_has_token(const struct doctor_facts *facts)
{
    const cJSON *token;

    cJSON_ArrayForEach(token, member(facts->diagnosis, "provider_tokens"))
    {
        if (cJSON_IsTrue(token))
            return true;
    }
    return false;
}

static const cJSON *store_of(const struct doctor_facts *facts)
{
    return member(facts->diagnosis, "store");
}

static bool has_redis(const struct doctor_facts *facts)
{
    return strcmp(text_of(store_of(facts), "name"), "redis") == 0;
}

/* Can others reach the port? */
static bool is_exposed(const struct doctor_facts *facts)
{
    const char *address = text_of(facts->settings, "http_bind");
    struct in6_addr v6;
    struct in_addr v4;

    if (inet_pton(AF_INET, address, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 != 127;
    return inet_pton(AF_INET6, address, &v6) != 1 || !IN6_IS_ADDR_LOOPBACK(&v6);
}

/* The sum of a number over all tiers. */
static uint64_t sum(const struct doctor_facts *facts, const char *name)
{
    const cJSON *tier;
    uint64_t total = 0;

    cJSON_ArrayForEach(tier, member(facts->status, "tiers"))
    {
        total += member_u64(tier, name);
    }
    return total;
}

/* ---- the store ---- */

static bool find_store_down(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (member_is_true(store_of(facts), "is_ready"))
        return false;
    SAY("The store is down, and calls are refused: %s.", text_of(store_of(facts), "detail"));
    if (has_redis(facts))
        HELP("redis-cli -u \"$REDIS_URL\" ping");
    else
        HELP("journalctl -u smart-router -n 50; df -h \"$DATA_DIR\"");
    return true;
}

static bool find_full_redis(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const cJSON *redis = member(facts->diagnosis, "redis");
    uint64_t max = member_u64(redis, "max_memory"), used = member_u64(redis, "used_memory");

    if (max == 0 || used < max - max / 10)
        return false;
    SAY("Redis has used %llu of its %llu MiB: beyond its limit it refuses to store calls, or throws data "
        "away.",
        (unsigned long long)used >> 20, (unsigned long long)max >> 20);
    HELP("redis-cli -u \"$REDIS_URL\" config set maxmemory %llumb",
         (unsigned long long)(used >> 20) * 2 + 64);
    return true;
}

static bool find_failing_redis(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const cJSON *redis = member(facts->diagnosis, "redis");

    if (!member_is_true(redis, "fails_to_log") && !member_is_true(redis, "fails_to_save"))
        return false;
    SAY("Redis cannot write to its disk: it may refuse changes now (MISCONF), and a restart loses all "
        "calls.");
    HELP("redis-cli -u \"$REDIS_URL\" info persistence; df -h   # then: redis-cli -u \"$REDIS_URL\" bgsave");
    return true;
}

static bool find_wipe(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    uint64_t wipes = member_u64(store_of(facts), "wipes");

    if (wipes == 0)
        return false;
    SAY("Redis has lost all its data %llu time%s since this router started. The configurations of merchants "
        "are "
        "gone, and tiers are those of TIER_CONFIG again.",
        (unsigned long long)wipes, wipes == 1 ? "" : "s");
    HELP("smart-router merchant list   # set again what is missing: smart-router merchant set ID FILE");
    return true;
}

static bool find_eviction(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const cJSON *redis = member(facts->diagnosis, "redis");
    const char *policy = text_of(redis, "eviction_policy");

    if (!policy[0] || strcmp(policy, "noeviction") == 0 || member_u64(redis, "max_memory") == 0)
        return false;
    SAY("Redis may throw calls away when its memory is full (maxmemory-policy %s): two calls can get one "
        "pod.",
        policy);
    HELP("redis-cli -u \"$REDIS_URL\" config set maxmemory-policy noeviction");
    return true;
}

static bool find_no_log(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const cJSON *redis = member(facts->diagnosis, "redis");

    if (!redis || member_is_true(redis, "logs_writes"))
        return false;
    SAY("Redis has no append-only file: a restart of Redis loses the calls since its last snapshot.");
    HELP("redis-cli -u \"$REDIS_URL\" config set appendonly yes   # and in redis.conf");
    return true;
}

static bool find_unsynced_log(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (has_redis(facts) || member_is_true(facts->settings, "syncs_log"))
        return false;
    SAY("The embedded store never syncs its log to the disk: a power cut loses calls.");
    HELP("LOG_FSYNC=everysec   # in the settings; then restart the router");
    return true;
}

static bool find_bad_tiers(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (member_u64(store_of(facts), "refused_tiers") == 0)
        return false;
    SAY("Stored tiers could not be read since the start of this router, which goes on with those before.");
    HELP("smart-router tiers get   # then: smart-router tiers rollback, or smart-router tiers set FILE");
    return true;
}

/* ---- the leader ---- */

static void help_elect(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (strcmp(text_of(facts->settings, "pod_source"), "kubernetes") == 0)
        HELP("kubectl -n %s get lease; kubectl -n %s auth can-i update leases.coordination.k8s.io",
             doctor_word_of(text_of(facts->settings, "namespace")),
             doctor_word_of(text_of(facts->settings, "namespace")));
    else
        HELP("redis-cli -u \"$REDIS_URL\" del %sleader   # if it is really gone: the routers elect "
             "another one at once",
             doctor_word_of(text_of(facts->settings, "key_prefix")));
}

static bool find_no_leader(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (text_of(facts->diagnosis, "leader")[0] ||
        member_u64(facts->diagnosis, "uptime_seconds") < START_PATIENCE_S)
        return false;
    SAY("No router leads: new pods are not noticed, and the pods of ended calls are not freed.");
    help_elect(facts, finding);
    return true;
}

static bool find_gone_leader(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const char *leader = text_of(facts->diagnosis, "leader");
    const cJSON *router;

    cJSON_ArrayForEach(router, member(facts->diagnosis, "routers"))
    {
        if (strcmp(text_of(router, "name"), leader) == 0)
            return false;
    }
    if (!leader[0] || !member(facts->diagnosis, "routers"))
        return false; /* there is none, or the store did not tell the routers */
    SAY("The leader is %s, but no router of this name is alive: new pods are not noticed, and the pods of "
        "ended "
        "calls are not freed.",
        leader);
    help_elect(facts, finding);
    return true;
}

static bool find_late_sync(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    uint64_t patience = 3 * member_u64(facts->settings, "reconcile_interval_seconds") + SYNC_PATIENCE_S;
    uint64_t age = member_u64(facts->diagnosis, "last_sync_seconds");

    if (age <= patience)
        return false;
    SAY("The pods were last synced ");
    text_append_age(&finding->sentence, age);
    SAY(" ago: pods that came or went since are not noticed.");
    HELP("smart-router events   # and the log of the leader: %s",
         doctor_word_of(text_of(facts->diagnosis, "leader")));
    return true;
}

/* ---- pods and pools ---- */

static void help_find_pods(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const char *source = text_of(facts->settings, "pod_source");
    const char *selector = text_of(facts->settings, "pod_label_selector");

    if (strcmp(source, "kubernetes") == 0)
        HELP("kubectl -n %s get pods%s%s%s", doctor_word_of(text_of(facts->settings, "namespace")),
             selector[0] ? " -l '" : "", strchr(selector, '\'') ? "..." : selector, selector[0] ? "'" : "");
    else if (strcmp(source, "static") == 0)
        HELP("STATIC_PODS=voice-agent-0=10.0.0.7:8000   # in the settings; then restart the router");
    else
        HELP("curl -s localhost:8080/api/v1/pods -d "
             "'{\"pod_name\":\"agent-0\",\"address\":\"10.0.0.7:8000\"}'");
}

/* A leader that has never read the pods of Kubernetes cannot reach it, or may not. */
static bool find_unread_pods(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (strcmp(text_of(facts->settings, "pod_source"), "kubernetes") != 0 ||
        !member_is_true(facts->diagnosis, "is_leader") || member(facts->diagnosis, "last_sync_seconds") ||
        member_u64(facts->diagnosis, "uptime_seconds") < START_PATIENCE_S)
        return false;
    SAY("The pods of the namespace %s were never read: Kubernetes is not reachable, or forbids it.",
        text_of(facts->settings, "namespace"));
    HELP("kubectl -n %s auth can-i list pods   # as the service account of the router",
         doctor_word_of(text_of(facts->settings, "namespace")));
    return true;
}

static bool find_no_pods(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (member_u64(facts->status, "pods") > 0 ||
        member_u64(facts->diagnosis, "uptime_seconds") < START_PATIENCE_S)
        return false;
    SAY("There is no pod, and every call is refused (POD_SOURCE=%s).",
        text_of(facts->settings, "pod_source"));
    help_find_pods(facts, finding);
    return true;
}

static bool find_no_capacity(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    unsigned long long busy = sum(facts, "busy"), draining = sum(facts, "draining"),
                       suspended = sum(facts, "suspended");

    if (member_u64(facts->status, "pods") == 0 || sum(facts, "free") > 0)
        return false;
    SAY("No pod is free, and every new call %s: %llu pods are busy, %llu are draining, %llu are suspended.",
        member_u64(facts->settings, "hold_max_wait_seconds") > 0 ? "must wait" : "is refused", busy, draining,
        suspended);
    if (draining > busy && draining >= suspended)
        HELP("smart-router pods --state draining   # then: smart-router undrain POD");
    else if (suspended > busy)
        HELP("smart-router pods --state suspended   # these are not ready: look at the agents");
    else
        HELP("smart-router calls --older-than 1h   # then: smart-router release SID; or add pods: "
             "smart-router "
             "autoscale");
    return true;
}

/* Perhaps those of one merchant alone, whose pools are full or misspelt while others have room. */
static bool find_refused(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    unsigned long long refused = facts->refused_calls;

    if (refused == 0)
        return false;
    SAY("%llu call%s got no pod in the last five minutes.", refused, refused == 1 ? "" : "s");
    HELP("smart-router events   # waits for the next one: then: smart-router why SID");
    return true;
}

/* Appends "gold has 0 of 2" for each tier that `is_short` names; how many there are. */
static size_t append_tiers(struct strbuf *buf, const struct doctor_facts *facts,
                           bool (*is_short)(const cJSON *tier))
{
    const cJSON *tier;
    size_t count = 0;

    cJSON_ArrayForEach(tier, member(facts->status, "tiers"))
    {
        if (!member_is_true(tier, "is_configured") || !is_short(tier))
            continue;
        if (count < NAMES_MAX)
            strbuf_printf(buf, "%s%s has %llu of %llu", count > 0 ? ", " : "", tier->string,
                          (unsigned long long)member_u64(tier, "assigned"),
                          (unsigned long long)member_u64(tier, "target"));
        count++;
    }
    if (count > NAMES_MAX)
        strbuf_printf(buf, ", and %zu more", count - NAMES_MAX);
    return count;
}

static bool is_empty_tier(const cJSON *tier)
{
    return member_u64(tier, "target") > 0 && member_u64(tier, "assigned") == 0;
}

static bool is_small_tier(const cJSON *tier)
{
    return member_u64(tier, "assigned") < member_u64(tier, "target") && !is_empty_tier(tier);
}

static bool find_empty_tiers(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    SAY("Tiers have no pod, and calls for them alone are refused: ");
    if (append_tiers(&finding->sentence, facts, is_empty_tier) == 0)
        return false;
    SAY(" pods.");
    help_find_pods(facts, finding);
    return true;
}

static bool find_small_tiers(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    SAY("Tiers have fewer pods than their targets: ");
    if (append_tiers(&finding->sentence, facts, is_small_tier) == 0)
        return false;
    SAY(" pods.");
    HELP("smart-router autoscale   # add pods, or lower the targets: smart-router tiers set FILE");
    return true;
}

static bool find_suspended(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    unsigned long long suspended = sum(facts, "suspended"), pods = member_u64(facts->status, "pods");

    if (suspended == 0 || suspended * 5 < pods)
        return false;
    SAY("%llu of %llu pods are suspended: they are not ready, and get no calls.", suspended, pods);
    HELP("smart-router pods --state suspended");
    return true;
}

static bool find_draining(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    unsigned long long draining = sum(facts, "draining"), pods = member_u64(facts->status, "pods");

    if (draining == 0 || draining * 2 < pods)
        return false;
    SAY("%llu of %llu pods are draining, and get no calls.", draining, pods);
    HELP("smart-router pods --state draining   # then: smart-router undrain POD");
    return true;
}

/* ---- calls ---- */

static bool find_expired(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (facts->expired_calls == 0)
        return false;
    SAY("The lease of %llu call%s has run out, and nobody has ended %s: the pods stay busy.",
        (unsigned long long)facts->expired_calls, facts->expired_calls == 1 ? "" : "s",
        facts->expired_calls == 1 ? "it" : "them");
    HELP("smart-router calls --state expired   # then: smart-router release %s",
         doctor_word_of(facts->expired_call ? facts->expired_call : ""));
    return true;
}

static bool find_no_heartbeats(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    uint64_t calls = member_u64(facts->status, "active_calls");

    if (calls == 0 || facts->has_heartbeats || facts->kept_calls > 0)
        return false;
    SAY("No pod has sent a heartbeat and nobody renews a call: the pod of a call whose release is lost stays "
        "busy "
        "for CALL_MAX_DURATION.");
    HELP(
        "curl -s localhost:8080/api/v1/pod/POD/heartbeat -d '{\"call_sids\":[]}'   # agents: docs/AGENTS.md");
    return true;
}

/* ---- providers and access ---- */

static bool find_stream_url(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const char *problem = json_get_string(facts->settings, "stream_url_problem");

    if (!problem || !doctor_has_token(facts))
        return false;
    SAY("Providers cannot open the streams of calls at %s: %s. Callers hear nothing.",
        text_of(facts->settings, "stream_url"), problem);
    HELP("PUBLIC_BASE_URL=https://ROUTER.EXAMPLE.COM   # in the settings; then restart the router");
    return true;
}

static bool find_no_keys(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (member_is_true(facts->diagnosis, "has_api_keys") || !is_exposed(facts))
        return false;
    SAY("There is no API key: anyone who can reach the port can end calls and change tiers.");
    HELP("(umask 077; openssl rand -hex 32 > api-key)   # then API_KEY_FILE=api-key in the settings, and "
         "restart");
    return true;
}

static bool find_no_tokens(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    static const struct {
        const char *provider;
        const char *variable;
    } tokens[] = {{"twilio", "TWILIO_AUTH_TOKEN"}, {"plivo", "PLIVO_AUTH_TOKEN"}, {"exotel", "EXOTEL_TOKEN"}};
    size_t count = 0;

    SAY("Anyone who can reach the port can send webhooks in the name of ");
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        if (member_is_true(member(facts->diagnosis, "provider_tokens"), tokens[i].provider))
            continue;
        SAY("%s%s", count > 0 ? ", " : "", tokens[i].provider);
        HELP("%s%s_FILE=...", count > 0 ? " " : "", tokens[i].variable);
        count++;
    }
    SAY(": their tokens are not set.");
    HELP("   # in the settings; then restart the router");
    return count > 0 && is_exposed(facts);
}

static bool find_no_gateway_secret(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (member_is_true(facts->settings, "has_gateway_secret") || !is_exposed(facts))
        return false;
    SAY("GATEWAY_SECRET is not set: anybody who knows the name of a pod can connect to its call.");
    HELP("(umask 077; openssl rand -hex 32 > gateway-secret)   # then GATEWAY_SECRET_FILE=gateway-secret, "
         "and restart");
    return true;
}

static bool find_certificate(const struct doctor_facts *facts, struct doctor_finding *finding,
                             bool wants_ended)
{
    const char *until = json_get_string(facts->settings, "certificate_until");
    const char *problem = json_get_string(facts->settings, "certificate_problem");
    uint64_t until_ms = 0, now_ms = clock_wall_ms();
    bool has_time = text_read_time(until, &until_ms), has_ended = problem || (has_time && until_ms <= now_ms);

    if ((!problem && (!has_time || until_ms > now_ms + CERTIFICATE_SOON_MS)) || has_ended != wants_ended)
        return false;
    if (problem) {
        SAY("The TLS certificate cannot be read: %s.", problem);
    } else {
        SAY(has_ended ? "The TLS certificate has ended, and providers do not connect: it was valid until %s."
                      : "The TLS certificate ends soon: it is valid until %s.",
            until);
    }
    HELP("openssl x509 -noout -enddate -in \"$TLS_CERT_FILE\"   # renew it; then: systemctl reload "
         "smart-router");
    return true;
}

static bool find_ended_certificate(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    return find_certificate(facts, finding, true);
}

static bool find_ending_certificate(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    return find_certificate(facts, finding, false);
}

/* ---- clocks, versions, settings ---- */

static void say_clock(struct doctor_finding *finding, const char *who, int64_t ahead_ms, const char *whom)
{
    SAY("The clock of %s is ", who);
    text_append_age(&finding->sentence, (uint64_t)(ahead_ms < 0 ? -ahead_ms : ahead_ms) / 1000);
    SAY(" %s that of %s", ahead_ms < 0 ? "behind" : "ahead of", whom);
}

static bool find_clock_of_store(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const cJSON *ahead = member(store_of(facts), "clock_ahead_ms");

    if (!cJSON_IsNumber(ahead) ||
        (ahead->valuedouble < CLOCK_STORE_MAX_MS && ahead->valuedouble > -CLOCK_STORE_MAX_MS))
        return false;
    say_clock(finding, "Redis", (int64_t)ahead->valuedouble, "the router");
    SAY(": times in answers and tickets are wrong by that.");
    HELP("timedatectl   # on both machines; then: chronyc makestep");
    return true;
}

static bool find_clock_of_router(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    if (facts->clock_ahead_ms < CLOCK_HERE_MAX_MS && facts->clock_ahead_ms > -CLOCK_HERE_MAX_MS)
        return false;
    say_clock(finding, "the router", facts->clock_ahead_ms, "this machine");
    SAY(": ages that this program shows are wrong by that.");
    HELP("timedatectl   # on both machines; then: chronyc makestep");
    return true;
}

static bool find_versions(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const char *own = text_of(facts->diagnosis, "version");
    const cJSON *router;
    size_t count = 0;

    SAY("The routers have different versions: %s here", own);
    cJSON_ArrayForEach(router, member(facts->diagnosis, "routers"))
    {
        const char *version = text_of(router, "version");

        if (!version[0] || strcmp(version, own) == 0)
            continue;
        if (count++ < NAMES_MAX)
            SAY(", %s on %s", version, text_of(router, "name"));
    }
    SAY(".");
    HELP("kubectl rollout status deployment/smart-router   # or install the package everywhere, and restart");
    return count > 0;
}

static bool find_other_tiers(const struct doctor_facts *facts, struct doctor_finding *finding)
{
    const cJSON *wanted = member(facts->settings, "tier_config");

    if (!wanted || !facts->tiers || cJSON_Compare(wanted, facts->tiers, true))
        return false;
    SAY("TIER_CONFIG is not what is stored: it counts only for an empty store.");
    HELP("smart-router tiers get   # put these into TIER_CONFIG, or: printf %%s \"$TIER_CONFIG\" | "
         "smart-router tiers "
         "set -");
    return true;
}

#define ANYWAY false
#define STORE true

const struct doctor_check doctor_checks[] = {
    {"store_down", DOCTOR_FAULT, ANYWAY, find_store_down},
    {"redis_cannot_write", DOCTOR_FAULT, STORE, find_failing_redis},
    {"redis_full", DOCTOR_FAULT, STORE, find_full_redis},
    {"pods_not_read", DOCTOR_FAULT, STORE, find_unread_pods},
    {"no_leader", DOCTOR_FAULT, STORE, find_no_leader},
    {"leader_gone", DOCTOR_FAULT, STORE, find_gone_leader},
    {"no_pods", DOCTOR_FAULT, STORE, find_no_pods},
    {"no_capacity", DOCTOR_FAULT, STORE, find_no_capacity},
    {"waits_beside_free_pod", DOCTOR_FAULT, STORE, doctor_find_stuck_waits},
    {"line_full", DOCTOR_FAULT, STORE, doctor_find_full_line},
    {"stream_url", DOCTOR_FAULT, ANYWAY, find_stream_url},
    {"certificate_ended", DOCTOR_FAULT, ANYWAY, find_ended_certificate},
    {"sync_late", DOCTOR_FAULT, STORE, find_late_sync},
    {"calls_refused", DOCTOR_WARNING, STORE, find_refused},
    {"calls_wait", DOCTOR_WARNING, STORE, doctor_find_waiting},
    {"callers_cannot_wait", DOCTOR_WARNING, ANYWAY, doctor_find_no_waits},
    {"tier_empty", DOCTOR_WARNING, STORE, find_empty_tiers},
    {"calls_expired", DOCTOR_WARNING, STORE, find_expired},
    {"redis_lost_data", DOCTOR_WARNING, STORE, find_wipe},
    {"redis_evicts", DOCTOR_WARNING, STORE, find_eviction},
    {"redis_without_log", DOCTOR_WARNING, STORE, find_no_log},
    {"tiers_unreadable", DOCTOR_WARNING, STORE, find_bad_tiers},
    {"clock_of_redis", DOCTOR_WARNING, STORE, find_clock_of_store},
    {"no_api_key", DOCTOR_WARNING, ANYWAY, find_no_keys},
    {"no_provider_token", DOCTOR_WARNING, ANYWAY, find_no_tokens},
    {"no_gateway_secret", DOCTOR_WARNING, ANYWAY, find_no_gateway_secret},
    {"certificate_ends", DOCTOR_WARNING, ANYWAY, find_ending_certificate},
    {"pods_suspended", DOCTOR_WARNING, STORE, find_suspended},
    {"pods_draining", DOCTOR_WARNING, STORE, find_draining},
    {"tier_small", DOCTOR_WARNING, STORE, find_small_tiers},
    {"versions_differ", DOCTOR_WARNING, STORE, find_versions},
    {"clock_of_router", DOCTOR_WARNING, ANYWAY, find_clock_of_router},
    {"log_not_synced", DOCTOR_NOTE, ANYWAY, find_unsynced_log},
    {"tier_config_differs", DOCTOR_NOTE, STORE, find_other_tiers},
    {"no_heartbeats", DOCTOR_NOTE, STORE, find_no_heartbeats},
    {"calls_do_not_resume", DOCTOR_NOTE, ANYWAY, doctor_find_no_resumes},
};

const size_t doctor_checks_len = ARRAY_LEN(doctor_checks);
