// What node_redis_test.py runs: node-redis MODULE against the calmq at PORT, in both protocols.
// Seen to fail: with a HELLO that refuses 3.
import assert from 'node:assert/strict'

const [module, port] = process.argv.slice(2)
const { default: redis } = await import(module)

for (const RESP of [undefined, 2, 3]) {
  const client = redis.createClient({ url: `redis://127.0.0.1:${port}`, ...(RESP && { RESP }) })
  client.on('error', (error) => { console.log(error); process.exit(1) })
  await client.connect()
  assert.equal(await client.ping(), 'PONG')
  assert.equal(await client.lPush('q', ['a', 'b', 'c']), 3)
  assert.deepEqual(await client.lRange('q', 0, -1), ['c', 'b', 'a'])
  assert.equal(await client.rPop('q'), 'a')
  assert.deepEqual(await client.rPopCount('q', 5), ['b', 'c'])
  assert.equal(await client.rPopCount('q', 5), null)
  assert.equal(await client.brPop('q', 0.01), null)
  assert.equal(await client.rPush('{q}', 'x'), 1)
  assert.equal(await client.lMove('{q}', '{q}work', 'RIGHT', 'LEFT'), 'x')
  assert.equal(await client.blMove('{q}work', '{q}', 'LEFT', 'RIGHT', 1), 'x')
  assert.equal(await client.blMove('{q}work', '{q}', 'LEFT', 'RIGHT', 0.01), null)
  assert.equal(await client.type('{q}'), 'list')
  assert.equal(await client.exists(['{q}', '{q}work']), 1)
  assert.equal(await client.del('{q}'), 1)
  await client.clientSetName('me')
  assert.equal(await client.clientGetName(), 'me')
  const [me] = (await client.clientList()).filter((one) => one.name === 'me')
  assert.equal(me.id, await client.clientId())
  assert.equal(me.libName, 'node-redis')
  assert.match(await client.info(), /redis_version:7/)
  const other = client.duplicate()
  await other.connect()
  const waits = other.blPop(['late', 'later'].map((key) => `{l}${key}`), 0)
  await client.rPush('{l}later', 'item')
  assert.deepEqual(await waits, { key: '{l}later', element: 'item' })
  other.destroy()
  await client.close()
}
