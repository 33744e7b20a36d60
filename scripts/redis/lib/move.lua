-- include base
-- include pods
-- include calls
-- include line
-- include wait_rules
-- A call leaves its pod and goes on: on another pod, or in the line. The rules are those of
-- src/core/move_call.c and src/core/rescue.c.

-- It leaves the pod, which is not settled. Returns the fields of its record that it keeps. Its
-- routers are not told.
local function call_leave_pod(call_sid, known, from, from_info)
  local key, kept = P .. 'call:' .. call_sid, {}
  local FIELDS =
    {'attempts', 'renewed', 'connected', 'carriers', 'movable', 'resumes', 'resumes_from', 'claim'}
  for i, value in ipairs(rc('HMGET', key, unpack(FIELDS))) do
    kept[FIELDS[i]] = value
  end
  past_add(call_sid, CONST.PAST_MOVED, known)
  rc('HDEL', key, 'carriers', 'granted')
  if known[7] then
    granted_forget(call_sid)
  end
  call_drop(call_sid, from, from_info and from_info.tier or nil)
  return kept
end

-- It gets the pod that pod_pick() has returned. `kept` is from call_leave_pod().
local function call_arrive(call_sid, known, kept, pod, max, label, lease_ms, record_ms,
  is_unsettled)
  local key = P .. 'call:' .. call_sid
  call_new(call_sid, pod, label, max, lease_ms, record_ms)
  rc('HSET', key, 'merchant_id', known[3] or '', 'provider', known[4] or '', 'allocated_at',
    known[5] or time[1], 'placed_at', time[1])
  if not known[4] then
    rc('HDEL', key, 'provider') -- see lib/provider.lua
  end
  local fields = is_unsettled and {'unsettled', string.format('%.0f', now)} or {}
  for field, value in pairs(kept) do
    fields[#fields + 1] = value and field or nil
    fields[#fields + 1] = value or nil
  end
  if fields[1] then
    rc('HSET', key, unpack(fields))
  end
  local info = pod_get(pod)
  if info then
    pod_place(pod, info)
  end
end

-- It joins the line in front, as one that has waited since it was allocated. `config` is its
-- merchant's, `pools` are the tiers of its chain. Returns the waiting call.
local function call_wait_again(call_sid, known, kept, holder, config, pools, max_wait, ageing_ms,
  is_unsettled)
  local _, priority = wait_rules(config, '0')
  local since = (tonumber(known[5]) or time[1]) * 1000
  for carrier in string.gmatch(kept.carriers or '', '[^,]+') do
    redis.pcall('SREM', P .. 'carried:' .. carrier, call_sid)
  end
  local w = {since = since, until_ms = now + max_wait, heard = now, priority = priority,
    place = since - priority * ageing_ms, merchant = known[3] or '', provider = known[4],
    awaits = false, holder = holder, attempt = '0',
    allocated_at = string.format('%.0f', since / 1000), renewed = kept.renewed and '1' or '',
    unsettled = is_unsettled and string.format('%.0f', now) or '',
    pools = pools, claim = claim_read(kept.claim), resumes = kept.resumes,
    resumes_from = kept.resumes_from}
  line_join(call_sid, w)
  return w
end
