-- lua: binary trees that come and go beside one that stays, tables and strings. Prints a checksum.
-- Measures an interpreter that asks realloc for everything and frees in sweeps.
local depth = tonumber(arg[1]) or 15

local function build(level)
  if level == 0 then return { value = 1 } end
  return { left = build(level - 1), right = build(level - 1), value = level }
end

local function sum(tree)
  if not tree.left then return tree.value end
  return tree.value + sum(tree.left) + sum(tree.right)
end

local stays, total = build(depth), 0
for level = 4, depth, 2 do
  for _ = 1, 1 << (depth - level + 3) do
    total = total + sum(build(level))
  end
end
local words, state = {}, 12345
for i = 1, 1 << depth do
  state = (state * 1103515245 + 12345) & 0x7fffffff
  words[#words + 1] = string.format("%x-%d", state, i)
end
table.sort(words)
local text = table.concat(words, ",")
local check = 0
for word in text:gmatch("[^,]+") do check = (check * 31 + #word + word:byte(1)) % 1000003 end
print(sum(stays), total, #text, check)
