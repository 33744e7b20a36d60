-- Notes about the calls that a router carries.
--
-- @arg carrier: the router
-- @arg read: the number of its notes that it has read already; they are deleted
-- @arg first: the first of these. If another note is the first one, they are gone already, because
--   an answer was lost, or with the whole list.
--
-- Answers {1, or 0 if the key that says that the router is alive is lost, and maybe more with it;
-- the next notes, MAIL_NOTES at most}.
-- include base
-- include deadline
-- include line_call
local key = P .. 'mail:' .. ARG.carrier
if ARG.read ~= '0' and line_call('LINDEX', key, '0') == ARG.first then
  rc('LTRIM', key, ARG.read, '-1')
end
local answer = line_call('LRANGE', key, '0', CONST.MAIL_NOTES - 1)
table.insert(answer, 1, rc('EXISTS', P .. 'carrier:' .. ARG.carrier))
return answer
