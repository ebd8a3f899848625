import { cpu } from '@shardwise/backend-cpu';
import {
  joinThreadsWorld,
  type SharedMemoryGroup,
  type ThreadsWorld,
} from '@shardwise/collectives';
import { joinShmWorld, type ShmWorld } from '@shardwise/collectives/node';
import { fromData, LineMesh, manualSeed, nn, optim, setRank } from '@shardwise/core';
import { ddp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { MemoryMap } from '../src/shared-memory/world-memory-map.ts';

export interface Training {
  readonly losses: readonly number[];
  /** The parameters after the last step, in the order of the model. */
  readonly parameters: readonly (readonly number[])[];
  /**
   * The number of bytes of the staging area that became nonzero after the first step. It is 0 if nothing passed through
   * the area. The first step does not count, because ranks then also exchange the order of gradients.
   */
  readonly stagedBytes: number;
}

export async function onThreads({ rank, world }: RankContext<ThreadsWorld>): Promise<Training> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region of rank ${rank}`);
  return train(joinThreadsWorld(world, rank), world.memory, region);
}

export async function onProcesses({ rank, world }: RankContext<ShmWorld>): Promise<Training> {
  const { group, memory, region } = joinShmWorld(world, rank);
  return train(group, memory, region);
}

async function train(
  group: SharedMemoryGroup,
  memory: WebAssembly.Memory,
  region: { readonly byteOffset: number; readonly byteLength: number },
): Promise<Training> {
  const { rank, size } = group;
  setRank({ device: await cpu({ memory, ...region }), mesh: new LineMesh('dp', group) });
  manualSeed(rank);
  const model = new nn.Sequential(new nn.Linear(4, 64), new nn.ReLU(), new nn.Linear(64, 1));
  const parallel = await parallelize(model, ddp());
  let before = 0;
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.05 });
  const losses: number[] = [];
  for (let step = 0; step < 5; step++) {
    const values = Float32Array.from({ length: 32 }, (_, i) => Math.sin(i + 32 * (rank + step)));
    const x = fromData(values, [8, 4], 'f32');
    optimizer.zeroGrad();
    const loss = nn.functional.mseLoss(parallel.forward(x), x.sum(1, { keepDim: true })).retain();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
    if (step === 0) before = stagedBytes(memory, rank, size);
  }
  const parameters: number[][] = [];
  for (const parameter of model.parameters())
    parameters.push([...(await parameter.data())].map(Number));
  const after = stagedBytes(memory, rank, size);
  group.close();
  return { losses, parameters, stagedBytes: after - before };
}

function stagedBytes(memory: WebAssembly.Memory, rank: number, size: number): number {
  const map = new MemoryMap(size);
  const staging = new Uint8Array(
    memory.buffer,
    map.staging(0, rank, 'collective'),
    map.stagingBytes,
  );
  return staging.reduce((count, byte) => count + (byte === 0 ? 0 : 1), 0);
}
