-- What happened to calls that a router carries. ARGV: 4 the router, 5 how many of its notes it has read already, which go,
-- 6 the first of these: if another one is the first by now they have gone, with an answer that was lost or with the list.
-- Answers {1, or 0 if nothing says any more that the router is alive: the store has lost that, and maybe more; the next notes,
-- a hundred at most}.
-- include base
-- include deadline
local key = P .. 'mail:' .. ARGV[4]
if ARGV[5] ~= '0' and rc('LINDEX', key, '0') == ARGV[6] then
  rc('LTRIM', key, ARGV[5], '-1')
end
local answer = rc('LRANGE', key, '0', '99')
table.insert(answer, 1, rc('EXISTS', P .. 'carrier:' .. ARGV[4]))
return answer
