-- The first step of every sweep. ARGV: 4 the fence, 5 how long from now on nobody is taken for silent, in ms, or ''
-- if everybody could be heard. Answers the time, for lib/late.lua.
-- include base
-- include deadline
-- include fence
if ARGV[4] == '' then
  rc('SET', P .. 'leader:ours', 'without election', 'PX', '600000') -- see leader.lua
end
if ARGV[5] ~= '' then
  rc('SET', P .. 'forgiving', '1', 'PX', ARGV[5])
end
return string.format('%.0f', now)
