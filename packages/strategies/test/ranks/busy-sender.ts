import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { LineMesh, setRank } from '@shardwise/core';
import { constantLike, currentSession, inputNode, noGrad } from '@shardwise/core/extend';
import type { HalfDType } from '@shardwise/core/extend';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { receiveBytes, sendValue } from '../../src/pipeline/messages/message-bytes.ts';

/** The value that the second rank received. Null if none arrived while the first rank answered nobody. */
export const receivedMeanwhile = z.array(z.number()).nullable();

/** The message is longer than a fragment. Shape: [n]. */
const shape = [300_000] as const;

interface BusyTask {
  readonly sentAs: HalfDType | null;
  /** Set to 1 as soon as the value has arrived. Shape: i32 [1]. */
  readonly arrived: SharedArrayBuffer;
}

/**
 * The first rank sends a value. It then answers nobody, like a rank that computes, until the second rank has the value.
 */
export async function main({
  rank,
  world,
  data: { sentAs, arrived },
}: RankContext<ThreadsWorld, BusyTask>): Promise<z.infer<typeof receivedMeanwhile>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const group = joinThreadsWorld(world, rank);
  setRank({
    device: await cpu({ memory: world.memory, ...region }),
    mesh: new LineMesh('pp', group),
  });
  const words = new Int32Array(arrived);
  const node = noGrad(() => constantLike(inputNode(shape, 'f32', null), 1.5));
  if (rank === 0) {
    await currentSession().realize([node]);
    const sent = sendValue({ node, peer: 1, tag: 0, sentAs }, group);
    const outcome = Atomics.wait(words, 0, 0, 10_000);
    await sent;
    return outcome === 'timed-out' ? null : [];
  }
  const bytes = await receiveBytes({ node, peer: 0, tag: 0, sentAs }, group);
  Atomics.store(words, 0, 1);
  Atomics.notify(words, 0);
  return [...new Set(new Float32Array(bytes.buffer))];
}
