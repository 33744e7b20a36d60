-- include base
-- A command on a key of the line, or on a list of notes. A key that has another type was made by
-- hand: it is deleted, and nobody else suffers. Who waits is kept by somebody, which brings back
-- what is lost.
local function line_call(command, key, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) == 'table' and answer.err then
    if string.find(answer.err, '^WRONGTYPE') then
      rc('DEL', key)
    end
    return rc(command, key, ...)
  end
  return answer
end
