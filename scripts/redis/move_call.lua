-- Moves a call away from a pod that cannot be reached, or that has broken off. The pod is drained
-- unless it is spared, and the call gets the first free pod along its chain, or joins the line. The
-- rules are those of src/core/move_call.c.
--
-- @arg lease_ms: the lease
-- @arg record_ms: the least life of a record
-- @arg aside_ms: for how long the pod is drained; '': it is spared
-- @arg router: the router that asks, or ''; it is not told of the move
-- @arg carrier: the router that holds the call if it joins the line; '': it does not
-- @arg unsettles: YES: for a while a release that names no pod does not end the call
-- @arg max_wait_ms: HOLD_MAX_WAIT
-- @arg ageing_ms: HOLD_AGEING
-- @arg merchants: as for allocate
-- @arg chain_count: as for allocate
-- @list chain: as for allocate
-- @each call_sid: the call; there is only one
-- @each from: the pod
--
-- Answers {CALL_PLACED, or CALL_EXISTING if it is on another pod already; pod, pool, merchant,
-- provider, allocated_at, expiry, pod's record, unreadable}; {CALL_WAITING, 1 if it has joined the
-- line else 0, unreadable, WAITING_TEXTS}; {CALL_NOT_NOW, …} as allocate, and the call stays; or
-- {MOVE_NOT_FOUND; ENDED_TEXTS if a call was found to have ended}.
-- include base
-- include deadline
-- include current_tiers
local CHAIN_END = ARG_AT.chain_count + ARG.chain_count
local call_sid, from = ARGV[CHAIN_END + 1], ARGV[CHAIN_END + 2]
local held_out_counts -- for lib/refusal.lua
-- include existing_call
-- include pick
-- include move
-- include waiting_texts

local function move()
  local known = call_record(call_sid)
  local w = not known[1] and waiting_get(call_sid)
  if w then
    local answer = {CONST.CALL_WAITING, 0, 0}
    waiting_texts(answer, call_sid, w)
    return answer
  end
  if not known[1] then
    return {CONST.MOVE_NOT_FOUND}
  end
  local answer, lost = call_existing(call_sid, known)
  if not answer then
    table.insert(lost, 1, CONST.MOVE_NOT_FOUND)
    return lost
  end
  if tonumber(answer[7]) <= now then
    -- Its lease has expired, and somebody needs it: wherever it ends up, the next sweep must not
    -- end it.
    call_extend(call_sid, known[1], tonumber(ARG.lease_ms), tonumber(ARG.record_ms))
    if known[7] then
      call_take(call_sid)
    end
    answer[7] = string.format('%.0f', now + ARG.lease_ms)
  end
  if known[1] ~= from then
    return answer
  end

  if IS_SETTLING then
    return redis.error_reply(CONST.SETTLING_REPLY)
  end
  -- First, so that the call cannot come back to this pod. A longer drain, or one without an end,
  -- stays.
  local from_info = pod_get(from)
  if ARG.aside_ms ~= '' then
    local left, aside_ms = rc('PTTL', P .. 'pod:draining:' .. from), tonumber(ARG.aside_ms)
    if left ~= -1 and left + 1 < aside_ms then
      rc('SET', P .. 'pod:draining:' .. from, CONST.DRAINED, 'PX', math.max(1, aside_ms - 1))
    end
    if from_info then
      pod_place(from, from_info)
    end
  end

  local merchant, provider, since = known[3] or '', known[4] or '', known[5] or time[1]
  local chain, first, last, unreadable, missing, config = ARGV, ARG_AT.chain, CHAIN_END, 0, ''
  if merchant ~= '' then
    -- include chain_of_merchant
    chain, first, last, unreadable, missing, config = chain_of_merchant(merchant, CHAIN_END)
  end
  local tiers, pod, info, max, label = {}, nil
  local i = first
  while not pod and i <= last do
    tiers[#tiers + 1] = chain[i]
    pod, info, max, label = pod_pick(chain[i], chain[i + 1], from)
    i = i + 2
  end
  local max_wait = not pod and ARG.carrier ~= '' and wait_rules(config, ARG.max_wait_ms) or 0
  if not pod and max_wait == 0 then
    if ARG.aside_ms == '' and from_info then
      pod_place(from, from_info) -- as core does, which has closed it meanwhile
    end
    -- include refuse_now
    return refuse_now(call_sid, merchant, provider, chain, first, last, unreadable, missing)
  end

  local kept = call_leave_pod(call_sid, known, from, from_info)
  for carrier in string.gmatch(kept.carriers or '', '[^,]+') do
    if carrier ~= ARG.router then
      carriers_notify(CONST.NOTE_CHANGED .. call_sid, carrier)
    end
  end
  if not pod then
    w = call_wait_again(call_sid, known, kept, ARG.carrier, config, table.concat(tiers, ' '),
      max_wait, ARG.ageing_ms, ARG.unsettles == CONST.YES)
    answer = {CONST.CALL_WAITING, 1, unreadable}
    waiting_texts(answer, call_sid, w)
  else
    call_arrive(call_sid, known, kept, pod, max, label, tonumber(ARG.lease_ms),
      tonumber(ARG.record_ms), ARG.unsettles == CONST.YES)
    answer = {CONST.CALL_PLACED, pod, label, merchant, provider, since,
      string.format('%.0f', now + ARG.lease_ms), info, unreadable}
  end
  -- Last: its room is for calls that wait, and for this one if it waits.
  if from_info then
    pod_settle(from, from_info)
  end
  return answer
end

local answer = move()
if HAS_LINE and next(marked) then
  -- include line_serve
  line_serve(answer)
end
return answer
