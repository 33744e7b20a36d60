-- Renews the leases of calls. ARGV: 4 lease in ms, 5 record's life in ms, 6 the router that carries them or '', 7… three texts
-- for each: call_sid, the pod that it is connected to, or a pattern that its pod must fit, or '', its provider if known or ''.
--
-- Answers {expiry, r|a|u|o|c for each call: renewed, adopted, unknown, over, conflict; then the calls that were found to have
-- ended, five texts each}.
-- include base
-- include deadline
-- include fresh
-- include adopt
-- include keep
-- include fits
local lease_ms, record_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local carrier = ARGV[6]
local lost = {}
local answer = {string.format('%.0f', now + lease_ms)}

local function renew(call_sid, on_pod, provider)
  local record = call_record(call_sid)
  local pod = record[1]
  if pod then
    if on_pod ~= '' and not pod_fits(on_pod, pod) then
      return 'c'
    end
    local what = call_keep(call_sid, pod, pod_get(pod), record, lost, lease_ms, record_ms)
    if what == 'r' and provider ~= '' and (record[4] or '') == '' then
      rc('HSET', P .. 'call:' .. call_sid, 'provider', provider) -- it was adopted, and belonged to nobody
    end
    return what
  end
  local info = carrier ~= '' and on_pod ~= '' and pod_get(on_pod) -- a pattern brings nothing back
  if not info then
    return call_is_over(call_sid) and 'o' or 'u'
  end
  local what = call_adopt(call_sid, provider, on_pod, info, lease_ms, record_ms)
  if what == 'a' then
    pod_settle(on_pod, info)
  end
  return what
end

if carrier ~= '' then
  carrier_is_here(carrier)
end
for i = 7, #ARGV, 3 do
  local what = renew(ARGV[i], ARGV[i + 1], ARGV[i + 2])
  if carrier ~= '' and (what == 'r' or what == 'a') then
    call_carried(ARGV[i], carrier)
    rc('HSET', P .. 'call:' .. ARGV[i], 'connected', '1')
  end
  answer[#answer + 1] = what
end
for _, text in ipairs(lost) do
  answer[#answer + 1] = text
end
return answer
