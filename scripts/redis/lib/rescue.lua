-- include base
-- include pick
-- include chain_of_merchant
-- include move
-- include line_serve
-- @uses CHAIN_END
-- @leaves rescues_left, is_alive, chains
-- Calls whose pod breaks go on elsewhere, if a live router carries them and has said that it can
-- connect them to another pod. The rules are those of src/core/rescue.c.
local rescues_left = 25 -- of this script: each takes about fifty commands

local is_alive, chains = {}, {} -- by router; by merchant

-- The first of the routers of the field `carriers` that is alive, or nil.
local function live_carrier(carriers)
  for name in string.gmatch(carriers or '', '[^,]+') do
    if is_alive[name] == nil then
      is_alive[name] = rc('EXISTS', P .. 'carrier:' .. name) == 1
    end
    if is_alive[name] then
      return name
    end
  end
end

local function chain_known(merchant)
  local known = chains[merchant]
  if not known then
    local chain, first, last, _, _, config = chain_of_merchant(merchant, CHAIN_END)
    local max_wait, priority = wait_rules(config, ARG.max_wait_ms)
    known = {chain = chain, first = first, last = last, config = config, max_wait = max_wait,
      priority = priority}
    chains[merchant] = known
  end
  return known
end

-- Moves the call to another pod, or into the line. Returns whether it goes on.
local function call_rescue(call, from, from_info)
  local known, its, tiers = call.known, call.chain, {}
  -- Pods that this script has made free are for those who wait, as for an allocation.
  if HAS_LINE and next(marked) then
    line_serve()
  end
  for i = its.first, its.last, 2 do
    local pod, _, max, label = pod_pick(its.chain[i], its.chain[i + 1], from)
    if pod then
      local kept = call_leave_pod(call.call_sid, known, from, from_info)
      call_arrive(call.call_sid, known, kept, pod, max, label, tonumber(ARG.lease_ms),
        tonumber(ARG.record_ms), true)
      carriers_notify(CONST.NOTE_CHANGED .. call.call_sid, kept.carriers)
      return true
    end
    tiers[#tiers + 1] = its.chain[i]
  end
  if its.max_wait == 0 then
    return false
  end
  local kept = call_leave_pod(call.call_sid, known, from, from_info)
  call_wait_again(call.call_sid, known, kept, call.carrier, its.config, table.concat(tiers, ' '),
    its.max_wait, ARG.ageing_ms, true)
  carriers_notify(CONST.NOTE_CHANGED .. call.call_sid, kept.carriers)
  return true
end

-- Rescues those of the calls of a pod that can be, in the order of the places that they would have
-- in line, because there may be fewer pods than calls. Returns a table of those that went on, and
-- whether this script must not rescue more of them.
local function pod_rescue(pod, info, calls)
  local found, went_on = {}, {}
  for _, call_sid in ipairs(calls) do
    local more = rc('HMGET', P .. 'call:' .. call_sid, 'movable', 'carriers')
    local carrier = more[1] == CONST.YES and live_carrier(more[2])
    if carrier then
      local known = call_record(call_sid)
      local chain = chain_known(known[3] or '')
      found[#found + 1] = {call_sid = call_sid, known = known, carrier = carrier, chain = chain,
        place = (tonumber(known[5]) or time[1]) * 1000 - chain.priority * ARG.ageing_ms}
    end
  end
  if IS_SETTLING and #found > 0 then
    error({err = CONST.SETTLING_REPLY}) -- a moment later there may be a pod for them
  end
  table.sort(found, function(a, b)
    return a.place < b.place or (a.place == b.place and a.call_sid < b.call_sid)
  end)
  for _, call in ipairs(found) do
    if rescues_left == 0 then
      return went_on, true
    end
    rescues_left = rescues_left - 1
    went_on[call.call_sid] = call_rescue(call, pod, info) or nil
  end
  return went_on, false
end
