-- ARGV[7]: {"tiers":{NAME:MAX,…},"chain":[NAME,…],"reserved":{NAME:true,…}}. The rules are those of
-- merchant_config_parse() and chain_resolve() in src/core/merchant.c; both change together. Returns nil for a
-- configuration that is not readable.
local function chain_resolve(text)
  local ok, config = pcall(cjson.decode, text)
  if not ok or type(config) ~= 'table' or #text > 8192 or not string.find(text, '^%s*{') then
    return nil, 1, ''
  end
  local function is_id(name)
    return type(name) == 'string' and #name <= 128 and string.find(name, '^[%w._:@+=-]+$') ~= nil
  end
  local function is_pool(name)
    if type(name) ~= 'string' then
      return false
    elseif string.sub(name, 1, 9) == 'merchant:' then
      return is_id(string.sub(name, 10))
    end
    return #name <= 63 and string.find(name, '^[%w._-]+$') ~= nil
  end
  local function given(key)
    local value = config[key]
    return value ~= cjson.null and value or nil
  end
  local tier, pool, fallback = given('tier'), given('pool'), given('fallback')
  if config.tier == false or config.pool == false or config.fallback == false or
    (tier and tier ~= '' and not is_pool(tier)) or (pool and pool ~= '' and not is_id(pool)) or
    (fallback and (type(fallback) ~= 'table' or #fallback > 64 or (#fallback == 0 and next(fallback) ~= nil))) then
    return nil, 1, ''
  end
  local known = cjson.decode(ARGV[7])
  local chain, seen, missing = {}, {}, ''
  local function add(name)
    if known.tiers[name] and not seen[name] then
      seen[name] = true
      chain[#chain + 1] = name
      chain[#chain + 1] = known.tiers[name]
    end
  end
  if pool and pool ~= '' then
    if known.tiers['merchant:' .. pool] then
      add('merchant:' .. pool)
    else
      missing = pool
    end
  end
  local has_fallback = false
  for _, name in ipairs(fallback or {}) do
    if not is_pool(name) then
      return nil, 1, ''
    end
    has_fallback = has_fallback or known.tiers[name] ~= nil
    add(name)
  end
  if has_fallback then
    return chain, 0, missing
  end
  local from = 1
  if tier and known.tiers[tier] then
    add(tier)
    for i, name in ipairs(known.chain) do
      if name == tier then
        from = i + 1
      end
    end
  end
  for i = from, #known.chain do
    if not known.reserved[known.chain[i]] then
      add(known.chain[i])
    end
  end
  return chain, 0, missing
end
