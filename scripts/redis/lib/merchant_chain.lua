-- The chain that a merchant's configuration gives; nil if the configuration cannot be read. Then: 1
-- if it cannot be read, else 0; the id of its pool if that pool does not exist, else ''; the
-- configuration, for lib/wait_rules.lua. The
-- argument `merchants` is {"tiers":{NAME:MAX,…},"chain":[NAME,…],"reserved":{NAME:true,…}}. The
-- rules are those of merchant_config_parse() and chain_resolve() in src/core/merchant.c; both
-- change together.
local function merchant_chain(text)
  local ok, config = pcall(cjson.decode, text)
  if not ok or type(config) ~= 'table' or #text > CONST.MERCHANT_CONFIG_TEXT_MAX or
    not string.find(text, '^%s*{') then
    return nil, 1, ''
  end
  local function is_id(name)
    return type(name) == 'string' and #name <= CONST.MERCHANT_ID_MAX and
      string.find(name, '^[%w._:@+=-]+$') ~= nil
  end
  local function is_name(name)
    if type(name) == 'string' and
      string.sub(name, 1, #CONST.MERCHANT_POOL_PREFIX) == CONST.MERCHANT_POOL_PREFIX then
      return is_id(string.sub(name, #CONST.MERCHANT_POOL_PREFIX + 1))
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
    (fallback and (type(fallback) ~= 'table' or #fallback > CONST.TIER_CHAIN_MAX or
      (#fallback == 0 and next(fallback) ~= nil))) then
    return nil, 1, ''
  end
  local known = cjson.decode(ARG.merchants)
  local tiers = known[CONST.CHAINS_TIERS]
  local chain, seen, missing = {}, {}, ''
  -- A tier of that name; else the merchant pool, which may be named by its id alone; else nil.
  local function resolve(name)
    if tiers[name] then
      return name
    end
    return tiers[CONST.MERCHANT_POOL_PREFIX .. name] and CONST.MERCHANT_POOL_PREFIX .. name
  end
  local function add(name)
    if not seen[name] then
      seen[name] = true
      chain[#chain + 1] = name
      chain[#chain + 1] = tiers[name]
    end
  end
  if pool and pool ~= '' then
    if tiers[CONST.MERCHANT_POOL_PREFIX .. pool] then
      add(CONST.MERCHANT_POOL_PREFIX .. pool)
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
  -- Also if none of them is configured: this is how installations say "no fallback". An empty list
  -- says nothing.
  if fallback and #fallback > 0 then
    return chain, 0, missing, config
  end
  local default = known[CONST.CHAINS_CHAIN]
  local from, own = 1, tier and resolve(tier)
  if own then
    add(own)
    for i, name in ipairs(default) do
      if name == own then
        from = i + 1
      end
    end
  end
  for i = from, #default do
    if not known[CONST.CHAINS_RESERVED][default[i]] then
      add(default[i])
    end
  end
  return chain, 0, missing, config
end
