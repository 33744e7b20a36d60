-- A connection of a call is about to be opened: says where the call is, renews it, and makes the router its carrier.
--
-- ARGV: 4 lease in ms, 5 record's life in ms, 6 the router or '', 7 call_sid. Answers {0, 1 if its end is recorded} if there
-- is no such call, and five texts behind it if there was one whose slot another call has; else {1, pod, pool, merchant,
-- provider, allocated_at, expiry, pod's record, 1 if it had a connection before}.
-- include base
-- include deadline
-- include fresh
-- include keep
-- include ended
local carrier, call_sid = ARGV[6], ARGV[7]
local lease_ms = tonumber(ARGV[4])
local record = call_record(call_sid)
local pod = record[1]
if not pod then
  return {0, call_is_over(call_sid) and 1 or 0}
end
local answer = {0, 0}
local was_connected = rc('HGET', P .. 'call:' .. call_sid, 'connected')
if call_keep(call_sid, pod, pod_get(pod), record, answer, lease_ms, tonumber(ARGV[5])) == 'c' then
  return answer
end
if carrier ~= '' then
  carrier_is_here(carrier)
  call_carried(call_sid, carrier)
end
return {1, pod, record[2] or '', record[3] or '', record[4] or '', record[5] or '0',
  string.format('%.0f', now + lease_ms), rc('HGET', P .. 'pods', pod) or '', was_connected and 1 or 0}
