-- One step along a chain: the pod that a call gets from the pool that chain[i] and chain[i + 1] tell of, and what is known
-- of it; both nothing if there is none. A pod of an exclusive tier has left its list; one of a shared tier stands there
-- until whoever takes it counts the call.
--
-- A pod without a record but with this tier was registered by the first implementation, and is as good as any other until our
-- leader has taken over all of them. One that is found draining, leased or unregistered does not belong in the list. While
-- one of our routers leads it is taken out, and the sweep sees to it; else it goes back: another program may lead, and it is
-- that program's to judge. A hundred of them are enough for one call.
local tier, max = chain[i], tonumber(chain[i + 1])
local is_merchant = string.sub(tier, 1, 9) == 'merchant:'
local label = is_merchant and tier or 'pool:' .. tier
local available = is_merchant and P .. tier .. ':pods' or P .. 'pool:' .. tier .. ':available'
local pod, info, aside
local strangers, passed = 0, 0
while not info and strangers < 100 do
  if max == 0 then
    pod = rc('SPOP', available)
  else
    pod = rc('ZRANGEBYSCORE', available, '-inf', '(' .. chain[i + 1], 'LIMIT', string.format('%d', passed), '1')[1]
  end
  if not pod then
    break
  end
  info = rc('HGET', P .. 'pods', pod) or nil
  if not info and rc('GET', P .. 'pod:tier:' .. pod) == tier then
    -- include other
    info = not all_pods_are_ours() and '' or nil
  end
  local draining = P .. 'pod:draining:' .. pod
  if not info or (max == 0 and rc('EXISTS', draining, P .. 'lease:' .. pod) or rc('EXISTS', draining)) > 0 then
    strangers = strangers + 1
    if rc('EXISTS', P .. 'leader:ours') == 0 then
      passed = passed + 1
      aside = aside or {}
      aside[#aside + 1] = max == 0 and pod or nil
    else
      if max > 0 then
        rc('ZREM', available, pod)
      end
      if info and info ~= '' then
        rc('SADD', P .. 'pods:out', pod) -- somebody set the flag by hand
      end
    end
    info = nil
  end
end
pod = info and pod
for _, other in ipairs(aside or {}) do
  rc('SADD', available, other)
end
