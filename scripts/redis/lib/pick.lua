-- One step along a chain: the pod that a call gets from the pool that chain[i] and chain[i + 1] tell of, and what is known
-- of it; both nothing if there is none. A pod of an exclusive tier has left its list; one of a shared tier stands there
-- until whoever takes it puts down what it carries then. If an end of the call is recorded, the call that begins anew
-- forgets it.
local tier, max = chain[i], tonumber(chain[i + 1])
local is_merchant = string.sub(tier, 1, 9) == 'merchant:'
local label = is_merchant and tier or 'pool:' .. tier
local available = is_merchant and P .. tier .. ':pods' or P .. 'pool:' .. tier .. ':available'
local pod, info
if max == 0 then
  repeat
    -- A pod that is found draining, leased or unregistered does not belong here and is not put back.
    pod = rc('SPOP', available)
    info = pod and rc('HGET', P .. 'pods', pod)
    if info then
      -- FRESH is named more often than there are others, so that the number tells which of them exist.
      local found =
        rc('EXISTS', P .. 'pod:draining:' .. pod, P .. 'lease:' .. pod, P .. 'ended:' .. call_sid, FRESH, FRESH, FRESH, FRESH)
      if found < 4 then
        rc('SADD', available, pod) -- it was in a set, so the tier is still of this type
        return STALE
      elseif found > 4 and rc('EXISTS', P .. 'pod:draining:' .. pod, P .. 'lease:' .. pod) > 0 then
        rc('SADD', P .. 'pods:out', pod) -- somebody set the flag by hand: the sweep will see to it
        info = false
      elseif found > 4 then
        rc('DEL', P .. 'ended:' .. call_sid)
      end
    end
  until not pod or info
else
  repeat
    local least = rc('ZRANGEBYSCORE', available, '-inf', '(' .. chain[i + 1], 'LIMIT', '0', '1')
    pod = least[1]
    info = pod and rc('HGET', P .. 'pods', pod)
    local found = info and rc('EXISTS', P .. 'pod:draining:' .. pod, P .. 'ended:' .. call_sid, FRESH, FRESH, FRESH)
    if found and found < 3 then
      return STALE
    end
    if pod and (not info or found > 3) then
      if info and rc('EXISTS', P .. 'pod:draining:' .. pod) == 0 then
        rc('DEL', P .. 'ended:' .. call_sid)
      else
        rc('ZREM', available, pod)
        if info then
          rc('SADD', P .. 'pods:out', pod)
        end
        info = false
      end
    end
  until not pod or info
end
