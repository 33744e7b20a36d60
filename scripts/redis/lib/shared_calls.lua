-- include base
-- The pods of a shared tier that have room, the calls on these, and the calls on all listed pods.
-- One step for each load that occurs. There are few, because the least loaded pod is taken first.
local function count_shared(key, max)
  local available, used, calls, load = rc('ZCOUNT', key, '-inf', '(' .. max), 0, 0, '(0'
  for _ = 1, 100 do
    local least = rc('ZRANGEBYSCORE', key, load, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not least[2] then
      break
    end
    local more = tonumber(least[2]) * rc('ZCOUNT', key, least[2], least[2])
    calls = calls + more
    if tonumber(least[2]) < tonumber(max) then
      used = used + more
    end
    load = '(' .. least[2]
  end
  return available, used, calls
end
