// A walk through node: V8 keeps its own heap, but its C++ side, buffers, compression, workers and libuv use malloc.
"use strict";
const crypto = require("crypto");
const zlib = require("zlib");
const fs = require("fs");
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const { execFileSync, spawn } = require("child_process");

const sha = (data) => crypto.createHash("sha256").update(data).digest("hex").slice(0, 24);
const show = (name, ...facts) => console.log(`${name}: ${facts.join(" ")}`);
let state = 77;
const nextNumber = (limit) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % limit;

if (!isMainThread) {
  const table = new Map();
  for (let i = 0; i < 60000; i++) table.set(`${workerData}-${i % 9000}`, Buffer.alloc(1 + (i % 3000), i & 255));
  let sum = 0;
  for (const buffer of table.values()) sum += buffer.length + buffer[0];
  parentPort.postMessage({ sum, bytes: new Uint8Array(1 << 20).fill(workerData) });
} else {
  main();
}

async function main() {
  const words = Array.from({ length: 60000 }, () => nextNumber(1 << 30).toString(36).repeat(1 + nextNumber(5)));
  const table = Object.fromEntries(words.map((word, i) => [word, { i, word }]));
  show("json", sha(JSON.stringify(JSON.parse(JSON.stringify(table)))));
  show("sort", sha(words.slice().sort().join()));
  show("regexp", sha(words.join(" ").replace(/([a-m]+)(\d)/gu, "$2\u4e2d$1")));

  const parts = [];
  for (let i = 0; i < 5000; i++) parts.push(Buffer.alloc(nextNumber(9000), i & 255));
  const all = Buffer.concat(parts);
  show("buffers", all.length, sha(all), Buffer.alloc(1 << 22).every((byte) => byte === 0));
  const packers = [
    ["gzipSync", "gunzipSync"], ["deflateRawSync", "inflateRawSync"], ["brotliCompressSync", "brotliDecompressSync"],
  ];
  for (const [pack, unpack] of packers) {
    const options = pack.startsWith("brotli") ? { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } } : {};
    const packed = zlib[pack](all.subarray(0, 4 << 20), options);
    show(pack, packed.length, sha(zlib[unpack](packed)));
  }
  show("crypto", crypto.scryptSync("secret", "salt", 32, { N: 4096 }).toString("hex").slice(0, 16),
    crypto.createSign("sha256").constructor.name, crypto.createECDH("prime256v1").generateKeys().length);

  fs.writeFileSync("data.bin", all);
  const streamed = crypto.createHash("sha256");
  const unpacked = fs.createReadStream("data.bin").pipe(zlib.createGzip()).pipe(zlib.createGunzip());
  for await (const chunk of unpacked) streamed.update(chunk);
  show("streams", streamed.digest("hex").slice(0, 24));
  const writeAndRead = async (_, i) => {
    await fs.promises.writeFile(`f${i}`, "x".repeat(i * 50));
    return fs.promises.readFile(`f${i}`);
  };
  const files = await Promise.all(Array.from({ length: 200 }, writeAndRead));
  show("files", files.reduce((sum, data) => sum + data.length, 0));

  const replies = await Promise.all([1, 2, 3, 4].map((n) => new Promise((done, fail) => {
    const worker = new Worker(__filename, { workerData: n });
    worker.once("message", ({ sum, bytes }) => worker.once("exit", (code) => done(`${sum}/${bytes[99]}/${code}`)));
    worker.once("error", fail);
  })));
  show("workers", ...replies);

  const squares = "console.log([...Array(9).keys()].map((n) => n * n).join())";
  show("exec", execFileSync(process.execPath, ["-e", squares]).toString().trim());
  const child = spawn("tr", ["a-z", "A-Z"]);
  let length = 0;
  child.stdout.on("data", (chunk) => (length += chunk.length));
  child.stdin.end("quiet ".repeat(30000));
  const code = await new Promise((done) => child.on("close", done));
  show("spawn", length, code);
  const addition = "AGFzbQEAAAABBwFgAn9/AX8DAgEABwcBA2FkZAAACgkBBwAgACABags="; // a module with one function, add
  const instance = new WebAssembly.Instance(new WebAssembly.Module(Buffer.from(addition, "base64")));
  show("wasm", instance.exports.add(40, 2));
}
