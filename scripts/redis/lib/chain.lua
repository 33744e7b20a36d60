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
  local function is_name(name)
    if type(name) == 'string' and string.sub(name, 1, 9) == 'merchant:' then
      return is_id(string.sub(name, 10))
    end
    return is_id(name)
  end
  local function given(key)
    local value = config[key]
    return value ~= cjson.null and value or nil
  end
  local tier, pool, fallback = given('tier'), given('pool'), given('fallback')
  if config.tier == false or config.pool == false or config.fallback == false or
    (tier and tier ~= '' and not is_name(tier)) or (pool and pool ~= '' and not is_id(pool)) or
    (fallback and (type(fallback) ~= 'table' or #fallback > 64 or (#fallback == 0 and next(fallback) ~= nil))) then
    return nil, 1, ''
  end
  local known = cjson.decode(ARGV[7])
  local chain, seen, missing = {}, {}, ''
  -- A tier of that name; else the merchant pool, which may be called by its id alone; nil if there is neither.
  local function resolve(name)
    if known.tiers[name] then
      return name
    end
    return known.tiers['merchant:' .. name] and 'merchant:' .. name
  end
  local function add(name)
    if not seen[name] then
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
  for _, name in ipairs(fallback or {}) do
    if not is_name(name) then
      return nil, 1, ''
    end
    if resolve(name) then
      add(resolve(name))
    end
  end
  -- Also if none of them is configured: that is how installations say "no fallback". An empty list says nothing.
  if fallback and #fallback > 0 then
    return chain, 0, missing
  end
  local from, own = 1, tier and resolve(tier)
  if own then
    add(own)
    for i, name in ipairs(known.chain) do
      if name == own then
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
