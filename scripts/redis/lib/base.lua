-- Every script: KEYS[1] is {prefix}calls:active and only says which node of a cluster has the keys;
-- ARGV[1] is the prefix, ARGV[2] the tiers (see tiers.lua). Time is the server's.
local P = ARGV[1]
local rc = redis.call
local time = rc('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
