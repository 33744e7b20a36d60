-- A page of calls in the order in which their leases end, or one call.
--
-- ARGV: 4 the lease's end from which it begins, 5 how many with just that end to pass over, 6 how many; or 4 ''
-- and 5 a call_sid. Answers {calls in all, server's time, then for each: call_sid, pod, pool, merchant, provider,
-- allocated_at, expiry, pod's record}.
-- include base
local answer = {rc('ZCARD', P .. 'calls:active'), string.format('%.0f', now)}
local page
if ARGV[4] == '' then
  page = {ARGV[5], rc('ZSCORE', P .. 'calls:active', ARGV[5]) or '0'}
else
  page = rc('ZRANGEBYSCORE', P .. 'calls:active', ARGV[4], '+inf', 'WITHSCORES', 'LIMIT', ARGV[5], ARGV[6])
end
for i = 1, #page, 2 do
  -- As call_record() in lib/calls.lua.
  local record = rc('HMGET', P .. 'call:' .. page[i], 'pod_name', 'source_pool', 'merchant_id', 'provider', 'allocated_at',
    'reseller_id')
  local n = #answer
  local expiry = page[i + 1]
  if record[1] and expiry == '0' then
    -- include calls
    expiry = string.format('%.0f', call_expiry(page[i], record[1]))
  end
  if not string.find(expiry, '^%d+$') then
    expiry = string.format('%.0f', math.max(0, math.min(tonumber(expiry) or 0, 1e15))) -- made by hand
  end
  answer[n + 1] = page[i]
  answer[n + 2] = record[1] or ''
  answer[n + 3] = record[2] or ''
  answer[n + 4] = record[3] or record[6] or ''
  answer[n + 5] = record[4] or ''
  answer[n + 6] = record[5] or '0'
  answer[n + 7] = expiry
  answer[n + 8] = record[1] and rc('HGET', P .. 'pods', record[1]) or ''
end
return answer
