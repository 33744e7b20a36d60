-- Takes over observations of pods, a bounded number at a time.
--
-- ARGV: 4 the fence, 5 how long a pod is held back in ms, 6 '1': these are registrations, 7… seven texts for each pod:
-- name, address, incarnation or '', tier or '', source, flags (any of r ready, t terminating, h hold back), and when this
-- incarnation started in ms, 0 if that is not known: a new one ends the calls that the pod got before that.
--
-- Answers, for each pod: what happened (n new, c changed, s the same, - not registered, l left, L changed and
-- left, x conflict, f too many pods), tier, number of calls ended, and those, five texts each. Stops after some dozen calls that
-- end, or some hundred that may: the pods that the answer leaves out are to be named again.
-- include base
-- include deadline
-- include fence
-- include fresh
-- include pods
-- include calls
local CALLS_MAX = 50
local LOOKED_MAX = 500
local PODS_MAX = 50000 -- as in src/core/command.h
local RESTART_SKEW = 2000 -- RESTART_SKEW_MS in src/core/command.h
local answer, looked = {}, 0

-- Did the call get its pod before the pod's process started? Whole seconds are all that is known of that. A call that was
-- never moved got it when it was allocated.
local function call_is_older(call_sid, started_at)
  if started_at == 0 then
    return true
  end
  local at = rc('HMGET', P .. 'call:' .. call_sid, 'placed_at', 'allocated_at')
  local seconds = tonumber(at[1] or at[2] or '0') or 0
  return math.floor(seconds) * 1000 + RESTART_SKEW <= started_at
end

local function end_calls(pod, tier, started_at, ended)
  for _, call_sid in ipairs(pod_calls(pod)) do
    looked = looked + 1
    if call_is_older(call_sid, started_at) then
      call_ended(ended, call_sid, call_record(call_sid), 'restarted')
      call_drop(call_sid, pod, tier)
    end
  end
end

-- Joins its tier: the stored one while that is configured, as after a loss of {prefix}pods alone.
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
  end -- else somebody has registered it before, and it is in the lists already; if not, a sweep sees to it (lib/mend.lua)
end

for i = 7, #ARGV, 7 do
  local name, address, incarnation, tier, source, flags, started_at =
    ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], tonumber(ARGV[i + 6])
  local is_ready, is_terminating = string.find(flags, 'r', 1, true) ~= nil, string.find(flags, 't', 1, true) ~= nil
  local is_registration = ARGV[6] == '1'
  local info = pod_record(name)
  local what, ended = 's', {}
  if incarnation == '' then
    if info and not is_registration and info.incarnation ~= '' then
      incarnation = info.incarnation
    else
      incarnation = string.format('%.0f', now)
      if info and info.incarnation == incarnation then
        incarnation = incarnation .. '+' -- twice in one millisecond is still twice
      end
    end
  end
  if info and is_registration and info.source ~= source then
    what = 'x'
  elseif not info then
    what = '-'
    if is_ready and not is_terminating and rc('HLEN', P .. 'pods') >= PODS_MAX then
      what = 'f'
    elseif is_ready and not is_terminating then
      info = {ready = true, terminating = false, held_until = 0, source = source, pinned = tier ~= '',
        incarnation = incarnation, address = address}
      if string.find(flags, 'h', 1, true) then
        info.held_until = now + tonumber(ARGV[5])
      end
      if source == 'api' then
        rc('ZADD', P .. 'heartbeats', now, name)
      end
      join(name, info, tier)
      what = 'n'
    end
  else
    -- '' is a pod of the first implementation, whose incarnation nobody knows: its calls are given to this one.
    local is_restarted = info.source == source and info.incarnation ~= incarnation and info.incarnation ~= ''
    local before, was_ready, was_terminating = pod_encode(info), info.ready, info.terminating
    if source == 'api' then
      rc('ZADD', P .. 'heartbeats', now, name)
    end
    info.address, info.incarnation, info.source = address, incarnation, source
    info.ready, info.terminating = is_ready, is_terminating
    if is_restarted then
      info.held_until = 0
      end_calls(name, info.tier, started_at, ended)
    end
    if #ended > 0 and pod_should_leave(name, info) then
      pod_leave(name, info) -- it was only waiting for its calls, and goes with the last of them
      what = 'l'
    else
      if tier ~= '' then
        info.pinned = true
        if info.tier ~= tier and pod_load(name) == 0 then
          pod_move(name, info, tier)
        end
      end
      if pod_encode(info) ~= before then
        what = 'c'
        pod_put(name, info)
      end
      -- A pod that is as it was stays where it is: another program may be about to take it.
      local is_as_before = info.ready == was_ready and info.terminating == was_terminating and #ended == 0 and
        tier_max(info.tier) and rc('SISMEMBER', P .. 'pods:out', name) == 0
      if not is_as_before and pod_settle(name, info) then
        what = what == 'c' and 'L' or 'l'
      end
    end
  end
  local n = #answer
  answer[n + 1] = what
  answer[n + 2] = info and what ~= 'l' and what ~= 'L' and info.tier or ''
  answer[n + 3] = #ended / 5
  for k = 1, #ended do
    answer[n + 3 + k] = ended[k]
  end
  if #answer > CALLS_MAX * 5 or looked > LOOKED_MAX then
    break
  end
end
return answer
