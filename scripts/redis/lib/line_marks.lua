-- @leaves HAS_LINE, IS_SETTLING, marked, grants_left
-- Does any call wait for a pod? If one does, `marked` has the tiers in which this script has made
-- room: what makes room only marks, and the lines of these tiers are served at the end of the
-- script (lib/line_serve.lua). If nobody waits, all of this costs no command.
--
-- IS_SETTLING: another server has taken over a moment ago, and may not know calls that were given
-- to pods last. So no pod is given away until the routers have told it what they carry.
local HAS_LINE, marked, grants_left = false, nil, CONST.WAIT_GRANTS_MAX
local IS_SETTLING = false
