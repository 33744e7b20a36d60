/* render.c - writes commands and results as text, in an order that does not depend on the store. */
#include "render.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/autoscale.h"

static void render_sids(struct strbuf *buf, const char *const *sids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        strbuf_printf(buf, " %s", sids[i]);
}

static void render_seen(struct strbuf *buf, const struct pod_seen *seen)
{
    strbuf_printf(buf, " [%s address=%s incarnation=%s tier=%s source=%s%s%s%s%s started=%" PRIu64 "]",
                  seen->name, seen->address, seen->incarnation ? seen->incarnation : "-",
                  seen->tier ? seen->tier : "-", pod_source_name(seen->source),
                  seen->is_ready ? " ready" : "", seen->is_terminating ? " terminating" : "",
                  seen->hold_back ? " hold" : "", seen->is_kept ? " kept" : "", seen->started_at_ms);
}

static void render_change(struct strbuf *buf, const struct change *change)
{
    strbuf_printf(buf, " by=%s%s%s if=%" PRIu64, change->by ? change->by : "-",
                  change->is_stored ? " stored" : "", change->is_trial ? " trial" : "", change->if_version);
}

void render_command(struct strbuf *buf, const struct command *command)
{
    strbuf_append_str(buf, command_name(command->type));
    switch (command->type) {
    case COMMAND_ALLOCATE:
        strbuf_printf(buf, " %s merchant=%s provider=%s%s attempt=%" PRIu64, command->allocate.call_sid,
                      command->allocate.merchant_id, command->allocate.provider,
                      command->allocate.is_webhook ? " webhook" : "", command->allocate.attempt);
        if (command->allocate.waits)
            strbuf_printf(buf, " waits%s holder=%s", command->allocate.awaits_stream ? " for a stream" : "",
                          command->allocate.holder ? command->allocate.holder : "-");
        if (command->allocate.is_resume)
            strbuf_printf(buf, " resumes on %s",
                          command->allocate.resume_pod ? command->allocate.resume_pod : "-");
        break;
    case COMMAND_UNDO:
        strbuf_printf(buf, " %s attempt=%" PRIu64 "%s", command->undo.call_sid, command->undo.attempt,
                      command->undo.spares_place ? " spares its place" : "");
        break;
    case COMMAND_HOLD:
        strbuf_printf(buf, " %s carrier=%s", command->hold.call_sid,
                      command->hold.carrier ? command->hold.carrier : "-");
        if (command->hold.is_held)
            strbuf_printf(buf, " claim=%" PRIu64, command->hold.claim);
        if (command->hold.is_new)
            strbuf_printf(buf, " is new");
        break;
    case COMMAND_RELEASE:
        strbuf_printf(buf, " %s pod=%s webhook=%s %s", command->release.call_sid,
                      command->release.pod ? command->release.pod : "-",
                      command->release.provider ? command->release.provider : "-",
                      finish_reason_name(command->release.why));
        break;
    case COMMAND_LEAVE:
        strbuf_printf(buf, " %s %" PRIu64, command->leave.call_sid, command->leave.expires_at_ms);
        break;
    case COMMAND_RENEW:
        render_sids(buf, command->renew.call_sids, command->renew.count);
        if (command->renew.pods) {
            strbuf_append_str(buf, " on");
            render_sids(buf, command->renew.pods, command->renew.count);
        }
        if (command->renew.providers) {
            strbuf_append_str(buf, " of");
            render_sids(buf, command->renew.providers, command->renew.count);
        }
        for (size_t i = 0; command->renew.can_move && i < command->renew.count; i++)
            strbuf_append_str(buf, command->renew.can_move[i] ? " +" : " -");
        if (command->renew.pattern)
            strbuf_printf(buf, " within %s", command->renew.pattern);
        break;
    case COMMAND_PRESENT:
        strbuf_printf(buf, " %s%s", command->present.carrier, command->present.is_leaving ? " leaving" : "");
        break;
    case COMMAND_HEARTBEAT:
        strbuf_printf(buf, " %s:", command->heartbeat.pod);
        render_sids(buf, command->heartbeat.call_sids, command->heartbeat.count);
        break;
    case COMMAND_DRAIN:
        strbuf_printf(buf, " %s %" PRIu64, command->drain.pod, command->drain.ttl_ms);
        break;
    case COMMAND_UNDRAIN:
        strbuf_printf(buf, " %s", command->undrain.pod);
        break;
    case COMMAND_MOVE_CALL:
        strbuf_printf(buf, " %s from=%s%s aside=%" PRIu64 " carrier=%s", command->move.call_sid,
                      command->move.from_pod, command->move.spares_pod ? " spared" : "",
                      command->move.aside_ms, command->move.carrier ? command->move.carrier : "-");
        break;
    case COMMAND_POD_SEEN:
        render_seen(buf, &command->pod_seen.pod);
        strbuf_append_str(buf, command->pod_seen.is_registration ? " registration" : "");
        break;
    case COMMAND_POD_GONE:
        strbuf_printf(buf, " %s %s%s", command->pod_gone.pod, pod_source_name(command->pod_gone.source),
                      command->pod_gone.is_absent ? " absent" : "");
        break;
    case COMMAND_SYNC:
        strbuf_printf(buf, " %s%s", pod_source_name(command->sync.source),
                      command->sync.spares_calls ? " spares calls" : "");
        for (size_t i = 0; i < command->sync.count; i++)
            render_seen(buf, &command->sync.pods[i]);
        break;
    case COMMAND_SWEEP:
        strbuf_printf(buf, " %zu", command->sweep.limit);
        break;
    case COMMAND_SCALE:
        strbuf_printf(buf, " %d %zu", command->scale.by_set, command->scale.limit);
        break;
    case COMMAND_REBALANCE:
        strbuf_printf(buf, " %zu", command->rebalance.limit);
        break;
    case COMMAND_TIERS_SET:
        strbuf_printf(buf, " %s", command->tiers_set.text);
        render_change(buf, &command->tiers_set.change);
        break;
    case COMMAND_MERCHANT_SET:
        strbuf_printf(buf, " %s %s", command->merchant_set.merchant_id, command->merchant_set.text);
        render_change(buf, &command->merchant_set.change);
        break;
    case COMMAND_MERCHANT_REMOVE:
        strbuf_printf(buf, " %s", command->merchant_remove.merchant_id);
        render_change(buf, &command->merchant_remove.change);
        break;
    case COMMAND_HISTORY:
        strbuf_printf(buf, " %s", command->history.merchant_id ? command->history.merchant_id : "-");
        break;
    case COMMAND_MERCHANT:
        strbuf_printf(buf, " %s", command->merchant.merchant_id);
        break;
    case COMMAND_PODS:
        strbuf_printf(buf, " tier=%s state=%d limit=%zu cursor=%s",
                      command->pods.tier ? command->pods.tier : "-", command->pods.state, command->pods.limit,
                      command->pods.cursor ? command->pods.cursor : "");
        break;
    case COMMAND_POD:
        strbuf_printf(buf, " %s", command->pod.name);
        break;
    case COMMAND_CALL:
    case COMMAND_STORY:
        strbuf_printf(buf, " %s", command->call.call_sid);
        break;
    case COMMAND_CALLS:
        strbuf_printf(buf, " pod=%s merchant=%s state=%s older=%" PRIu64 " limit=%zu",
                      command->calls.pod ? command->calls.pod : "-",
                      command->calls.merchant_id ? command->calls.merchant_id : "-",
                      call_state_name(command->calls.state), command->calls.older_than_ms,
                      command->calls.limit);
        break;
    case COMMAND_KEEP:
        for (size_t i = 0; i < command->keep.count; i++) {
            const struct keep_call *keep = &command->keep.calls[i];

            strbuf_printf(buf,
                          " %s since=%" PRIu64 " until=%" PRIu64 " claim=%" PRIu64 " attempt=%" PRIu64 "%s",
                          keep->call.call_sid, keep->call.since_ms, keep->call.until_ms, keep->call.claim,
                          keep->attempt, keep->is_first ? " is first" : "");
        }
        break;
    case COMMAND_DEPART:
        render_sids(buf, command->depart.call_sids, command->depart.count);
        break;
    case COMMAND_WAITING:
        strbuf_printf(buf, " limit=%zu cursor=%s", command->waiting.limit,
                      command->waiting.cursor ? command->waiting.cursor : "");
        break;
    case COMMAND_SERVE:
    case COMMAND_STATUS:
    case COMMAND_MERCHANTS:
    case COMMAND_TIERS:
    case COMMAND_TYPES:
        break; /* the name says it all */
    }
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The lines that were written since `from`, sorted. */
static void sort_lines(struct strbuf *buf, size_t from, struct arena *arena)
{
    char *copy;
    char **lines;
    size_t count = 0;
    size_t room = 1;

    if (strbuf_failed(buf) || from == buf->len)
        return;
    copy = arena_copy(arena, buf->data + from, buf->len - from);
    for (size_t i = from; i < buf->len; i++)
        room += buf->data[i] == '\n';
    lines = arena_alloc(arena, room * sizeof(*lines));
    if (!copy || !lines) {
        buf->failed = true;
        return;
    }
    for (char *line; (line = strsep(&copy, "\n")) && copy;)
        lines[count++] = line;
    qsort(lines, count, sizeof(*lines), compare_texts);
    buf->len = from;
    for (size_t i = 0; i < count; i++)
        strbuf_printf(buf, "%s\n", lines[i]);
}

const char *render_sorted(const struct strbuf *buf, struct arena *arena)
{
    struct strbuf copy;

    strbuf_init(&copy, arena, 1024 * 1024);
    strbuf_append(&copy, strbuf_slice(buf).data, buf->len);
    sort_lines(&copy, 0, arena);
    return copy.len ? copy.data : "";
}

static void render_names(struct strbuf *buf, const char *label, const struct name_array *names)
{
    strbuf_append_str(buf, label);
    render_sids(buf, names->names, names->count);
    strbuf_append_char(buf, '\n');
}

static void render_ended(struct strbuf *buf, const struct ended_array *ended, struct arena *arena)
{
    size_t from = buf->len;

    for (size_t i = 0; i < ended->count; i++)
        strbuf_printf(buf, "ended %s pod=%s pool=%s merchant=%s: %s\n", ended->calls[i].call_sid,
                      ended->calls[i].pod, ended->calls[i].pool, ended->calls[i].merchant_id,
                      call_end_name(ended->calls[i].why));
    sort_lines(buf, from, arena);
}

static void render_call(struct strbuf *buf, const struct call_info *call)
{
    strbuf_printf(
        buf, "call %s pod=%s address=%s pool=%s merchant=%s provider=%s at=%" PRIu64 " until=%" PRIu64 "\n",
        call->call_sid, call->pod, call->address, call->pool, call->merchant_id, call->provider,
        call->allocated_at_ms, call->expires_at_ms);
}

static void render_waiting(struct strbuf *buf, const struct waiting_call *call)
{
    strbuf_printf(buf,
                  "waiting %s merchant=%s provider=%s since=%" PRIu64 " until=%" PRIu64
                  " holder=%s priority=%u position=%" PRIu64 " estimate=%" PRIu64 " heard=%" PRIu64
                  " claim=%" PRIu64 "%s for",
                  call->call_sid, call->merchant_id, call->provider, call->since_ms, call->until_ms,
                  call->holder, call->priority, call->position, call->estimate_ms, call->heard_at_ms,
                  call->claim, call->is_rescued ? " rescued" : "");
    render_sids(buf, call->pools, call->pool_count);
    strbuf_append_char(buf, '\n');
}

/* Only of queries: other answers leave it out. */
static void render_activity(struct strbuf *buf, const struct call_info *call)
{
    const struct call_activity *activity = &call->activity;

    buf->len -= buf->len > 0 && !buf->failed; /* the end of the line */
    strbuf_printf(buf, " state=%s renewed=%d by=%s at=%" PRIu64 " connected=%d granted=%d carriers:",
                  call_state_name(activity->state), activity->was_renewed, renewer_name(activity->renewed_by),
                  activity->renewed_at_ms, activity->is_connected, activity->is_granted);
    render_sids(buf, activity->carriers.names, activity->carriers.count);
    strbuf_append_char(buf, '\n');
}

static void render_refusal(struct strbuf *buf, const struct refusal *refusal)
{
    if (!refusal)
        return;
    strbuf_printf(buf, "refused at %" PRIu64 "\n", refusal->at_ms);
    for (size_t i = 0; i < refusal->count; i++) {
        const struct refusal_step *step = &refusal->steps[i];

        strbuf_printf(buf, "  %s%s pods=%u available=%u busy=%u out=%u\n", step->pool,
                      step->is_configured ? "" : " (missing)", step->pods, step->by_state[POD_AVAILABLE],
                      step->by_state[POD_BUSY], step->by_state[POD_DRAINING] + step->by_state[POD_SUSPENDED]);
    }
}

static void render_story(struct strbuf *buf, const struct result *result)
{
    const struct refusal *refusal = result->story.refusal;

    strbuf_printf(buf, "now %" PRIu64 "\n", result->story.now_ms);
    if (result->story.is_live) {
        render_call(buf, &result->story.call);
        render_activity(buf, &result->story.call);
    }
    if (result->story.is_waiting)
        render_waiting(buf, &result->story.waiting);
    for (size_t i = 0; i < result->story.past_count; i++) {
        const struct past_call *past = &result->story.past[i];

        strbuf_printf(buf,
                      "past pod=%s pool=%s merchant=%s provider=%s from=%" PRIu64 " to=%" PRIu64
                      " renewed=%s %" PRIu64 ": %s\n",
                      past->pod, past->pool, past->merchant_id, past->provider, past->allocated_at_ms,
                      past->ended_at_ms, renewer_name(past->renewed_by), past->renewed_at_ms,
                      past_end_name(past->how));
    }
    if (refusal)
        strbuf_printf(buf, "asked for merchant=%s by=%s\n", refusal->merchant_id, refusal->provider);
    render_refusal(buf, refusal);
}

static void render_pod(struct strbuf *buf, const struct pod_info *pod, struct arena *arena)
{
    const char **calls = arena_alloc(arena, (pod->calls.count + 1) * sizeof(*calls));

    if (!calls) {
        buf->failed = true;
        return;
    }
    if (pod->calls.count)
        memcpy(calls, pod->calls.names, pod->calls.count * sizeof(*calls));
    qsort(calls, pod->calls.count, sizeof(*calls), compare_texts);
    strbuf_printf(buf,
                  "pod %s tier=%s address=%s incarnation=%s source=%s state=%s%s until=%" PRIu64
                  "%s%s heard=%" PRIu64 " newest=%s calls:",
                  pod->name, pod->tier, pod->address, pod->incarnation, pod_source_name(pod->source),
                  pod->state == POD_AVAILABLE ? "available"
                  : pod->state == POD_BUSY    ? "busy"
                                              : "out",
                  pod->is_surplus    ? " surplus"
                  : pod->is_draining ? " draining"
                                     : "",
                  pod->draining_until_ms, pod->is_ready ? " ready" : "",
                  pod->is_heartbeating ? " heartbeating" : "", pod->last_heartbeat_ms,
                  pod->calls.count > 1 ? "?" : pod->newest_call);
    render_sids(buf, calls, pod->calls.count);
    strbuf_append_char(buf, '\n');
}

static void render_status(struct strbuf *buf, const struct result *result)
{
    strbuf_printf(buf, "calls=%" PRIu64 " pods=%" PRIu64 " waiting=%" PRIu64 "\n",
                  result->status.active_calls, result->status.pods, result->status.waiting);
    for (size_t i = 0; i < result->status.tier_count; i++) {
        const struct tier_status *tier = &result->status.tiers[i];

        strbuf_printf(buf,
                      "tier %s%s%s target=%u max=%u assigned=%u available=%u busy=%u out=%u calls=%" PRIu64
                      " capacity=%" PRIu64 " free=%" PRIu64 " held_calls=%" PRIu64
                      " leaving=%u waiting=%" PRIu64 " buffer=%u min=%u most=%u desired=%" PRIu64 "\n",
                      tier->name, tier->is_shared ? " shared" : "", tier->is_configured ? "" : " removed",
                      tier->target, tier->max_concurrent, tier->assigned, tier->by_state[POD_AVAILABLE],
                      tier->by_state[POD_BUSY], tier->by_state[POD_DRAINING] + tier->by_state[POD_SUSPENDED],
                      tier->calls, tier->capacity, tier->free, tier->held_calls, tier->leaving, tier->waiting,
                      tier->scaling.buffer, tier->scaling.min_pods, tier->scaling.max_pods,
                      autoscale_of(result, tier).desired_pods);
    }
    for (size_t i = 0; i < result->status.set_count; i++) {
        const struct set_status *set = &result->status.sets[i];

        strbuf_printf(buf, "set %s in %s pods=%u floor=%u\n", set->name, set->tier, set->pods, set->floor);
    }
}

static void render_changed(struct strbuf *buf, const struct result *result)
{
    strbuf_printf(buf, "version %" PRIu64 " changed=%d\nold %s\nnew %s\n", result->change.version,
                  result->change.is_changed, result->change.old_text, result->change.new_text);
    render_names(buf, "warnings", &result->change.warnings);
}

static void render_history(struct strbuf *buf, const struct result *result)
{
    for (size_t i = 0; i < result->history.count; i++) {
        const struct version_info *version = &result->history.versions[i];

        strbuf_printf(buf, "version %" PRIu64 " at %" PRIu64 " by %s: %s\n", version->number, version->at_ms,
                      version->by, version->text);
    }
}

static void render_kept(struct strbuf *buf, const struct result *result)
{
    static const char *const answers[] = {"waiting", "rejoined", "granted",  "timed out",
                                          "ended",   "unknown",  "elsewhere"};

    for (size_t i = 0; i < result->keep.count; i++) {
        const struct kept_call *kept = &result->keep.calls[i];

        strbuf_printf(buf, "%s now=%d claim=%" PRIu64 "\n", answers[kept->answer], kept->ended_now,
                      kept->call.claim);
        if (kept->call.call_sid)
            render_waiting(buf, &kept->call);
    }
}

static void render_served(struct strbuf *buf, const struct result *result, struct arena *arena)
{
    size_t from;

    strbuf_printf(buf, "granted=%zu more=%d\n", result->serve.granted, result->serve.more);
    from = buf->len;
    for (size_t i = 0; i < result->serve.ended_count; i++) {
        const struct ended_wait *wait = &result->serve.ended[i];

        strbuf_printf(buf, "wait of %s merchant=%s provider=%s ended: %s after %" PRIu64 "\n", wait->call_sid,
                      wait->merchant_id, wait->provider, wait_end_name(wait->how), wait->waited_ms);
    }
    sort_lines(buf, from, arena);
}

/* OUTCOME_WAITING */
static void render_is_waiting(struct strbuf *buf, const struct command *command, const struct result *result)
{
    switch (command->type) {
    case COMMAND_ALLOCATE:
        strbuf_printf(buf, "joined=%d unreadable=%d\n", result->allocate.has_joined,
                      result->allocate.merchant_unreadable);
        render_waiting(buf, &result->allocate.waiting);
        break;
    case COMMAND_MOVE_CALL:
        strbuf_printf(buf, "moved=%d unreadable=%d\n", result->move.was_moved,
                      result->move.merchant_unreadable);
        render_waiting(buf, &result->move.waiting);
        break;
    case COMMAND_HOLD:
        render_waiting(buf, &result->hold.waiting);
        break;
    default:
        strbuf_printf(buf, "now %" PRIu64 "\n", result->call.now_ms);
        render_waiting(buf, &result->call.waiting);
    }
}

static void render_ok(struct strbuf *buf, const struct command *command, const struct result *result,
                      struct arena *arena)
{
    size_t from;

    switch (command->type) {
    case COMMAND_ALLOCATE:
        strbuf_printf(buf, "existing=%d taken=%d waited=%" PRIu64 " unreadable=%d\n",
                      result->allocate.was_existing, result->allocate.was_taken, result->allocate.waited_ms,
                      result->allocate.merchant_unreadable);
        render_call(buf, &result->allocate.call);
        break;
    case COMMAND_HOLD:
        render_call(buf, &result->hold.call);
        strbuf_printf(buf, "was connected=%d taken=%d waited=%" PRIu64 "\n", result->hold.was_connected,
                      result->hold.was_taken, result->hold.waited_ms);
        break;
    case COMMAND_RELEASE:
    case COMMAND_LEAVE:
    case COMMAND_UNDO:
        render_call(buf, &result->release.call);
        strbuf_printf(buf, "released to %s draining=%d kept=%d waiting=%d granted=%d waited=%" PRIu64 "\n",
                      result->release.released_to, result->release.was_draining, result->release.is_kept,
                      result->release.was_waiting, result->release.was_granted, result->release.waited_ms);
        break;
    case COMMAND_RENEW:
        render_names(buf, "renewed", &result->renew.renewed);
        render_names(buf, "adopted", &result->renew.adopted);
        render_names(buf, "unknown", &result->renew.unknown);
        render_names(buf, "over", &result->renew.finished);
        render_names(buf, "conflicts", &result->renew.conflicts);
        strbuf_printf(buf, "until %" PRIu64 "\n", result->renew.expires_at_ms);
        break;
    case COMMAND_PRESENT:
        strbuf_printf(buf, "others=%" PRIu64 "\n", result->present.others);
        break;
    case COMMAND_HEARTBEAT:
        render_names(buf, "renewed", &result->heartbeat.renewed);
        render_names(buf, "adopted", &result->heartbeat.adopted);
        render_names(buf, "over", &result->heartbeat.finished);
        render_names(buf, "conflicts", &result->heartbeat.conflicts);
        render_ended(buf, &result->heartbeat.ended, arena);
        break;
    case COMMAND_DRAIN:
        strbuf_printf(buf, "calls left=%" PRIu64 " until=%" PRIu64 "\n", result->drain.calls_left,
                      result->drain.until_ms);
        break;
    case COMMAND_MOVE_CALL:
        strbuf_printf(buf, "moved=%d unreadable=%d\n", result->move.was_moved,
                      result->move.merchant_unreadable);
        render_call(buf, &result->move.call);
        break;
    case COMMAND_POD_SEEN:
        strbuf_printf(buf, "tier=%s new=%d\n", result->pod_seen.tier, result->pod_seen.is_new);
        render_ended(buf, &result->pod_seen.ended, arena);
        break;
    case COMMAND_POD_GONE:
        strbuf_printf(buf, "stayed=%d\n", result->pod_gone.has_stayed);
        render_ended(buf, &result->pod_gone.ended, arena);
        break;
    case COMMAND_SYNC:
        strbuf_printf(buf, "added=%zu removed=%zu changed=%zu\n", result->sync.added, result->sync.removed,
                      result->sync.changed);
        render_names(buf, "absent", &result->sync.absent);
        render_ended(buf, &result->sync.ended, arena);
        break;
    case COMMAND_SWEEP:
        strbuf_printf(buf, "recovered=%zu\n", result->sweep.recovered);
        render_ended(buf, &result->sweep.ended, arena);
        from = buf->len;
        for (size_t i = 0; i < result->sweep.gone.count; i++)
            strbuf_printf(buf, "gone %s\n", result->sweep.gone.names[i]);
        sort_lines(buf, from, arena);
        break;
    case COMMAND_KEEP:
        render_kept(buf, result);
        break;
    case COMMAND_SERVE:
        render_served(buf, result, arena);
        break;
    case COMMAND_DEPART:
        strbuf_printf(buf, "count=%zu\n", result->depart.count);
        break;
    case COMMAND_WAITING:
        strbuf_printf(buf, "now %" PRIu64 " total=%" PRIu64 " next=%s\n", result->waiting.now_ms,
                      result->waiting.total, result->waiting.next_cursor);
        for (size_t i = 0; i < result->waiting.count; i++)
            render_waiting(buf, &result->waiting.calls[i]);
        break;
    case COMMAND_SCALE:
        render_names(buf, "drained", &result->scale.drained);
        render_names(buf, "undrained", &result->scale.undrained);
        strbuf_printf(buf, "more=%d\n", result->scale.more);
        break;
    case COMMAND_REBALANCE:
        strbuf_printf(buf, "moved=%zu more=%d\n", result->rebalance.moved, result->rebalance.more);
        break;
    case COMMAND_STATUS:
        render_status(buf, result);
        break;
    case COMMAND_PODS:
        strbuf_printf(buf, "total=%" PRIu64 " next=%s\n", result->pods.total, result->pods.next_cursor);
        for (size_t i = 0; i < result->pods.count; i++)
            render_pod(buf, &result->pods.pods[i], arena);
        break;
    case COMMAND_POD:
        render_pod(buf, &result->pod, arena);
        break;
    case COMMAND_CALLS:
        strbuf_printf(buf, "total=%" PRIu64 "\n", result->calls.total);
        from = buf->len;
        for (size_t i = 0; i < result->calls.count; i++) {
            render_call(buf, &result->calls.calls[i]);
            render_activity(buf, &result->calls.calls[i]);
        }
        sort_lines(buf, from, arena);
        break;
    case COMMAND_CALL:
        render_call(buf, &result->call.call);
        render_activity(buf, &result->call.call);
        break;
    case COMMAND_STORY:
        render_story(buf, result);
        break;
    case COMMAND_MERCHANTS:
        strbuf_printf(buf, "total=%" PRIu64 " next=%s\n", result->merchants.total,
                      result->merchants.next_cursor);
        for (size_t i = 0; i < result->merchants.ids.count; i++)
            strbuf_printf(buf, "merchant %s %s\n", result->merchants.ids.names[i],
                          result->merchants.texts.names[i]);
        break;
    case COMMAND_MERCHANT:
    case COMMAND_TIERS:
        strbuf_printf(buf, "%s\n", result->merchant.text);
        break;
    case COMMAND_TIERS_SET:
    case COMMAND_MERCHANT_SET:
    case COMMAND_MERCHANT_REMOVE:
        render_changed(buf, result);
        break;
    case COMMAND_HISTORY:
        render_history(buf, result);
        break;
    case COMMAND_UNDRAIN:
    case COMMAND_TYPES:
        break; /* the outcome says it all */
    }
}

void render_result(struct strbuf *buf, const struct command *command, const struct result *result,
                   struct arena *arena)
{
    static const char *const outcomes[OUTCOMES] = {"ok",       "not found", "no pods", "invalid",
                                                   "conflict", "forbidden", "waiting"};

    strbuf_printf(buf, "%s\n", outcomes[result->outcome]);
    if (result->outcome == OUTCOME_INVALID || result->outcome == OUTCOME_CONFLICT ||
        result->outcome == OUTCOME_FORBIDDEN) {
        strbuf_printf(buf, "%s\n", result->error);
    } else if (result->outcome == OUTCOME_NO_PODS) {
        bool is_move = command->type == COMMAND_MOVE_CALL;

        strbuf_printf(buf, "unreadable=%d\n",
                      is_move ? result->move.merchant_unreadable : result->allocate.merchant_unreadable);
        render_refusal(buf, is_move ? result->move.refusal : result->allocate.refusal);
        if (!is_move)
            strbuf_printf(buf, "full=%d timed out=%d after %" PRIu64 "\n", result->allocate.is_full,
                          result->allocate.has_ended, result->allocate.waited_ms);
    } else if (result->outcome == OUTCOME_WAITING) {
        render_is_waiting(buf, command, result);
    } else if (result->outcome == OUTCOME_NOT_FOUND) {
        if (command->type == COMMAND_ALLOCATE)
            strbuf_printf(buf, "has ended=%d: %s\n", result->allocate.has_ended,
                          finish_reason_name(result->allocate.why));
        if (command->type == COMMAND_CALL)
            render_refusal(buf, result->call.refusal);
        if (command->type == COMMAND_HOLD)
            strbuf_printf(buf, "has ended=%d\n", result->hold.has_ended);
    } else {
        render_ok(buf, command, result, arena);
    }
}

struct command sample_command(enum command_type type)
{
    static const char *const sids[] = {"CA1", "CA2"};
    static const struct pod_seen pods[] = {
        {.name = "a-9", .is_kept = true},
        {.name = "a-0", .address = "192.0.2.1:80", .incarnation = "1", .is_ready = true},
        {.name = "a-1", .address = "192.0.2.2:80", .incarnation = "2", .tier = "gold", .is_ready = true},
    };
    static const struct keep_call waiting[] = {
        {{.call_sid = "CA1", .merchant_id = "m1", .provider = "twilio", .since_ms = 1000, .until_ms = 2000}},
    };
    struct command command = {.type = type};

    switch (type) {
    case COMMAND_ALLOCATE:
        command.allocate.call_sid = "CA1";
        command.allocate.merchant_id = "m1";
        command.allocate.provider = "twilio";
        break;
    case COMMAND_RELEASE:
    case COMMAND_CALL:
    case COMMAND_STORY:
        command.call.call_sid = "CA1";
        break;
    case COMMAND_HOLD:
        command.hold.call_sid = "CA1";
        command.hold.carrier = "router-0";
        break;
    case COMMAND_KEEP:
        command.keep.calls = waiting;
        command.keep.count = ARRAY_LEN(waiting);
        command.keep.holder = "router-0";
        break;
    case COMMAND_DEPART:
        command.depart.call_sids = sids;
        command.depart.count = ARRAY_LEN(sids);
        command.depart.carrier = "router-0";
        break;
    case COMMAND_UNDO:
        command.undo.call_sid = "CA1";
        command.undo.attempt = 7;
        break;
    case COMMAND_LEAVE:
        command.leave.call_sid = "CA1";
        command.leave.carrier = "router-0";
        break;
    case COMMAND_RENEW:
        command.renew.call_sids = sids;
        command.renew.count = ARRAY_LEN(sids);
        command.renew.carrier = "router-0";
        command.renew.pods = sids;
        break;
    case COMMAND_PRESENT:
        command.present.carrier = "router-0";
        break;
    case COMMAND_HEARTBEAT:
        command.heartbeat.pod = "a-0";
        command.heartbeat.call_sids = sids;
        command.heartbeat.count = ARRAY_LEN(sids);
        break;
    case COMMAND_DRAIN:
    case COMMAND_UNDRAIN:
        command.drain.pod = "a-0";
        break;
    case COMMAND_MOVE_CALL:
        command.move.call_sid = "CA1";
        command.move.from_pod = "a-0";
        break;
    case COMMAND_POD_SEEN:
        command.pod_seen.pod = pods[1];
        command.pod_seen.is_registration = true;
        break;
    case COMMAND_POD_GONE:
        command.pod_gone.pod = "a-0";
        command.pod_gone.is_absent = true;
        break;
    case COMMAND_SYNC:
        command.sync.pods = pods;
        command.sync.count = ARRAY_LEN(pods);
        command.sync.spares_calls = true;
        break;
    case COMMAND_TIERS_SET:
        command.tiers_set.text = "{\"silver\":1}";
        break;
    case COMMAND_MERCHANT_SET:
        command.merchant_set.merchant_id = "m1";
        command.merchant_set.text = "{\"tier\":\"gold\"}";
        command.merchant_set.change.by = "ops";
        break;
    case COMMAND_MERCHANT_REMOVE:
        command.merchant_remove.merchant_id = "m1";
        break;
    case COMMAND_MERCHANT:
        command.merchant.merchant_id = "m1";
        break;
    case COMMAND_HISTORY:
        command.history.merchant_id = "m1";
        break;
    case COMMAND_PODS:
        command.pods.state = -1;
        break;
    case COMMAND_POD:
        command.pod.name = "a-0";
        break;
    case COMMAND_SWEEP:
    case COMMAND_SCALE:
    case COMMAND_REBALANCE:
    case COMMAND_SERVE:
    case COMMAND_WAITING:
    case COMMAND_STATUS:
    case COMMAND_CALLS:
    case COMMAND_MERCHANTS:
    case COMMAND_TIERS:
    case COMMAND_TYPES:
        break; /* without arguments */
    }
    return command;
}
