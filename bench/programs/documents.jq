# jq: $count documents are made, written out as text, parsed again, grouped and changed. Prints a checksum.
# Measures a JSON library in C: values counted by reference, each array, object and string a block of its own, arrays and
# texts that grow by realloc.
def document($i):
  {id: $i, name: "name-\($i * 7919 % 100003)", tags: [range($i % 7) | "tag-\(.)"], at: {x: ($i % 101), y: ($i / 3)}};

[range($count) | document(.)]
| (map(tojson) | join("\n")) as $text
| [$text | split("\n")[] | fromjson]
| group_by(.tags | length)
| map(map(.at.x += 1 | del(.tags) | .name |= ascii_upcase))
| [length, ($text | length), (map(map(.at.x) | add) | add), (map(map(.name | length) | add) | add)]
