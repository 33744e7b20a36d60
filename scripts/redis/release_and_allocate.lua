-- Ends calls, then gives pods to calls. All releases and allocations that a router has gathered go
-- together, because a script costs Redis much before it begins: as much as a third of an operation.
--
-- @arg release_count: the number of releases
-- @arg release_texts: the number of texts for each release: RELEASE_NAME or RELEASE_DETAILS
-- @arg lease_ms: the lease; like all that follows empty if there is no allocation
-- @arg lease_key_ms: the life of a lease's key
-- @arg record_key_ms: the life of a record
-- @arg merchants: what a merchant's configuration is resolved with: see lib/merchant_chain.lua
-- @arg chain_count: the number of texts of the default chain
-- @list chain: these texts, pairs of tier and MAX; then for each release its call_sid, and with
--   RELEASE_DETAILS also the pod on which the call must be, or a pattern, or ''; the value of its
--   tombstone; the provider whose webhook asks, or ''
-- @each call_sid: of an allocation
-- @each merchant: its merchant_id, or ''
-- @each provider: its provider, or ''
-- @each attempt: the number of the request: see lib/attempts.lua
-- @each options: what else it asks for: see lib/options.lua
--
-- Answers, for each release and then for each allocation, an error or:
--
-- For a release {RELEASE_NOT_FOUND}, {RELEASE_FORBIDDEN} if the call belongs to another provider,
-- {RELEASE_WAITED, merchant, provider, ms of waiting} if it had no pod, {RELEASE_KEPT, pod, pool,
-- merchant, provider, allocated_at, expiry, pod's record} if it goes on, or {RELEASE_DONE, pod,
-- the pool that it came from, merchant, provider, allocated_at, pod's record or '', tier now or ''
-- if it left or is draining, 1 if the pod was draining, the field `renewed` of the call's record
-- or '', the time in two lines; the ms of waiting if it was granted, and not taken}.
-- src/store/redis/past.c needs the two before that.
--
-- For an allocation {CALL_PLACED, pod, pool, allocated_at, expiry, pod's record, unreadable},
-- {CALL_EXISTING, pod, pool, merchant, provider, allocated_at, expiry, pod's record, 0}, the same
-- with CALL_TAKEN and the ms of waiting, {CALL_FORBIDDEN} if a webhook asks for a call of another
-- provider, {CALL_WAITING, 1 if it has joined the line else 0, unreadable, WAITING_TEXTS}, or
-- {CALL_NO_POD, unreadable, missing pool or '', server's time, number of steps; for each step:
-- tier, pods, draining, suspended}; the same with CALL_FULL. A call that waits and does not ask to
-- wait gets CALL_NOT_NOW instead, and behind these the number of free pods for each step;
-- CALL_TIMED_OUT, and then also the ms of waiting, if its time is over. A resumed call may get
-- {CALL_HAS_ENDED, the value of its tombstone} or {CALL_RESUMED_TOO_OFTEN}. If a former call of
-- that name was found to have ended, its ENDED_TEXTS follow, except after CALL_FORBIDDEN.
--
-- If there is more to do for calls that wait, LINE_MORE follows as the last answer.
--
-- Two commands are for the whole script. The functions of each part are made only if they are
-- needed.
-- include base
-- include deadline
-- include current_tiers
-- include batch
local CHAIN_END = ARG_AT.chain_count + ARG.chain_count
local RELEASE_SIZE = tonumber(ARG.release_texts)
local RELEASES_END = CHAIN_END + ARG.release_count * RELEASE_SIZE
local answers = {}

if RELEASES_END > CHAIN_END then
  local ENDED_AT = time[1] .. '\n' .. time[2]
  -- include release_call
  batch(answers, CHAIN_END + 1, RELEASES_END, RELEASE_SIZE, release)
end
if #ARGV > RELEASES_END then
  local EXPIRY = string.format('%.0f', now + ARG.lease_ms)
  local held_out_counts, line -- for lib/refusal.lua; functions of lib/allocate_line.lua
  -- include allocate_call
  batch(answers, RELEASES_END + 1, #ARGV, EACH.SIZE, allocate)
end
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answers)
end
return answers
