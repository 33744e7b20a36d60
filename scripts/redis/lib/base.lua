-- Every script begins with this. KEYS[1] is {prefix}calls:active: in a cluster it says which node
-- has the keys. The time is the time of the Redis server: `now` in milliseconds.
-- @leaves P, rc, time, now
local P = ARG.prefix
local rc = redis.call
local time = rc('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
