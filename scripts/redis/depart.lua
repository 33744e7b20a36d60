-- A router is about to cut the connections of calls that it carries: each has a while to come back.
--
-- @arg carrier: the router
-- @arg unsettles: YES: a release that names no pod ends none of them meanwhile
-- @each call_sid: the call
--
-- Answers {number of calls that may come back}.
-- include base
-- include deadline
-- include current_tiers
-- include depart
local count = 0
for i = EACH.FIRST, #ARGV do
  count = count + call_depart(ARGV[i], ARG.carrier, ARG.unsettles == CONST.YES)
end
return {count}
