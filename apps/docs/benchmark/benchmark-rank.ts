// A rank of the benchmark. It measures all-reduces with the other ranks, and a training with DDP.
import { dist, init } from 'shardwise/browser';
import type { BenchmarkMessage } from './benchmark-messages.ts';
import { trainGpt } from './train-gpt.ts';

const SIZES = [64 << 10, 1 << 20, 64 << 20];
const ROUNDS = 5;
/** The number of bytes that the ranks reduce in a round, before they look at the clock again. */
const ROUND_BYTES = 64 << 20;
const MOST_CALLS = 50;

const context = await init();
const { rank, worldSize: ranks, group, device } = context;
const send = (message: BenchmarkMessage): void => context.send(message);

for (const byteLength of SIZES) {
  const buffer = device.alloc(byteLength);
  // If ranks share memory, the buffer lies in it.
  const bytes = device.map(buffer) ?? new Uint8Array(byteLength);
  new Float32Array(bytes.buffer, bytes.byteOffset, byteLength / 4).fill(1);
  const calls = Math.max(1, Math.min(MOST_CALLS, ROUND_BYTES / byteLength));
  let best = Infinity;
  for (let round = 0; round < ROUNDS; round += 1) {
    await group.barrier();
    const began = performance.now();
    for (let call = 0; call < calls; call += 1)
      await group.allReduce({ bytes, dtype: 'f32' }, 'avg');
    best = Math.min(best, await slowest((performance.now() - began) / calls));
  }
  device.free(buffer);
  if (rank === 0) {
    send({
      kind: 'figure',
      figure: { kind: 'allReduce', ranks, bytes: byteLength, milliseconds: best },
    });
  }
}

const trained = await trainGpt(rank, ranks, (network) => dist.parallelize(network, dist.ddp()));
if (rank === 0) {
  send({ kind: 'figure', figure: { kind: 'training', device: 'wasm', ranks, ...trained } });
}
await context.close();

/** Returns the longest time of a rank. */
async function slowest(own: number): Promise<number> {
  const time = Float32Array.of(own);
  await group.allReduce({ bytes: new Uint8Array(time.buffer), dtype: 'f32' }, 'max');
  return time[0] ?? Number.NaN;
}
