-- The operations of first_router.py, each in one step: the same commands in the same order, and nobody in between.
--
-- ARGV: 1 operation, 2 settings and tiers (JSON), then what the operation is about. Answers JSON.
local S = cjson.decode(ARGV[2])
local rc = redis.call

local function is_shared(tier)
  return S.tiers[tier] ~= nil and S.tiers[tier].shared
end

local function pool_key(tier, of_tier, of_merchant)
  local merchant = string.match(tier, '^merchant:(.*)$')
  if merchant then
    return 'voice:merchant:' .. merchant .. ':' .. of_merchant
  end
  return 'voice:pool:' .. tier .. ':' .. of_tier
end

local function available_key(tier)
  return pool_key(tier, 'available', 'pods')
end

local function assigned_key(tier)
  return pool_key(tier, 'assigned', 'assigned')
end

local function source_pool(tier)
  return string.find(tier, '^merchant:') and tier or 'pool:' .. tier
end

local function is_draining(pod)
  return rc('EXISTS', 'voice:pod:draining:' .. pod) == 1
end

local function chain_of(merchant_id)
  local config = {}
  if merchant_id ~= '' then
    local is_json, value = pcall(cjson.decode, rc('HGET', 'voice:merchant:config', merchant_id) or '{}')
    config = is_json and type(value) == 'table' and value or {}
  end
  local chain = {}
  if config.pool and config.pool ~= '' then
    chain[1] = 'merchant:' .. config.pool
  end
  local rest = config.fallback and #config.fallback > 0 and config.fallback or S.chain
  for _, tier in ipairs(rest) do
    chain[#chain + 1] = tier
  end
  return chain
end

local function take_shared(tier)
  local pods = rc('ZRANGE', available_key(tier), 0, -1, 'WITHSCORES')
  for i = 1, #pods, 2 do
    if tonumber(pods[i + 1]) >= S.tiers[tier].most then
      return nil
    end
    if not is_draining(pods[i]) then
      rc('ZINCRBY', available_key(tier), 1, pods[i])
      return pods[i]
    end
  end
end

local function take(tier)
  if not string.find(tier, '^merchant:') and not S.tiers[tier] then
    return nil
  end
  if is_shared(tier) then
    return take_shared(tier)
  end
  for _ = 1, 10 do
    local pod = rc('SPOP', available_key(tier))
    if not pod then
      return nil
    end
    if not is_draining(pod) then
      return pod
    end
  end
end

local function make_available(pod, tier)
  if rc('EXISTS', 'voice:lease:' .. pod) == 1 or is_draining(pod) then
    return
  end
  if is_shared(tier) then
    rc('ZADD', available_key(tier), 'NX', 0, pod)
  else
    rc('SADD', available_key(tier), pod)
  end
end

local function auto_assign_tier(pod)
  local stored = rc('GET', 'voice:pod:tier:' .. pod)
  if stored then
    return stored
  end
  local order = {}
  local function try(tier, name)
    if S.tiers[name] and S.tiers[name].target > 0 then
      order[#order + 1] = {tier, S.tiers[name].target}
    end
  end
  for _, name in ipairs(S.merchant_pools) do
    try('merchant:' .. name, name)
  end
  try('gold', 'gold')
  for _, name in ipairs(S.names) do
    if is_shared(name) then
      try(name, name)
    end
  end
  try('standard', 'standard')
  try('overflow', 'overflow')
  for _, one in ipairs(order) do
    if rc('SCARD', assigned_key(one[1])) < one[2] then
      return one[1]
    end
  end
  return 'standard'
end

local operations = {}

function operations.allocate(call_sid, merchant_id)
  local call = 'voice:call:' .. call_sid
  local existing = rc('HGETALL', call)
  local record = {}
  for i = 1, #existing, 2 do
    record[existing[i]] = existing[i + 1]
  end
  if #existing == 0 then
    rc('HSET', call, '_lock', '1')
    rc('EXPIRE', call, 30)
  elseif record.pod_name then
    return {pod_name = record.pod_name, source_pool = record.source_pool or '', was_existing = true}
  end
  for _, tier in ipairs(chain_of(merchant_id)) do
    local pod = take(tier)
    if pod then
      local source = source_pool(tier)
      rc('HSET', call, 'pod_name', pod, 'source_pool', source, S.merchant_field, merchant_id, 'allocated_at', S.now)
      rc('HDEL', call, '_lock')
      rc('EXPIRE', call, S.record_s)
      rc('HSET', 'voice:pod:' .. pod, 'status', 'allocated', 'allocated_call_sid', call_sid, 'allocated_at', S.now,
        'source_pool', source)
      rc('SET', 'voice:lease:' .. pod, call_sid, 'EX', S.lease_s)
      if S.keeps_sets and is_shared(tier) then
        rc('SADD', 'voice:pod:' .. pod .. ':calls', call_sid)
      end
      return {pod_name = pod, source_pool = source, was_existing = false}
    end
  end
  return {error = 'no pods available'}
end

function operations.release(call_sid)
  local call = 'voice:call:' .. call_sid
  local pairs_of = rc('HGETALL', call)
  if #pairs_of == 0 then
    return {error = 'call not found'}
  end
  local record = {}
  for i = 1, #pairs_of, 2 do
    record[pairs_of[i]] = pairs_of[i + 1]
  end
  local pod, source = record.pod_name, record.source_pool
  if not pod or not source then
    return {error = 'incomplete call info'}
  end
  local was_draining = is_draining(pod)
  local tier = string.match(source, '^pool:(.*)$') or source
  local left = 0
  if not was_draining then
    if is_shared(tier) then
      local score = rc('ZSCORE', available_key(tier), pod)
      left = score and tonumber(score) or -1
      if left > 0 then
        left = tonumber(rc('ZINCRBY', available_key(tier), -1, pod))
      end
    elseif not is_draining(pod) then
      rc('SADD', available_key(tier), pod)
    end
  end
  if left <= 0 then
    rc('DEL', 'voice:lease:' .. pod)
  end
  rc('HSET', 'voice:pod:' .. pod, 'status', was_draining and 'draining' or 'available', 'allocated_call_sid', '',
    'allocated_at', '', 'released_at', S.now)
  rc('DEL', call)
  if S.keeps_sets and is_shared(tier) then
    rc('SREM', 'voice:pod:' .. pod .. ':calls', call_sid)
  end
  return {pod_name = pod, released_to_pool = source, was_draining = was_draining}
end

function operations.drain(pod, ttl_s)
  local has_call = rc('EXISTS', 'voice:lease:' .. pod) == 1
  local tier = rc('GET', 'voice:pod:tier:' .. pod)
  if tier then
    rc(is_shared(tier) and 'ZREM' or 'SREM', available_key(tier), pod)
  end
  rc('SET', 'voice:pod:draining:' .. pod, 'true', 'EX', ttl_s)
  return {has_active_call = has_call}
end

function operations.add(pod)
  local tier = rc('GET', 'voice:pod:tier:' .. pod)
  if tier then
    rc('SADD', assigned_key(tier), pod)
  else
    tier = auto_assign_tier(pod)
    rc('HSET', 'voice:pod:metadata', pod, '{"tier":"' .. tier .. '","name":"' .. pod .. '"}')
    rc('SADD', assigned_key(tier), pod)
    rc('SET', 'voice:pod:tier:' .. pod, tier)
  end
  make_available(pod, tier)
  return {tier = tier}
end

function operations.remove(pod)
  for _, name in ipairs(S.names) do
    rc('SREM', assigned_key(name), pod)
    if is_shared(name) then
      rc('ZREM', available_key(name), pod)
    else
      rc('SREM', available_key(name), pod)
      rc('SREM', assigned_key('merchant:' .. name), pod)
      rc('SREM', available_key('merchant:' .. name), pod)
    end
  end
  for _, name in ipairs({'gold', 'standard', 'overflow'}) do
    if not S.tiers[name] then
      rc('SREM', assigned_key(name), pod)
      rc('SREM', available_key(name), pod)
    end
  end
  local call_sid = rc('HGET', 'voice:pod:' .. pod, 'allocated_call_sid')
  if call_sid and call_sid ~= '' then
    rc('DEL', 'voice:call:' .. call_sid)
  end
  if S.keeps_sets then
    local calls = rc('SMEMBERS', 'voice:pod:' .. pod .. ':calls')
    table.sort(calls)
    for _, sid in ipairs(calls) do
      rc('DEL', 'voice:call:' .. sid)
    end
    rc('DEL', 'voice:pod:' .. pod .. ':calls')
  end
  rc('HDEL', 'voice:pod:metadata', pod)
  rc('DEL', 'voice:pod:' .. pod)
  rc('DEL', 'voice:pod:tier:' .. pod)
  rc('DEL', 'voice:lease:' .. pod)
  rc('DEL', 'voice:pod:draining:' .. pod)
  return {removed = true}
end

function operations.zombie(tier, pod)
  if is_draining(pod) then
    return {recovered = false}
  end
  if is_shared(tier) then
    if rc('ZSCORE', available_key(tier), pod) then
      return {recovered = false}
    end
    rc('ZADD', available_key(tier), 0, pod)
    return {recovered = true}
  end
  if rc('EXISTS', 'voice:lease:' .. pod) == 1 or rc('SISMEMBER', available_key(tier), pod) == 1 then
    return {recovered = false}
  end
  if rc('EXISTS', 'voice:lease:' .. pod) == 1 or is_draining(pod) then
    return {recovered = false}
  end
  rc('SADD', available_key(tier), pod)
  return {recovered = true}
end

return cjson.encode(operations[ARGV[1]](ARGV[3], ARGV[4]))
