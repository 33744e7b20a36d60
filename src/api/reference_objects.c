/*
 * reference_objects.c - the objects in requests and answers, for the API reference.
 */
#include "api/reference.h"

/* clang-format off */
/* A list of members ends with an empty entry. */
#define MEMBERS(...) ((const struct reference_member[]){__VA_ARGS__, {.name = NULL}})

#define ONLY_UP     " Absent while the status is `down`."
#define WITH_LINE   " Absent while `HOLD_MAX_WAIT` is 0 and no call waits."
#define SUCCESS     {"success", "boolean", "true"}
#define FAILED      {"success", "boolean", "false"}, \
                    {"error", "string", "One sentence for people."}, \
                    {"code", "string", "One word for programs. Each answer names its words."}
#define POD_NAME    {"pod_name", "string", "The pod."}
#define PAGE_END    {"total", "integer", "How many there are on all pages."}, \
                    {"next_cursor", "string", "The `cursor` of the next page. Empty: this is the last page."}
#define CHANGE(type) \
    {"version", "integer", "The number of the version. Of a dry run: the number that it would get."}, \
    {"changed", "boolean", "false: the value was stored already, and there is no new version."}, \
    {"dry_run", "boolean", "true: nothing was changed."}, \
    {"old", type, "The value before. null: there was none."}, \
    {"new", type, "The value after. null: there is none."}, \
    {"warnings", "[string]", "Sentences about names that are not configured."}
#define VERSION(type) \
    {"version", "integer", "The number of the version."}, \
    {"at", "time or null", "When it was set. null: not by the API."}, \
    {"key", "string or null", "The name of the key that set it. null: none is known."}, \
    {"value", type, "The value. null: it was removed."}
/* A string is a stored text that is not JSON: another program wrote it. */
#define STORED_TIERS    "TierConfig or string or null"
#define STORED_MERCHANT "MerchantConfig or string or null"
#define SIDS(name, about) {name, "[string]", about}

const struct reference_object reference_objects[] = {
    {"CallSid", "The name of a call: 1 to 128 characters of `A-Z a-z 0-9 . _ : @ + = -`.", .type = "string",
     .pattern = "^[A-Za-z0-9._:@+=-]{1,128}$"},
    {"MerchantId", "The name of a merchant: 1 to 128 characters of `A-Z a-z 0-9 . _ : @ + = -`.",
     .type = "string", .pattern = "^[A-Za-z0-9._:@+=-]{1,128}$"},
    {"PodName", "The name of a pod: a DNS label. `metadata` and `calls` are reserved.", .type = "string",
     .pattern = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"},
    {"PoolName", "The name of a tier (`gold`), or `merchant:` and the name of a merchant pool.",
     .type = "string", .pattern = "^([A-Za-z0-9._-]{1,63}|merchant:[A-Za-z0-9._:@+=-]{1,128})$"},

    {"Error", "A request that was not carried out.", MEMBERS(FAILED)},

    {"Allocation", "The pod of a call.",
     MEMBERS(SUCCESS, POD_NAME,
             {"ws_url", "string", "The WebSocket URL of the call's stream (`WS_URL_TEMPLATE`)."},
             {"source_pool", "string", "The pool that gave the pod: `pool:gold`, `merchant:9shines`."},
             {"allocated_at", "time", "When the call got its pod."},
             {"was_existing", "boolean", "The call had this pod already."})},
    {"Waiting", "A call that waits for a pod.",
     MEMBERS(SUCCESS, {"waiting", "boolean", "true"},
             {"position", "integer", "Its place in line, from 1: the best of its places in the lines of its pools."},
             {"waited_seconds", "integer", "How long it has waited."},
             {"estimated_wait_seconds", "integer",
              "How long it is likely to wait still: its place, and how often calls of its pools got a pod in the "
              "last ten minutes. Absent: none did.", true},
             {"retry_after_ms", "integer", "When to ask again. After 15 seconds of silence the call leaves the line."})},
    {"Release", "A call that has ended.",
     MEMBERS(SUCCESS, {"pod_name", "string", "The pod. Empty: the call waited for one."},
             {"released_to_pool", "string",
              "The pool that has the pod again. Empty: the pod is draining, or is gone, or was not released."},
             {"was_draining", "boolean", "The pod is draining and gets no new call."},
             {"was_waiting", "boolean", "true: the call waited for a pod. Absent: it had one.", true},
             {"is_kept", "boolean",
              "true: nothing was changed, because the call was moved, cut or resumed a moment ago and goes on. "
              "Absent: it has ended.", true})},
    {"Renewal", "What became of each call of a renewal.",
     MEMBERS(SUCCESS, SIDS("renewed", "Calls with a new lease."), SIDS("unknown", "Calls that nobody knows."),
             SIDS("ended", "Calls that have ended: drop them."),
             SIDS("conflicts", "Calls whose pod another call has by now: drop them."),
             {"expires_at", "time", "When the new leases end."})},
    {"Call", "A live call.",
     MEMBERS({"call_sid", "string", "The call."}, POD_NAME,
             {"source_pool", "string", "The pool that gave the pod: `pool:gold`, `merchant:9shines`."},
             {"merchant_id", "string", "The merchant. Empty: none was named."},
             {"provider", "string", "The provider that owns the call. Empty: the API allocated it."},
             {"allocated_at", "time", "When the call got its pod."},
             {"expires_at", "time", "When its lease ends, unless it is renewed."},
             {"state", "allocated|active|connected|expired|granted",
              "`granted`: it has waited, and its client or stream has not taken the pod yet. `expired`: its lease has ended. `connected`: a router has an open stream of it. `active`: it was "
              "renewed. `allocated`: it was not renewed yet."},
             {"last_renewed_at", "time", "When it was renewed the last time. Absent: never.", true},
             {"renewed_by", "client|pod|gateway",
              "Who renewed it the last time: a request to renew it, a heartbeat of its pod, or a router that "
              "has its stream.", true},
             {"connected", "boolean", "A router has an open stream of it."},
             SIDS("carried_by", "The routers that carry its streams."))},
    {"CallPage", "A page of calls. `total` counts all live calls, whatever the filters are.",
     MEMBERS({"calls", "[Call]", "The calls of this page."}, PAGE_END)},
    {"WaitingCall", "A call that waits for a pod.",
     MEMBERS({"call_sid", "string", "The call."},
             {"merchant_id", "string", "The merchant. Empty: none was named."},
             {"provider", "string", "The provider that owns the call. Empty: a client of the API asked for it."},
             {"state", "string", "`waiting`"},
             {"priority", "integer", "`priority` of its merchant, when it joined the line."},
             {"position", "integer", "Its place in line, from 1: the best of its places in the lines of its pools."},
             {"since", "time", "Since when it waits. Of a rescued call: when it got its first pod."},
             {"until", "time", "When its wait is over."},
             {"waited_seconds", "integer", "How long it has waited."},
             {"estimated_wait_seconds", "integer", "How long it is likely to wait still. Absent: not known.", true},
             {"pools", "[string]", "The pools for which it waits, in the order of its chain: `pool:gold`."},
             {"rescued", "boolean", "It had a pod, which broke."},
             {"held_by", "string",
              "The router that has its stream or its open request. Empty: its client asks again and again."})},
    {"WaitingPage", "A page of the line.",
     MEMBERS({"waiting", "[WaitingCall]", "The calls of this page."}, PAGE_END)},
    {"CallNotFound", "There is no such call. If no pod was free for it, the reason is here.",
     MEMBERS(FAILED, {"refusal", "Refusal", "The last time that this call got no pod.", true})},
    {"CallStory", "All that is known of a call.",
     MEMBERS({"call_sid", "string", "The call."},
             {"state", "allocated|active|connected|expired|granted|waiting|ended|refused",
              "Of a live call as in `Call`. `waiting`: it waits for a pod. `ended`: it has ended. `refused`: it got no pod, the last time."},
             {"summary", "string", "The story in one sentence."},
             {"story", "[CallEvent]", "The events, in the order of time."})},
    {"CallEvent", "Something that happened to a call.",
     MEMBERS({"time", "time", "When it happened. Of `carried`: now."},
             {"event", "refused|waiting|allocated|moved|renewed|carried|expired|released|closed|timed_out|undone|"
              "lease_expired|pod_gone|pod_restarted|left_out",
              "What happened. The call got a pod, or none (`allocated`, `refused`); it waits for one (`waiting`); its pod could not be reached, "
              "and it moved to another one (`moved`); it was renewed, the last time (`renewed`); routers carry "
              "its stream now (`carried`); its lease has ended, and the next sweep ends the call (`expired`). "
              "All others say how it ended."},
             {"sentence", "string", "The same in plain English, with the names."})},
    {"Refusal", "Why a call got no pod.",
     MEMBERS({"at", "time", "When it was refused."},
             {"chain", "[RefusalStep]", "The pools that were tried, in their order."})},
    {"RefusalStep", "One pool of a refused call's chain, and the states of its pods at that moment.",
     MEMBERS({"pool", "string", "The pool."},
             {"is_configured", "boolean", "false: the tiers have no such pool."},
             {"pods", "integer", "The pods of the pool."}, {"available", "integer", "Pods with room."},
             {"busy", "integer", "Pods without room."}, {"draining", "integer", "Pods that are draining."},
             {"suspended", "integer", "Pods that are not ready but still have calls."})},

    {"Pod", "A pod.",
     MEMBERS(POD_NAME, {"tier", "string", "The tier or the merchant pool that the pod belongs to."},
             {"state", "available|busy|draining|suspended",
              "`available`: has room. `busy`: has none. `draining`: gets no new call. `suspended`: not "
              "ready, but has calls."},
             {"address", "string", "Where the gateway connects to. Empty: not known."},
             {"source", "kubernetes|static|api", "What the router knows the pod from."},
             {"is_draining", "boolean", "The pod gets no new call."},
             {"is_surplus", "boolean", "It drains because autoscaling wants fewer pods."},
             {"draining_until", "time or null",
              "When the drain ends by itself. null: it does not. Absent: the pod is not draining.", true},
             {"is_ready", "boolean", "The pod said, or Kubernetes said, that it is ready."},
             {"last_heartbeat_at", "time", "Its last heartbeat. Absent: it never sent one.", true},
             {"has_active_lease", "boolean", "The pod has a call."},
             {"lease_call_sid", "string", "Its newest call. Empty: none."}, SIDS("calls", "All its calls."))},
    {"PodPage", "A page of pods.", MEMBERS({"pods", "[Pod]", "The pods of this page."}, PAGE_END)},
    {"Registration", "A registered pod.",
     MEMBERS(SUCCESS, POD_NAME, {"tier", "string", "The tier that the pod joined."},
             {"is_new", "boolean", "false: the pod was registered before."},
             {"heartbeat_interval_seconds", "number",
              "How often to send a heartbeat: two may be lost before `HEARTBEAT_TTL` is over."})},
    {"PodDone", "A pod, and that the request was carried out.", MEMBERS(SUCCESS, POD_NAME)},
    {"Heartbeat", "What became of each call of a heartbeat.",
     MEMBERS(SUCCESS, SIDS("renewed", "Calls with a new lease."),
             SIDS("adopted", "Calls that the router did not know, and that the pod has now."),
             SIDS("ended", "Calls that have ended: drop them."),
             SIDS("conflicts", "Calls that the pod cannot have: drop them."))},
    {"Drain", "A pod that is draining.",
     MEMBERS(SUCCESS, POD_NAME, {"has_active_call", "boolean", "The pod still has a call."},
             {"calls_left", "integer", "How many calls it still has."},
             {"message", "string", "One sentence for people."},
             {"draining_until", "time or null",
              "When the pod gets calls again by itself. null: only when it is undrained."})},
    {"Drained", "Whether a pod is drained.",
     MEMBERS(SUCCESS, POD_NAME, {"is_drained", "boolean", "The pod is draining and has no call."},
             {"is_draining", "boolean", "The pod gets no new call."}, SIDS("calls", "The calls that it has."))},

    {"MerchantConfig", "The configuration of a merchant: docs/TIERS.md.",
     MEMBERS({"tier", "string", "The tier where the merchant's chain begins.", true},
             {"pool", "string", "The merchant pool that is tried first, by its plain name.", true},
             {"fallback", "[string]", "The pools after `pool`, instead of the default chain.", true},
             {"priority", "integer", "0 to 9. Each step is worth `HOLD_AGEING` of waiting: its calls stand so much further in front. Default: 0.", true},
             {"hold_seconds", "integer", "0 to 3600. How long its calls may wait for a pod, in seconds. 0: they do not wait. Default: `HOLD_MAX_WAIT`.", true},
             {"max_waiting", "integer", "0 to 100000. How many of its calls may wait at once. Default: no limit but `HOLD_MAX_CALLS`.", true})},
    {"MerchantPage", "A page of configurations of merchants.",
     MEMBERS({"merchants", "{MerchantConfig or string}",
              "By merchant. A string is a stored text that is not JSON: another program wrote it."},
             PAGE_END)},
    {"MerchantChange", "A change of the configuration of a merchant.",
     MEMBERS(SUCCESS, {"merchant_id", "string", "The merchant."}, CHANGE(STORED_MERCHANT))},
    {"MerchantVersion", "A version of the configuration of a merchant.", MEMBERS(VERSION(STORED_MERCHANT))},
    {"MerchantHistory", "The versions of the configuration of a merchant.",
     MEMBERS(SUCCESS, {"versions", "[MerchantVersion]", "The newest first."})},
    {"Tier", "A tier: docs/TIERS.md.",
     MEMBERS({"type", "exclusive|shared", "One call per pod, or several. Default `exclusive`.", true},
             {"target", "integer", "How many pods the tier wants. Default 0.", true},
             {"max_concurrent", "integer", "Calls of one pod of a shared tier. Default 5.", true},
             {"reserved", "boolean", "Only for merchants that name the tier. Default false.", true},
             {"buffer", "integer", "Autoscaling: calls for which there is always room. Default 0.", true},
             {"min", "integer", "Autoscaling: at least so many pods. Default: the target.", true},
             {"max", "integer", "Autoscaling: at most so many pods. Default: no limit.", true})},
    {"TierEnvelope", "The tiers and the default chain. The router stores this form.",
     MEMBERS({"tiers", "TierMap", "The tiers, by name."},
             {"default_chain", "[string]", "The tiers that a call tries, in their order.", true})},
    {"TierMap", "The tiers by name. A number is the target of an exclusive tier.",
     .type = "{Tier or integer}"},
    {"TierConfig", "The tiers: docs/TIERS.md.", .type = "TierEnvelope or TierMap"},
    {"TiersChange", "A change of the tiers.", MEMBERS(SUCCESS, CHANGE(STORED_TIERS))},
    {"TiersVersion", "A version of the tiers.", MEMBERS(VERSION(STORED_TIERS))},
    {"TiersHistory", "The versions of the tiers.",
     MEMBERS(SUCCESS, {"versions", "[TiersVersion]", "The newest first."})},
    {"Done", "The request was carried out.", MEMBERS(SUCCESS)},

    {"Health", "The process is alive.", MEMBERS({"status", "string", "`ok`"})},
    {"Ready", "Whether the process can serve calls.",
     MEMBERS({"status", "ready|not ready", "Load balancers look at the HTTP status alone."},
             {"reason", "string", "Why it is not ready.", true})},
    {"Status", "The state of the pools and of this process.",
     MEMBERS({"pools", "{integer}", "`TIER:available` and `TIER:assigned` for each pool." ONLY_UP, true},
             {"tiers", "{TierStatus}", "The pools, by name." ONLY_UP, true},
             {"pods", "integer", "All pods." ONLY_UP, true},
             {"active_calls", "integer", "All live calls." ONLY_UP, true},
             {"waiting", "integer", "Calls that wait for a pod." WITH_LINE, true},
             {"is_leader", "boolean", "This process manages the pods."},
             {"leader", "string", "The name of the process that does. Empty: not known."},
             {"identity", "string", "The name of this process (`POD_NAME`)."},
             {"store", "string", "`embedded` or `redis`"},
             {"version", "string", "The version of the router."},
             {"uptime_seconds", "integer", "How long this process has been running."},
             {"status", "up|down", "`down`: the store is not reachable, and calls are refused."})},
    {"Diagnosis", "Facts about this process, its store and the other routers.",
     MEMBERS({"time", "string", "The clock of this process: `2026-02-08T10:00:00.123Z`."},
             {"version", "string", "The version of the router."},
             {"identity", "string", "The name of this process (`POD_NAME`)."},
             {"uptime_seconds", "integer", "How long this process has been running."},
             {"is_leader", "boolean", "This process manages the pods."},
             {"leader", "string", "The name of the process that does. Empty: not known."},
             {"store", "StoreFacts", "The store, as this process sees it."},
             {"redis", "RedisFacts", "Redis about itself. Absent: there is none, or it does not tell.", true},
             {"routers", "[RouterFacts]",
              "The routers that share the store, or this one. Absent: the store did not tell.", true},
             {"has_api_keys", "boolean", "false: requests need no key."},
             {"provider_tokens", "{boolean}", "By provider: is its token set?"},
             {"last_sync_seconds", "integer",
              "How long ago the last full sync of the pods was finished. Absent: this process does not lead, or "
              "there was none yet.", true},
             {"settings", "SettingFacts", "Settings that are often wrong."})},
    {"StoreFacts", "The state of the store.",
     MEMBERS({"name", "string", "`embedded` or `redis`"},
             {"is_ready", "boolean", "An allocation would be answered now."},
             {"detail", "string", "Why it is not ready. Empty: it is."},
             {"is_shared", "boolean", "Other processes may use the same state."},
             {"errors", "integer", "Commands that failed since the start of the process."},
             {"wipes", "integer", "How often the store had lost everything since then."},
             {"refused_tiers", "integer", "Stored tier configurations that could not be used since then."},
             {"clock_ahead_ms", "integer",
              "The clock of Redis less the clock of this process. Absent: not known.", true})},
    {"RedisFacts", "What the Redis server tells about itself (`INFO`).",
     MEMBERS({"version", "string", "Its version."}, {"role", "string", "`master` or `slave`"},
             {"logs_writes", "boolean", "It has an append-only file."},
             {"fails_to_log", "boolean", "The last write of this file failed."},
             {"fails_to_save", "boolean", "The last snapshot failed."},
             {"eviction_policy", "string", "`noeviction`: it never throws data away."},
             {"max_memory", "integer", "Its limit in bytes. 0: none."},
             {"used_memory", "integer", "Bytes that it uses."},
             {"evicted_keys", "integer", "Keys that it has thrown away since its start."},
             {"replicas", "integer", "Replicas that are connected."})},
    {"RouterFacts", "A router that shares the store.",
     MEMBERS({"name", "string", "Its name."}, {"version", "string", "Its version. Empty: not known now. `older`: it is too old to tell."},
             {"silent_ms", "integer", "Milliseconds since its last sign of life, which comes every 10 seconds."})},
    {"SettingFacts", "Settings of this process.",
     MEMBERS({"pod_source", "api|static|kubernetes", "`POD_SOURCE`"}, {"namespace", "string", "`NAMESPACE`"},
             {"pod_label_selector", "string", "`POD_LABEL_SELECTOR`"},
             {"key_prefix", "string", "`KEY_PREFIX`"},
             {"http_bind", "string", "`HTTP_BIND`. Empty: all addresses."},
             {"stream_url", "string", "Where providers shall open the streams of calls."},
             {"stream_url_problem", "string or null", "Why they cannot. null: nothing speaks against it."},
             {"has_gateway_secret", "boolean", "`GATEWAY_SECRET` is set."},
             {"rescues", "boolean", "`RESCUE`"},
             {"hold_max_wait_seconds", "integer", "`HOLD_MAX_WAIT`; 0: no call waits, but those of merchants with `hold_seconds`."},
             {"hold_max_calls", "integer", "`HOLD_MAX_CALLS`"},
             {"missing_for_waiting", "string or null",
              "The settings without which calls of providers neither wait nor resume. null: none is missing."},
             {"syncs_log", "boolean", "The embedded store syncs its log to the disk (`LOG_FSYNC`)."},
             {"reconcile_interval_seconds", "integer", "`RECONCILE_INTERVAL`"},
             {"certificate_until", "time", "The end of the certificate. Absent: there is none.", true},
             {"certificate_problem", "string", "Why the certificate cannot be used.", true},
             {"tier_config", "TierConfig", "`TIER_CONFIG` as it would be stored. Absent: it is not set.", true})},
    {"PoolHistory", "The last hour of the pools. All lists are equally long: their first entry is of `from`.",
     MEMBERS({"from", "time", "When the first sample was taken, or a few seconds before that."},
             {"interval_seconds", "integer", "The time between two samples."},
             {"refused", "[integer]", "Calls that this router refused in each interval: no pod was free."},
             {"pools", "{PoolSamples}", "By the name of the pool."},
             {"pools_left_out", "integer", "Pools beyond the first 256, which are not kept."})},
    {"PoolSamples", "The samples of one pool, the oldest first.",
     MEMBERS({"calls", "[integer or null]", "Live calls."},
             {"free", "[integer or null]", "Calls that fit in addition."},
             {"capacity", "[integer or null]", "Calls that fit at once."})},
    {"Whoami", "The key of a request.",
     MEMBERS({"key", "string or null", "Its name. null: no key is required."},
             {"role", "admin|call|agent|metrics|read", "What it may do: SECURITY.md."},
             {"pods", "string or null", "The pods of an agent's key, as a pattern. null: all."},
             {"is_key_required", "boolean", "Keys are set."})},
    {"Autoscale", "How many pods are wanted.",
     MEMBERS({"desired_pods", "integer",
              "For the calls, those that wait and the buffer, within `min` and `max` of the tier; and the pods "
              "that drain or are suspended, unless Kubernetes removes them already."},
             {"calls", "integer", "Live calls on pods that take calls."},
             {"waiting", "integer", "Calls that wait for a pod, each counted in the first tier of its chain."},
             {"buffer", "integer", "Calls for which there is always room."},
             {"per_pod", "integer", "Calls of one pod. 0: the tiers differ."})},
    {"TierStatus", "The pods and calls of one pool.",
     MEMBERS({"type", "exclusive|shared", "One call per pod, or several."},
             {"is_configured", "boolean", "false: the tier was removed. Its idle pods move."},
             {"target", "integer", "How many pods the tier wants."},
             {"max_concurrent", "integer", "How many calls one pod may have."},
             {"assigned", "integer", "The pods of the pool."}, {"available", "integer", "Pods with room."},
             {"busy", "integer", "Pods without room."}, {"draining", "integer", "Pods that are draining."},
             {"suspended", "integer", "Pods that are not ready but still have calls."},
             {"calls", "integer", "Live calls."}, {"capacity", "integer", "Calls that fit at once."},
             {"free", "integer", "Calls that fit in addition."},
             {"waiting", "integer", "Calls that wait for a pod, and whose chain begins here." WITH_LINE, true})},

    {"ExotelStream", "Where Exotel connects a call to.",
     MEMBERS({"url", "string", "The WebSocket URL of the call's stream, or `FALLBACK_WS_URL`."})},
};
/* clang-format on */

const size_t reference_objects_count = ARRAY_LEN(reference_objects);

const struct reference_object *reference_object_of(const char *name, size_t len)
{
    for (size_t i = 0; i < reference_objects_count; i++) {
        if (strlen(reference_objects[i].name) == len && memcmp(reference_objects[i].name, name, len) == 0)
            return &reference_objects[i];
    }
    return NULL;
}

const char *reference_type_of_name(const char *of)
{
    static const char *const types[][2] = {
        {"call", "CallSid"}, {"pod", "PodName"}, {"merchant", "MerchantId"}, {"tier", "PoolName"}};

    for (size_t i = 0; of && i < ARRAY_LEN(types); i++) {
        if (strcmp(types[i][0], of) == 0)
            return types[i][1];
    }
    return NULL;
}
