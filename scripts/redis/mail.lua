-- What happened to calls that a router carries. ARGV: 4 the router, 5 how many of its notes it has read already, which go.
-- Answers the next ones, a hundred at most.
-- include base
-- include deadline
local key = P .. 'mail:' .. ARGV[4]
if ARGV[5] ~= '0' then
  rc('LTRIM', key, ARGV[5], '-1')
end
return rc('LRANGE', key, '0', '99')
