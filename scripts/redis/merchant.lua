-- A merchant's configuration. ARGV: 4 merchant_id, 5 how many there may be, 6 its text; without 6 it is removed.
-- Answers 1 if that is done, 0 if there was none to remove, 2 if there are too many.
-- include base
-- include deadline
local key = P .. 'merchant:config'
if not ARGV[6] then
  return rc('HDEL', key, ARGV[4])
end
if rc('HLEN', key) >= tonumber(ARGV[5]) and rc('HEXISTS', key, ARGV[4]) == 0 then
  return 2
end
rc('HSET', key, ARGV[4], ARGV[6])
return 1
