-- include base
-- @leaves TIERS_KEY
-- The argument `tiers` begins with the version of the tiers that the router knows: see tiers.lua.
-- The key TIERS_KEY exists only while these are the stored tiers. A script looks for it before it
-- writes. Otherwise a router that does not know of a change would put pods into lists of a former
-- type, and would not notice. With this error the router reads the tiers and sends the script
-- again.
local TIERS_KEY = P .. 'tier:version:' .. string.sub(ARG.tiers, 1, CONST.VERSION_LEN)
