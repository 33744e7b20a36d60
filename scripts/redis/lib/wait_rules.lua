-- What a merchant's configuration says of its calls that wait: for how long they may, in ms (0:
-- they may not); their priority; and how many of them may, or nil. `config`: nil if there is none.
-- A number that no PUT would accept counts as not given, as in merchant_config_parse() of
-- src/core/merchant.c.
local function wait_rules(config, max_wait_ms)
  local function number(name, max)
    local value = config and config[name]
    return type(value) == 'number' and value >= 0 and value <= max and
      value == math.floor(value) and value or nil
  end
  local seconds = number('hold_seconds', CONST.MERCHANT_HOLD_SECONDS_MAX)
  return seconds and seconds * 1000 or tonumber(max_wait_ms),
    number('priority', CONST.MERCHANT_PRIORITY_MAX) or 0,
    number('max_waiting', CONST.MERCHANT_WAITING_MAX)
end
