-- A router does not carry a call any more: ends the call, unless another router carries it or somebody has renewed it.
--
-- ARGV: 4 call_sid, 5 the router or '', 6 when the lease ends if nobody has renewed it, '0' to release nothing, 7 '1' if
-- routers may have been out of reach until a moment ago: then none is taken for dead.
-- Answers {0} if there is no such call, {2} if it was renewed, {3} if another router carries it, or as release does.
-- include base
-- include deadline
-- include fresh
-- include finish
-- include ended
local call_sid, carrier = ARGV[4], ARGV[5]
local record = call_record(call_sid)
local pod = record[1]
if not pod then
  return {0}
end
if carrier ~= '' and call_left(call_sid, carrier, ARGV[7] == '1') then
  return {3}
end
if ARGV[6] == '0' or string.format('%.0f', call_expiry(call_sid, pod)) ~= ARGV[6] then
  return {2}
end
if rc('HGET', P .. 'call:' .. call_sid, 'renewed') then
  call_over(call_sid, 'closed', '')
end
return call_finish(call_sid, record)
