-- lua: binary trees and nothing else: many short ones are built, counted and dropped beside one that stays. Prints
-- a checksum. Measures an interpreter that has one small table for each node and frees them in sweeps; trees.lua does
-- other things as well.
local depth = tonumber(arg[1]) or 15

local function build(level)
  if level == 0 then return {} end
  return { build(level - 1), build(level - 1) }
end

local function count(tree)
  if not tree[1] then return 1 end
  return 1 + count(tree[1]) + count(tree[2])
end

local stays, total = build(depth), 0
for level = 4, depth, 2 do
  local trees = 1 << (depth - level + 4)
  for _ = 1, trees do
    total = total + count(build(level))
  end
end
print(count(stays), total)
