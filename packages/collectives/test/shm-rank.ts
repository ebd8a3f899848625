import { joinShmWorld, type ShmWorld } from '@shardwise/collectives/node';
import type { TypedBytes } from '@shardwise/core/spec';
import {
  runProcessGroupScenario,
  type ProcessGroupScenario,
  type RankContext,
} from '@shardwise/testing/ranks';
import { firstUsedByte } from './contract-arenas.ts';
import { operationCases } from './operation-cases.ts';

type Context = RankContext<ShmWorld, ProcessGroupScenario>;

/** Plays one rank's part of the contract with its buffers on the heap. */
export async function main({ rank, world, data }: Context): Promise<unknown> {
  const { group } = joinShmWorld(world, rank);
  try {
    return await runProcessGroupScenario(group, data, { cases: operationCases });
  } finally {
    group.close();
  }
}

/** Plays one rank's part of the contract with its buffers in the shared memory, mostly at unaligned addresses. */
export async function inSharedMemory({ rank, world, data }: Context): Promise<unknown> {
  const { group, memory, region } = joinShmWorld(world, rank);
  let next = firstUsedByte(region);
  const place = ({ bytes, dtype }: TypedBytes): TypedBytes => {
    const shared = new Uint8Array(memory.buffer, next, bytes.byteLength);
    shared.set(bytes);
    next += Math.ceil(bytes.byteLength / 64) * 64 + (rank % 2);
    return { bytes: shared, dtype };
  };
  const answer = await runProcessGroupScenario(group, data, { place });
  group.close();
  return answer;
}
