-- ARGV[2] begins with the version of the tiers that the router knows, 40 characters; see tiers.lua. FRESH exists only while
-- these are the stored tiers. A script looks for it before it writes: a router that has not heard of a change would put
-- pods into lists of a type that is no more, and nobody would tell it. The router reads the tiers and asks again.
local FRESH = P .. 'tier:version:' .. string.sub(ARGV[2], 1, 40)
local STALE = 'STALE the tiers are others by now; nothing was changed'
