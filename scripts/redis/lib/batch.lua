-- Calls operation() for each group of `size` arguments among the arguments `from` to `to`. Adds the
-- answers to `answers`, and returns it. An error in one group is the answer of that group, and does
-- not affect the others.
local function batch(answers, from, to, size, operation)
  for i = from, to, size do
    local is_done, answer =
      pcall(operation, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
    if not is_done and type(answer) ~= 'table' then
      -- A text: the error of a command, which begins with its code; or the place of an error in
      -- this script.
      local has_code = string.find(answer, '^%u+ ')
      answer = {err = has_code and answer or CONST.ERROR_IN_SCRIPT .. ': ' .. answer}
    end
    answers[#answers + 1] = answer
  end
  return answers
end
