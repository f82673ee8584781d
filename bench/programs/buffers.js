// node: Buffers, JSON, sorting, regular expressions. Prints a checksum.
// Measures what of a JavaScript engine goes through malloc: buffers and the engine's own structures. Its object heap
// does not, so little is to be gained here; the garbage collector's threads make CPU time vary.
const { createHash } = require('crypto');
const zlib = require('zlib');

const count = Number(process.argv[2] || 120000);
let state = 12345;
const next = () => { state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff; return state >>> 8; };

const kept = [];
const hash = createHash('sha256');
for (let i = 0; i < count; i++) {
  const buffer = Buffer.allocUnsafeSlow(64 + next() % 4000);
  buffer.fill(next() & 255);
  if (i % 5 === 0) kept.push(buffer);
  if (kept.length > 5000) hash.update(kept.splice(next() % 5000, 1)[0]);
}
const table = Array.from({ length: count }, (_, i) => ({ key: next().toString(36), index: i, tags: [i % 7, i % 11] }));
table.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : a.index - b.index));
const text = JSON.stringify(table);
const back = JSON.parse(text);
for (let i = 0; i < 8; i++) hash.update(zlib.inflateSync(zlib.deflateSync(text.slice(i * 1000, 900000), { level: 1 })));
hash.update(text);
console.log(back.length, text.length, hash.digest('hex'));
