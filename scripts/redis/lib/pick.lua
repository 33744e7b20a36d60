-- include base
-- include line_marks
-- One step along a chain: a pod of this tier for a call. `max_text` is the tier's MAX, a text.
-- Returns nil if the pool has no pod for the call; else the pod, its record ('' if there is none),
-- MAX, the pool's label, and the key of the available list. A pod of an exclusive tier has left its
-- list. A pod of a shared tier stays in its list; the script that takes it counts the call.
--
-- A pod without a record but with this tier was registered by the first implementation. It is as
-- good as any other pod until our leader has taken over all of them. A pod that is draining,
-- leased or not registered does not belong into the list. While one of our routers leads, such a
-- pod is removed, and a sweep looks at it. Else it goes back into the list: another program may
-- lead, and decides about it. One call looks at a hundred such pods at most. The pod `except` is
-- not picked; nil: any may be. While the server settles there is none.
local function pod_pick(tier, max_text, except)
  if IS_SETTLING then
    return nil
  end
  local max = tonumber(max_text)
  local is_merchant =
    string.sub(tier, 1, #CONST.MERCHANT_POOL_PREFIX) == CONST.MERCHANT_POOL_PREFIX
  local label = is_merchant and tier or CONST.POOL_LABEL_PREFIX .. tier
  local available =
    is_merchant and P .. tier .. ':pods' or P .. CONST.POOL_LABEL_PREFIX .. tier .. ':available'
  local pod, info, aside
  local strangers, passed = 0, 0
  while not info and strangers < 100 do
    if max == 0 then
      pod = rc('SPOP', available)
    else
      pod = rc('ZRANGEBYSCORE', available, '-inf', '(' .. max_text, 'LIMIT',
        string.format('%d', passed), '1')[1]
    end
    if not pod then
      break
    end
    info = pod ~= except and rc('HGET', KEY.PODS, pod) or nil
    if not info and pod ~= except and rc('GET', P .. 'pod:tier:' .. pod) == tier then
      -- include other_leader
      info = not all_pods_are_ours() and '' or nil
    end
    local draining = P .. 'pod:draining:' .. pod
    if not info or
      (max == 0 and rc('EXISTS', draining, P .. 'lease:' .. pod) or rc('EXISTS', draining)) > 0 then
      strangers = strangers + 1
      if pod == except or rc('EXISTS', P .. 'leader:ours') == 0 then
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
  for _, other in ipairs(aside or {}) do
    rc('SADD', available, other)
  end
  if info then
    return pod, info, max, label, available
  end
end
