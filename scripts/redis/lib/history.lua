-- include base
-- The versions of a configuration: see src/core/history.h for the rules. A list, the oldest first,
-- of at most HISTORY_MAX entries `NUMBER TIME BY`, a newline, and the text. TIME 0: not known. BY
-- is the name of the key, or empty. An empty text: the configuration was removed.

-- The number of the present version, whose text is `text` or '', and whether the list has it.
local function history_present(key, text)
  local newest = rc('LINDEX', key, -1)
  local number, kept = string.match(newest or '0 0 \n', '^(%d+) %d+ [^\n]*\n(.*)$')
  number = tonumber(number or 0)
  if kept == text then
    return number, true
  end
  return number + 1, false
end

local function history_push(key, number, at, by, text)
  rc('RPUSH', key, string.format('%.0f %.0f %s\n%s', number, at, by, text))
end

-- The present text `old` becomes `new`. `wanted` is the number that the present version must have,
-- or ''. Returns nothing if it has another; else the number of the new version. A trial writes
-- nothing.
local function history_change(key, old, new, by, wanted, is_trial)
  local number, is_kept = history_present(key, old)
  if wanted ~= '' and tonumber(wanted) ~= number then
    return
  end
  if old == new then
    return number
  end
  if not is_trial then
    if not is_kept then
      history_push(key, number, 0, '', old)
    end
    history_push(key, number + 1, now, by, new)
    rc('LTRIM', key, -CONST.HISTORY_MAX, -1)
  end
  return number + 1
end
