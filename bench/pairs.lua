-- pairs.lua - wrk's load: every call is allocated and, a little later, released.
--
-- wrk -s pairs.lua URL -- PREFIX LAG [PAUSE]     PREFIX makes the call_sids of this run unlike those of any other;
-- each connection rests for PAUSE milliseconds before each request.
--
-- wrk does not say on which connection a request goes out. A release follows its allocation by LAG requests or
-- more. With LAG twice the number of connections, one request each under way, the allocation has been answered by
-- then.

local FIRST = 10000000 -- numbers of one width, so that every body of a kind has the same length

local sent, allocated, released = -1, 0, 0
local lag
local allocate, release

function init(args)
    local prefix = args[1] or "bench"
    local body = #('{"call_sid":"' .. prefix .. FIRST .. '"}')
    local function head(path)
        return "POST /api/v1/" .. path .. " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            .. "Content-Length: " .. body .. '\r\n\r\n{"call_sid":"' .. prefix
    end
    allocate, release = head("allocate"), head("release")
    lag = tonumber(args[2]) or 128
    local pause = tonumber(args[3])
    if pause then -- wrk looks whether there is such a function
        function delay()
            return pause
        end
    end
end

function request()
    sent = sent + 1
    if sent == 0 then -- wrk asks for one request to look at, which it does not send
        return "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    end
    if sent > lag and sent % 2 == 0 then
        released = released + 1
        return release .. (FIRST + released) .. '"}'
    end
    allocated = allocated + 1
    return allocate .. (FIRST + allocated) .. '"}'
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '\n{"requests":%d,"duration_us":%d,"bytes":%d,"p50_us":%d,"p99_us":%d,"max_us":%d,'
            .. '"failed":%d,"refused":%d}\n',
        summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
        latency.max, errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
