-- Forgets calls whose record was deleted: by hand, as the runbook for a stuck pod says, or by the
-- first implementation. Answers {next cursor, number of forgotten calls, the time}.
--
-- @arg fence: see lib/fence.lua
-- @arg cursor: of ZSCAN
-- @arg limit: how many calls to look at
-- include base
-- include deadline
-- include fence
local page = rc('ZSCAN', KEY.CALLS_ACTIVE, ARG.cursor, 'COUNT', ARG.limit)
local forgotten = 0
for i = 1, #page[2], 2 do
  local call_sid = page[2][i]
  if rc('EXISTS', P .. 'call:' .. call_sid) == 0 and tonumber(page[2][i + 1]) > now then
    rc('ZREM', KEY.CALLS_ACTIVE, call_sid)
    forgotten = forgotten + 1
  end
end
return {page[1], forgotten, string.format('%.0f', now)}
