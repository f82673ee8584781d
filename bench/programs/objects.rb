# ruby: structs, strings, hashes, sorting and a tree, with the garbage collector at work. Prints a checksum.
# Measures an interpreter that keeps object heads itself and takes their bodies from malloc.
Item = Struct.new(:name, :parts, :weight)

count = (ARGV[0] || 220_000).to_i
state = 12345
next_number = -> { (state = (state * 1103515245 + 12345) & 0x7fffffff) >> 8 }

items = Array.new(count) do |i|
  name = "item-#{next_number.call.to_s(36)}-with-a-longer-name-#{i}"
  Item.new(name, name.split('-'), next_number.call % 1000)
end
by_weight = items.group_by(&:weight)
text = +''
by_weight.keys.sort.each do |weight|
  names = by_weight[weight].sort_by(&:name).map { |item| item.name.upcase + item.parts.join('/') }
  text << names.join(',') << "\n"
  by_weight.delete(weight) if weight.odd?
end
counts = Hash.new(0)
text.each_line { |line| line.split(',').each { |word| counts[word[0, 9]] += 1 } }
check = counts.sort.reduce(7) { |sum, (key, value)| (sum * 31 + key.sum * value) % 1_000_003 }
puts "#{by_weight.size} #{text.size} #{counts.size} #{check}"
