-- Looks for pods that are not where they belong, a bounded number at a time: at those that are in doubt already, or, from a
-- cursor on, at all. Part of every sweep.
--
-- ARGV: 4 the fence, 5 see lib/late.lua, 6 'doubts' or 'pods', 7 cursor, 8 how many, 9 when the last look through all calls
-- began, 0 if there was none. Answers {next cursor, the time, pods looked at, put right, to be looked at again soon, to be
-- looked at again after all calls were looked through}.
--
-- Of all pods it looks at each with one to four commands; only those that seem wrong are looked at closely.
-- include base
-- include deadline
-- include fence
-- include fresh
-- include late
-- include mend
local READY = '{"ready":true,"terminating":false,"held_until":0,"tier":"'
local imported_at = tonumber(ARGV[9])
local is_all = ARGV[6] == 'pods'
local page = rc('HSCAN', P .. (is_all and 'pods' or 'pods:doubt'), ARGV[7], 'COUNT', ARGV[8])

local function seems_right(pod, text, stored, lease)
  local tier = string.sub(text, 1, #READY) == READY and string.match(text, '^[^"]+', #READY + 1)
  local max = tier and tier == stored and tier_max(tier)
  if not max then
    return false
  elseif max == 0 and lease then
    return are_known({lease})
  elseif max == 0 then
    return redis.pcall('SISMEMBER', available_key(tier), pod) == 1
  end
  local score = redis.pcall('ZSCORE', available_key(tier), pod)
  return type(score) == 'string' and tonumber(score) == rc('ZCARD', P .. 'pod:calls:' .. pod) and
    (score == '0' or are_known(some_calls(pod)))
end

local names, texts, tiers, leases = {}, {}, {}, {}
for i = 1, #page[2], 2 do
  local n = #names + 1
  names[n], texts[n] = page[2][i], page[2][i + 1]
  tiers[n], leases[n] = P .. 'pod:tier:' .. names[n], P .. 'lease:' .. names[n]
end
if is_all and names[1] then
  tiers, leases = rc('MGET', unpack(tiers)), rc('MGET', unpack(leases))
end
for i, pod in ipairs(names) do
  if not is_all or not seems_right(pod, texts[i], tiers[i], leases[i]) then
    local info = pod_record(pod)
    if not info then
      rc('HDEL', P .. 'pods:doubt', pod)
    elseif rc('SISMEMBER', P .. 'pods:out', pod) == 0 then -- those held out have been looked at by sweep_pods
      pod_mend(pod, info, imported_at)
    end
  end
end
return {page[1], string.format('%.0f', now), #names, mended, waiting, unexplained}
