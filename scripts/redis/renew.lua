-- Renews the leases of calls. ARGV: 4 lease in ms, 5 record's life in ms, 6 the router that carries them or '', 7… call_sids.
-- Answers {expiry, 1 or 0 for each call: renewed or unknown; then the calls that were found to have ended, five texts each}.
-- include base
-- include version
-- include pods
-- include calls
local lease_ms, record_ms = tonumber(ARGV[4]), tonumber(ARGV[5])
local carrier = ARGV[6]
local lost = {}
local answer = {string.format('%.0f', now + lease_ms)}
if carrier ~= '' then
  carrier_is_here(carrier)
end
for i = 7, #ARGV do
  local record = call_record(ARGV[i])
  local pod = record[1]
  local is_live = pod and call_expiry(ARGV[i], pod) > now
  if is_live then
    call_renew(ARGV[i], pod, lease_ms, record_ms)
    if carrier ~= '' then
      call_carried(ARGV[i], carrier)
    end
  elseif pod then
    if rc('EXISTS', FRESH) == 0 then
      return STALE -- what was renewed before is renewed again
    end
    call_ended(lost, ARGV[i], record, 'expired')
    call_drop(ARGV[i], pod)
    local info = pod_get(pod)
    if info then
      pod_settle(pod, info)
    end
  end
  answer[i - 5] = is_live and 1 or 0
end
for _, text in ipairs(lost) do
  answer[#answer + 1] = text
end
return answer
