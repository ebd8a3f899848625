import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import type { TypedBytes } from '@shardwise/core/spec';
import {
  runProcessGroupScenario,
  type ProcessGroupScenario,
  type RankContext,
} from '@shardwise/testing/ranks';
import { firstUsedByte } from './contract-arenas.ts';
import { operationCases } from './operation-cases.ts';

type Context = RankContext<ThreadsWorld, ProcessGroupScenario>;

/** Plays one rank's part of the contract with its buffers on the heap. */
export async function main({ rank, world, data }: Context): Promise<unknown> {
  const group = joinThreadsWorld(world, rank);
  const answer = await runProcessGroupScenario(group, data, { cases: operationCases });
  group.close();
  return answer;
}

/** Plays one rank's part of the contract with its buffers in the shared memory. */
export async function inSharedMemory({ rank, world, data }: Context): Promise<unknown> {
  const group = joinThreadsWorld(world, rank);
  const answer = await runProcessGroupScenario(group, data, { place: placer(world, rank) });
  group.close();
  return answer;
}

/**
 * Plays one rank's part of the contract with every second buffer in the shared memory, mostly at unaligned addresses.
 * Which buffers these are differs by rank.
 */
export async function inBothMemories({ rank, world, data }: Context): Promise<unknown> {
  const group = joinThreadsWorld(world, rank);
  const share = placer(world, rank, 1);
  let placed = rank;
  const place = (buffer: TypedBytes): TypedBytes => (placed++ % 2 === 0 ? share(buffer) : buffer);
  const answer = await runProcessGroupScenario(group, data, { place });
  group.close();
  return answer;
}

function placer(
  world: ThreadsWorld,
  rank: number,
  gapBytes = 0,
): (buffer: TypedBytes) => TypedBytes {
  const region = world.regions[rank]!;
  let next = firstUsedByte(region);
  return ({ bytes, dtype }) => {
    const shared = new Uint8Array(world.memory.buffer, next, bytes.byteLength);
    shared.set(bytes);
    next += Math.ceil(bytes.byteLength / 64) * 64 + gapBytes;
    return { bytes: shared, dtype };
  };
}

/** Waits for a call that no other rank makes. */
export async function waitAlone({ rank, world }: Context): Promise<unknown> {
  const group = joinThreadsWorld(world, rank);
  return rank === 0 ? group.barrier() : undefined;
}

/** Issues calls before the other ranks have arrived. Returns the group's counters. */
export async function count({ rank, world }: Context): Promise<unknown> {
  const group = joinThreadsWorld(world, rank);
  const buffer: TypedBytes = { bytes: new Uint8Array(12), dtype: 'f32' };
  await group.allReduce(buffer, 'sum');
  await group.allReduce(buffer, 'sum');
  await group.barrier();
  return group.counters.entries();
}
