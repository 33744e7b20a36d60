-- One step along a chain: the pod that a call gets from the pool that chain[i] and chain[i + 1] tell of, and what is known
-- of it; both nothing if there is none. A pod of an exclusive tier has left its list; one of a shared tier stands there
-- until whoever takes it puts down what it carries then.
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
    if info and rc('EXISTS', P .. 'pod:draining:' .. pod, P .. 'lease:' .. pod) > 0 then
      rc('SADD', P .. 'pods:out', pod) -- somebody set the flag by hand: the sweep will see to it
      info = false
    end
  until not pod or info
else
  repeat
    local least = rc('ZRANGEBYSCORE', available, '-inf', '(' .. chain[i + 1], 'LIMIT', '0', '1')
    pod = least[1]
    info = pod and rc('HGET', P .. 'pods', pod)
    if pod and (not info or rc('EXISTS', P .. 'pod:draining:' .. pod) == 1) then
      rc('ZREM', available, pod)
      if info then
        rc('SADD', P .. 'pods:out', pod)
      end
      info = false
    end
  until not pod or info
end
