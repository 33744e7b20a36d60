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
-- @each is_webhook: YES if a webhook of that provider asks
--
-- Answers, for each release and then for each allocation, an error or:
--
-- For a release {RELEASE_NOT_FOUND}, {RELEASE_FORBIDDEN} if the call belongs to another provider,
-- or {RELEASE_DONE, pod, the pool that it came from, merchant, provider, allocated_at, pod's record
-- or '', tier now or '' if it left or is draining, 1 if the pod was draining, the field `renewed`
-- of the call's record or '', the time in two lines}. src/store/redis/past.c needs the last two.
--
-- For an allocation {CALL_PLACED, pod, pool, allocated_at, expiry, pod's record, unreadable},
-- {CALL_EXISTING, pod, pool, merchant, provider, allocated_at, expiry, pod's record, 0},
-- {CALL_FORBIDDEN} if a webhook asks for a call of another provider, or {CALL_NO_POD, unreadable,
-- missing pool or '', server's time, number of steps; for each step: tier, pods, draining,
-- suspended}. If a former call of that name was found to have ended, its ENDED_TEXTS follow, except
-- after CALL_FORBIDDEN.
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
  local held_out_counts -- for lib/refusal.lua
  -- include allocate_call
  batch(answers, RELEASES_END + 1, #ARGV, EACH.SIZE, allocate)
end
return answers
