-- A walk through lua: one realloc-shaped allocator for everything, so every growth and every shrink is a realloc.
local state = 4321
local function next_number(limit)
  state = (state * 1103515245 + 12345) % 2147483648
  return (state >> 8) % limit
end

local function digest(text)
  local hash = 5381
  for i = 1, #text do hash = (hash * 33 + text:byte(i)) & 0xffffffffffff end
  return string.format("%012x", hash)
end

local function show(name, ...)
  local facts = table.pack(...)
  for i = 1, facts.n do facts[i] = tostring(facts[i]) end
  print(name .. ": " .. table.concat(facts, " "))
end

local map, count = {}, 0
for i = 1, 200000 do
  local key = "key" .. next_number(60000)
  map[key] = (map[key] or "") .. string.char(65 + i % 26):rep(i % 7)
  if i % 4 == 0 then map["key" .. next_number(60000)] = nil end
end
local keys = {}
for key in pairs(map) do keys[#keys + 1] = key end
table.sort(keys)
local parts = {}
for _, key in ipairs(keys) do parts[#parts + 1] = key .. "=" .. map[key] end
show("table", #keys, digest(table.concat(parts, ";")))

local list = {}
for i = 1, 300000 do list[i] = (i * 7919) % 300007 end
table.sort(list, function(a, b) return a > b end)
for _ = 1, 250000 do list[#list] = nil end
collectgarbage()
show("array", #list, list[1], list[#list])

local text = {}
for i = 1, 30000 do text[i] = string.char(97 + next_number(8)):rep(1 + next_number(9)) end
text = table.concat(text, " ")
local found = 0
for _ in text:gmatch("%f[%w][a-d]+%f[%W]") do found = found + 1 end
show("patterns", found, digest(text:gsub("([a-c])([d-h]*)", "%2<%1>")), digest(text:upper():reverse()))

local sum = 0
local function maker(n)
  return coroutine.wrap(function() for i = 1, n do coroutine.yield(("c"):rep(i % 50)) end end)
end
for n = 1, 2000 do for piece in maker(n % 40) do sum = sum + #piece end end
show("coroutines", sum)

local weak = setmetatable({}, { __mode = "v" })
for i = 1, 50000 do weak[i] = { i, tostring(i), {} } end
local kept = {}
for i = 1, 50000, 10 do kept[#kept + 1] = weak[i] end
collectgarbage("generational")
for i = 1, 200000 do local _ = { i } end
collectgarbage("incremental")
collectgarbage()
local alive = 0
for _ in pairs(weak) do alive = alive + 1 end
show("weak", alive >= #kept, #kept, kept[77][2])

local chunks = {}
for i = 1, 3000 do
  local text = ("s"):rep(i % 300)
  chunks[i] = load("local t = {...}; return function(x) return x * " .. i .. " + #t, '" .. text .. "' end")(i, i)
end
local total = 0
for i, chunk in ipairs(chunks) do local n, s = chunk(i); total = total + n + #s end
show("compiled", total)
show("format", digest(string.format("%q %s %10.3f", text:sub(1, 5000), ("ab"):rep(40000), 1 / 3)))
local depth = 0
local function deep(n) if n > 0 then return 1 + deep(n - 1) end return 0 end
show("stack", deep(150000), pcall(function() local function f() return 1 + f() end return f() end))
