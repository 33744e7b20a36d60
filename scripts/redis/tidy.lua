-- Forgets calls whose record was deleted, as the runbook for a stuck pod says, or by the first implementation. ARGV: 4 the fence, 5
-- cursor, 6 how many to look at. Answers {next cursor, how many were forgotten, the time}.
-- include base
-- include deadline
-- include fence
local page = rc('ZSCAN', P .. 'calls:active', ARGV[5], 'COUNT', ARGV[6])
local forgotten = 0
for i = 1, #page[2], 2 do
  local call_sid = page[2][i]
  if rc('EXISTS', P .. 'call:' .. call_sid) == 0 and tonumber(page[2][i + 1]) > now then
    rc('ZREM', P .. 'calls:active', call_sid)
    forgotten = forgotten + 1
  end
end
return {page[1], forgotten, string.format('%.0f', now)}
