-- Takes over observations of pods, a bounded number at a time.
--
-- @arg fence: see lib/fence.lua
-- @arg hold_ms: for how long a pod is held back
-- @arg is_registration: YES: the pods register themselves
-- @arg rescues: YES: calls that can go on elsewhere do; else what follows is empty
-- @arg lease_ms: the lease of a call that moves
-- @arg record_ms: the least life of a record
-- @arg max_wait_ms: HOLD_MAX_WAIT
-- @arg ageing_ms: HOLD_AGEING
-- @arg merchants: as for allocate
-- @arg chain_count: as for allocate
-- @list chain: as for allocate
-- @each name: of the pod
-- @each address: its address
-- @each incarnation: or ''
-- @each tier: or ''
-- @each source: its source
-- @each flags: any of SEEN_IS_READY, SEEN_IS_TERMINATING and SEEN_HOLD_BACK, one behind the other
-- @each started_at: when this incarnation started, in ms; 0: not known. A new incarnation ends the
--   calls that the pod got before that
--
-- Answers, for each pod: one of SEEN_NEW to SEEN_TOO_MANY, or SEEN_MORE if more of its calls
-- cannot stay; its tier, the number of calls that ended, and their ENDED_TEXTS. Stops after some
-- dozen calls that ended, or some hundred that it looked at. The pods that the answer leaves out,
-- and one with SEEN_MORE, must be named again.
-- include base
-- include deadline
-- include fence
-- include current_tiers
local CHAIN_END = ARG_AT.chain_count + ARG.chain_count
-- include pods
-- include calls
-- include break_calls
local LOOKED_MAX = 500
local answer, looked = {}, 0

-- Did the call get its pod before the pod's process started? Only whole seconds are known. A call
-- that was never moved got its pod when it was allocated.
local function call_is_older(call_sid, started_at)
  if started_at == 0 then
    return true
  end
  local at = rc('HMGET', P .. 'call:' .. call_sid, 'placed_at', 'allocated_at')
  local seconds = tonumber(at[1] or at[2] or '0') or 0
  return math.floor(seconds) * 1000 + CONST.RESTART_SKEW_MS <= started_at
end

-- Returns the number of calls that have left the pod, and whether there are more.
local function end_calls(pod, info, started_at, ended)
  local older = {}
  for _, call_sid in ipairs(pod_calls(pod)) do
    looked = looked + 1
    if call_is_older(call_sid, started_at) then
      older[#older + 1] = call_sid
    end
  end
  local went_on, is_more = calls_break(pod, info, older, ended, CONST.END_RESTARTED)
  return went_on + #ended, is_more
end

-- The pod joins its tier: the stored one if that is configured, as after a loss of {prefix}pods
-- alone.
local function join(name, info, wanted)
  local stored = rc('GET', P .. 'pod:tier:' .. name)
  local tier = wanted ~= '' and wanted or (stored and tier_max(stored) and stored) or nil
  local is_known = stored == tier and tier and rc('SISMEMBER', assigned_key(tier), name) == 1
  if stored and stored ~= tier then
    rc('SREM', assigned_key(stored), name)
    pod_unlist(name, stored)
  end
  info.tier = tier or tier_for_new_pod()
  rc('ZADD', P .. 'pods:names', 0, name)
  pod_assign(name, info, info.tier)
  if not is_known then
    pod_place(name, info)
  end -- else it was registered before, and is in its lists; if not, a sweep lists it (lib/mend.lua)
end

-- A pod that has restarted gets no call until its own calls have left it.
for i = CHAIN_END + 1, (rescue or HAS_LINE) and #ARGV or 0, EACH.SIZE do
  local info = pod_record(ARGV[i])
  if info and info.source == ARGV[i + 4] and ARGV[i + 2] ~= '' and info.incarnation ~= '' and
    info.incarnation ~= ARGV[i + 2] then
    pod_close(ARGV[i], info)
    rc('SADD', P .. 'pods:out', ARGV[i])
  end
end

for i = CHAIN_END + 1, #ARGV, EACH.SIZE do
  local name, address, incarnation, tier, source, flags, started_at =
    ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], tonumber(ARGV[i + 6])
  local is_ready = string.find(flags, CONST.SEEN_IS_READY, 1, true) ~= nil
  local is_terminating = string.find(flags, CONST.SEEN_IS_TERMINATING, 1, true) ~= nil
  local is_registration = ARG.is_registration == CONST.YES
  local info = pod_record(name)
  local what, ended, left, is_more = CONST.SEEN_SAME, {}, 0, false
  if incarnation == '' then
    if info and not is_registration and info.incarnation ~= '' then
      incarnation = info.incarnation
    else
      incarnation = string.format('%.0f', now)
      if info and info.incarnation == incarnation then
        incarnation = incarnation .. '+' -- two registrations in one millisecond are two
      end
    end
  end
  if info and is_registration and info.source ~= source then
    what = CONST.SEEN_CONFLICT
  elseif not info then
    what = CONST.SEEN_NOT_READY
    if is_ready and not is_terminating and rc('HLEN', KEY.PODS) >= CONST.PODS_MAX then
      what = CONST.SEEN_TOO_MANY
    elseif is_ready and not is_terminating then
      info = {ready = true, terminating = false, held_until = 0, source = source,
        pinned = tier ~= '', incarnation = incarnation, address = address}
      if string.find(flags, CONST.SEEN_HOLD_BACK, 1, true) then
        info.held_until = now + tonumber(ARG.hold_ms)
      end
      if source == CONST.SOURCE_API then
        rc('ZADD', KEY.HEARTBEATS, now, name)
      end
      join(name, info, tier)
      what = CONST.SEEN_NEW
    end
  else
    -- '' is a pod of the first implementation, whose incarnation nobody knows: it keeps its calls.
    local is_restarted =
      info.source == source and info.incarnation ~= incarnation and info.incarnation ~= ''
    local before, was_ready, was_terminating = pod_encode(info), info.ready, info.terminating
    if source == CONST.SOURCE_API then
      rc('ZADD', KEY.HEARTBEATS, now, name)
    end
    info.address, info.incarnation, info.source = address, incarnation, source
    info.ready, info.terminating = is_ready, is_terminating
    if is_restarted then
      info.held_until = 0
      left, is_more = end_calls(name, info, started_at, ended)
      closed[name] = nil
    end
    if is_more then
      what = CONST.SEEN_MORE -- its record stays as it is, so that the restart is seen again
    elseif left > 0 and pod_should_leave(name, info) then
      pod_leave(name, info) -- it only waited for its calls, and leaves with the last of them
      what = CONST.SEEN_LEFT
    else
      if tier ~= '' then
        info.pinned = true
        if info.tier ~= tier and pod_load(name) == 0 then
          pod_move(name, info, tier)
        end
      end
      if pod_encode(info) ~= before then
        what = CONST.SEEN_CHANGED
        pod_put(name, info)
      end
      -- An unchanged pod stays where it is: another program may be about to take it.
      local is_as_before = info.ready == was_ready and info.terminating == was_terminating and
        left == 0 and tier_max(info.tier) and rc('SISMEMBER', P .. 'pods:out', name) == 0
      if not is_as_before and pod_settle(name, info) then
        what = what == CONST.SEEN_CHANGED and CONST.SEEN_CHANGED_AND_LEFT or CONST.SEEN_LEFT
      end
    end
  end
  local n = #answer
  answer[n + 1] = what
  answer[n + 2] = info and what ~= CONST.SEEN_LEFT and what ~= CONST.SEEN_CHANGED_AND_LEFT and
    info.tier or ''
  answer[n + 3] = #ended / CONST.ENDED_TEXTS
  for k = 1, #ended do
    answer[n + 3 + k] = ended[k]
  end
  if #answer > CALLS_MAX * CONST.ENDED_TEXTS or looked > LOOKED_MAX or is_more then
    break
  end
end
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
