import { cpu } from '@shardwise/backend-cpu';
import { createMesh, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { fromData, setRank, type MeshAxis, type ProcessGroup, type Tensor } from '@shardwise/core';
import type { Shape } from '@shardwise/core';
import type { RankContext } from '@shardwise/testing/ranks';

function isWorld(world: unknown): world is ThreadsWorld {
  return typeof world === 'object' && world !== null && 'memory' in world && 'regions' in world;
}

/** The mesh of the tests for this number of ranks. */
export function axesOf(size: number): readonly MeshAxis[] {
  if (size < 4 || size % 2 > 0) return [{ name: 'a', size }];
  return [
    { name: 'a', size: 2 },
    { name: 'b', size: size / 2 },
  ];
}

/** Makes this thread a rank of the tests' mesh. */
export async function joinMesh(
  { rank, world }: RankContext,
  axes?: readonly MeshAxis[],
): Promise<ProcessGroup> {
  if (!isWorld(world)) throw new TypeError('a ThreadsWorld is expected');
  const group = joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const mesh = await createMesh(group, axes ?? axesOf(group.size));
  setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
  return group;
}

/** Returns deterministic values in [-1, 1) that differ for each seed. */
export function values(count: number, seed: number): Float32Array {
  let state = (seed * 2_654_435_761 + 12_345) | 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return state / 2 ** 31;
  });
}

export function randomTensor(shape: Shape, seed: number): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  return fromData(values(count, seed), shape, 'f32');
}

/** Sums each element over the ranks. */
export async function sumOverRanks(
  terms: readonly number[],
  group: ProcessGroup,
): Promise<Float64Array> {
  const sums = Float64Array.from(terms);
  await group.allReduce({ bytes: new Uint8Array(sums.buffer), dtype: 'f64' }, 'sum');
  return sums;
}

/** Returns the largest error of an element, relative to the expected element if that is larger than 1. */
export async function difference(found: Tensor, expected: Tensor): Promise<number> {
  if (String(found.shape) !== String(expected.shape)) return Number.POSITIVE_INFINITY;
  const [a, b] = [await found.data(), await expected.data()];
  let worst = 0;
  b.forEach((value: number | bigint, index: number) => {
    const wanted = Number(value);
    const error = Math.abs(Number(a[index]) - wanted) / Math.max(1, Math.abs(wanted));
    worst = Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(worst, error);
  });
  return worst;
}
