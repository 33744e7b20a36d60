-- Calls operation() for each group of `size` arguments from the given one on; answers what it gives. What goes wrong with
-- one is its answer, an error, and does not keep the others from theirs.
local function each(from, size, operation)
  local answers = {}
  for i = from, #ARGV, size do
    local is_done, answer = pcall(operation, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4])
    if not is_done and type(answer) ~= 'table' then
      -- A text: what a command said, which begins with its code, or where in the script something went wrong.
      answer = {err = string.find(answer, '^%u+ ') and answer or 'ERR Error running script: ' .. answer}
    end
    answers[#answers + 1] = answer
  end
  return answers
end
