-- include base
-- The grants of each pool in the last ten minutes, for estimates: {prefix}line:grants has, for the
-- label of a pool, pairs of a minute and a number. A text that was made by hand counts as none.
local function grants_of(text)
  local minute, kept, count = math.floor(now / 60000), {}, 0
  for at, number in string.gmatch(type(text) == 'string' and text or '', '(%d+) (%d+)') do
    if tonumber(at) > minute - CONST.WAIT_ESTIMATE_MS / 60000 and tonumber(at) <= minute then
      kept[#kept + 1] = {tonumber(at), tonumber(number)}
      count = count + number
    end
  end
  return count, kept, minute
end

local function grants_recent(labels)
  local count = 0
  local texts = #labels > 0 and redis.pcall('HMGET', P .. 'line:grants', unpack(labels)) or {}
  for i = 1, #texts do
    count = count + grants_of(texts[i])
  end
  return count
end

local function grants_add(label, number)
  local key = P .. 'line:grants'
  local _, kept, minute = grants_of(redis.pcall('HGET', key, label))
  local newest = kept[#kept]
  if newest and newest[1] == minute then
    newest[2] = newest[2] + number
  else
    kept[#kept + 1] = {minute, number}
  end
  local texts = {}
  for i, bucket in ipairs(kept) do
    texts[i] = string.format('%.0f %.0f', bucket[1], bucket[2])
  end
  redis.pcall('HSET', key, label, table.concat(texts, ' '))
  redis.pcall('PEXPIRE', key, TEXT.WAIT_ESTIMATE_MS)
end
