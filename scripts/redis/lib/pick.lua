-- One step along a chain: the pod that a call gets from the pool that chain[i] and chain[i + 1] tell of, and what is known
-- of it; both nothing if there is none. A pod of an exclusive tier has left its list; one of a shared tier stands there
-- until whoever takes it counts the call.
--
-- A pod without a record but with this tier was registered by the first implementation, and is as good as any other. One that
-- is found draining, leased or unregistered does not belong in the list. While one of our routers leads it is taken out, and
-- the sweep sees to it; else it goes back: another program may lead, and it is that program's to judge.
local tier, max = chain[i], tonumber(chain[i + 1])
local is_merchant = string.sub(tier, 1, 9) == 'merchant:'
local label = is_merchant and tier or 'pool:' .. tier
local available = is_merchant and P .. tier .. ':pods' or P .. 'pool:' .. tier .. ':available'
local pod, info, aside
if max == 0 then
  repeat
    pod = rc('SPOP', available)
    info = pod and rc('HGET', P .. 'pods', pod) or nil
    if pod and not info and rc('GET', P .. 'pod:tier:' .. pod) == tier then
      info = ''
    end
    local is_held = info and rc('EXISTS', P .. 'pod:draining:' .. pod, P .. 'lease:' .. pod) > 0
    if pod and (not info or is_held) then
      if rc('EXISTS', P .. 'leader:ours') == 0 then
        aside = aside or {}
        aside[#aside + 1] = pod
      elseif info and info ~= '' then
        rc('SADD', P .. 'pods:out', pod) -- somebody set the flag by hand
      end
      info = nil
    end
  until not pod or info
  for _, other in ipairs(aside or {}) do
    rc('SADD', available, other)
  end
else
  local passed = 0
  repeat
    local least = rc('ZRANGEBYSCORE', available, '-inf', '(' .. chain[i + 1], 'LIMIT', string.format('%d', passed), '1')
    pod = least[1]
    info = pod and rc('HGET', P .. 'pods', pod) or nil
    if pod and not info and rc('GET', P .. 'pod:tier:' .. pod) == tier then
      info = ''
    end
    if pod and (not info or rc('EXISTS', P .. 'pod:draining:' .. pod) == 1) then
      if rc('EXISTS', P .. 'leader:ours') == 0 then
        passed = passed + 1
      else
        rc('ZREM', available, pod)
        if info and info ~= '' then
          rc('SADD', P .. 'pods:out', pod)
        end
      end
      info = nil
    end
  until not pod or info
end
