import { noGrad, setRank, type Tensor } from '@shardwise/core';
import { fromData, Generator, pagedAttention } from '@shardwise/core/extend';
import type { Backend, Program } from '@shardwise/core/spec';
import { interpreter } from '@shardwise/testing';
import { expect, test } from 'vitest';
import { limits } from '../src/device/limits.ts';
import { leastTraits } from '../src/kernels/device-traits.ts';
import { planKernels } from '../src/plan/plan-kernels.ts';
import { wordsOf } from '../src/program/values.ts';

const [items, heads, groups, width, queries] = [3, 4, 2, 16, 2];
const [blockCount, blockSize, blocks] = [64, 16, 20];

/** A leaf in memory. */
async function leaf(values: Float32Array | Int32Array, shape: readonly number[]): Promise<Tensor> {
  const dtype = values instanceof Int32Array ? 'i32' : 'f32';
  const made = fromData(values.slice(), [...shape], dtype);
  await made.realize();
  return made;
}

test('Attention through a table of blocks copies no keys and values: it writes its result only.', async () => {
  const planned: { readonly labels: readonly string[]; readonly written: number }[] = [];
  const device: Backend = {
    ...interpreter(),
    limits,
    compile: async (program: Program) => {
      const { values, kernels } = planKernels(program, { ...leastTraits, mostBuffers: 8 });
      planned.push({
        labels: kernels.map(({ label }) => label),
        written: kernels
          .flatMap(({ writes }) => writes)
          .reduce((sum, id) => sum + wordsOf(values, id), 0),
      });
      return { run: async () => undefined, dispose: () => undefined };
    },
  };
  setRank({ device });
  const random = new Generator(1);
  const kept = [blockCount, blockSize, groups, width];
  const keptCount = blockCount * blockSize * groups * width;
  const q = await leaf(random.uniform(items * heads * queries * width, -1, 1), [
    items,
    heads,
    queries,
    width,
  ]);
  const keys = await leaf(random.uniform(keptCount, -1, 1), kept);
  const values = await leaf(random.uniform(keptCount, -1, 1), kept);
  const table = await leaf(
    Int32Array.from({ length: items * blocks }, (_, at) => (at * 7) % blockCount),
    [items, blocks],
  );
  const ranges = await leaf(
    Int32Array.from({ length: items * queries * 2 }, (_, at) => (at % 2) * 300),
    [items, queries, 2],
  );
  planned.length = 0;
  await noGrad(() => pagedAttention(q, { keys, values, table, ranges })).realize();
  expect(planned.map(({ labels }) => labels)).toEqual([
    ['indices of indexSelect', 'indices of indexSelect', 'attention'],
  ]);
  // Both checks write to the same few words. Copies of the blocks would have as many words as here:
  const copied = 2 * items * blocks * blockSize * groups * width;
  expect(copied).toBe(61_440);
  expect(planned[0]?.written).toBeLessThan(items * heads * queries * width + 16);
});
