import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { LlamaForCausalLM } from '@shardwise/models';
import { loadPretrained } from '@shardwise/models/node';
import { cpu, dist, setRank } from 'shardwise';
import type { LoadOfRank, LoadRankData } from './load-messages.ts';
import { modelSizes, smallSizes } from './model-sizes.ts';

// This thread is one rank of the benchmark. It reads its share of the file, and then loads it, each when it is told to.

const { rank, world, folder, smallFolder }: LoadRankData = workerData;
const group = dist.transports.joinThreadsWorld(world, rank);
const region = world.regions[rank];
if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
setRank({
  device: await cpu({ memory: world.memory, ...region }),
  mesh: new dist.LineMesh('dp', group),
});

// A small model is loaded first, so that code is compiled before anything is counted.
await build(smallSizes).then((model) => loadPretrained(model, smallFolder));
await turn('ready');
const readMs = await timed(() => readShare(join(folder, 'model.safetensors')));
globalThis.gc?.();
await turn('read');
const [parallel] = [await turnOf(() => build(modelSizes))];
await group.barrier();
const loadMs = await timed(() => loadPretrained(parallel.value, folder));
const result: LoadOfRank = {
  readMs,
  buildMs: parallel.ms,
  loadMs,
  partBytes: parallel.value.module.parameters().reduce((sum, { part }) => sum + 4 * part.numel, 0),
};
parentPort?.postMessage(result);

type Sizes = typeof modelSizes;

function build(sizes: Sizes) {
  const strategy = dist.fsdp();
  const make = (): LlamaForCausalLM => new LlamaForCausalLM(sizes, { initialValues: 'zeros' });
  return dist.parallelize(dist.constructSharded(make, strategy), strategy);
}

async function turnOf<T>(
  body: () => Promise<T>,
): Promise<{ readonly value: T; readonly ms: number }> {
  const start = performance.now();
  const value = await body();
  return { value, ms: performance.now() - start };
}

async function timed(body: () => Promise<unknown>): Promise<number> {
  await group.barrier();
  return (await turnOf(body)).ms;
}

/** Reads this rank's share of a file into fresh memory, as plainly as can be. */
async function readShare(path: string): Promise<void> {
  await using file = await open(path);
  const { size } = await file.stat();
  const bytes = new Uint8Array(Math.ceil(size / group.size));
  await file.read(bytes, 0, bytes.byteLength, rank * bytes.byteLength);
}

async function turn(said: string): Promise<void> {
  if (parentPort === null) throw new TypeError('no parent thread');
  const told = once(parentPort, 'message');
  parentPort.postMessage(said);
  await told;
}
