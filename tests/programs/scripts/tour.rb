# A walk through ruby: its own heap pages (aligned), strings and hashes (malloc), compaction, threads, fork, regexps.
require "digest"
require "json"
require "set"

$state = 987
def next_number(limit)
  $state = ($state * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
  ($state >> 33) % limit
end

def show(name, *facts)
  text = facts.inspect
  puts "#{name}: #{text.size < 120 ? text : Digest::SHA256.hexdigest(text)}"
  $stdout.flush
end

GC.stress = true
show :stress, Array.new(40) { |i| ["s" * i, { i => [i] * 5 }] }.flatten.size
GC.stress = false

table = {}
150_000.times do |i|
  (table["key #{next_number(70_000)}"] ||= +"") << ("a".ord + i % 26).chr * (i % 17)
  table.delete("key #{next_number(70_000)}") if i % 4 == 0
end
show :hash, table.size, table.sort.map { |k, v| [k, v.size, v[0]] }

grown = +""
50_000.times { |i| grown << [i].pack("N") << "." * (i % 13); grown.slice!(0, 7) if i % 3 == 0 }
show :string, grown.size, Digest::SHA256.hexdigest(grown)

words = Array.new(40_000) { Array.new(1 + next_number(12)) { (97 + next_number(8)).chr }.join }
text = words.join(" ")
show :regexp, text.scan(/\b(?:ab|cd|e)+[f-h]*\b/).tally.sort.first(20)
show :gsub, Digest::SHA256.hexdigest(text.gsub(/([a-c])([d-h]+)/, "\\2\u{1f600}\\1"))
show :sort, words.sort_by { |w| [w.size, w] }.each_slice(997).map(&:last)
by_size = words.group_by(&:size).transform_keys(&:to_s)
show :json, Digest::SHA256.hexdigest(JSON.pretty_generate(JSON.parse(JSON.generate(by_size))))
show :symbols, words.first(20_000).map(&:to_sym).to_set.size
show :bignum, (3**9001 / 7**501).digits.each_slice(100).map(&:sum)

point = Struct.new(:x, :y, :tag)
points = Array.new(100_000) { |i| point.new(i, i * 1.5, "tag#{i % 50}") }
points.select! { |p| p.x % 3 != 0 }
GC.start
GC.compact if GC.respond_to?(:compact)
show :compacted, points.size, points.sum(&:x), points.map(&:tag).tally.sort

pipe = SizedQueue.new(100)
makers = Array.new(4) { |t| Thread.new { 2_000.times { |i| pipe << ["#{t}-#{i}" * (i % 40), i] } } }
takers = Array.new(4) do
  Thread.new do
    sum = 0
    while (item = pipe.pop) != :end
      sum += item[0].size + item[1]
    end
    sum
  end
end
makers.each(&:join)
4.times { pipe << :end }
show :threads, takers.sum(&:value)
show :brief_threads, Array.new(300) { |i| Thread.new { ("z" * i).bytes.sum } }.sum(&:value)
many = Enumerator.new { |y| 5_000.times { |i| y << "f#{i}" } }
show :fibers, many.lazy.select { |s| s.end_with?("7") }.first(50).last

answers = Array.new(6) do |i|
  reader, writer = IO.pipe
  pid = fork do
    reader.close
    mine = Hash[Array.new(20_000) { |k| [k, "x" * (k % 60)] }]
    writer.write(mine.values.sum(&:size) + i)
    exit!(i)
  end
  writer.close
  value = reader.read
  [value, Process.wait2(pid)[1].exitstatus]
end
show :fork, answers
loud = IO.popen(["tr", "a-z", "A-Z"], "r+") do |io|
  io.write("quiet " * 9000)
  io.close_write
  io.read.size
end
show :exec, `echo from a shell`, loud
