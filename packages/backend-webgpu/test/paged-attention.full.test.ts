import { nn, noGrad, setRank, type Tensor } from '@shardwise/core';
import { fromData, Generator, pagedAttention } from '@shardwise/core/extend';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { webgpu, type WebGpuBackend } from '../src/index.ts';

const reason = await reasonWithoutDevice(webgpu);
const [items, heads, groups, width] = [3, 4, 2, 16];
const [blockCount, blockSize, blocks] = [64, 16, 20];

describe.skipIf(reason !== undefined)(
  `Attention through a table of blocks${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let device: WebGpuBackend;
    beforeAll(async () => {
      device = await webgpu();
      setRank({ device });
    });
    afterAll(() => device.close());

    test.each([1, 7, 70])(
      'has the bits of attention to keys and values that were copied before, for %s queries',
      async (queries) => {
        const random = new Generator(queries);
        const uniform = (...shape: number[]): Tensor => {
          const count = shape.reduce((product, size) => product * size, 1);
          return fromData(random.uniform(count, -1, 1), shape, 'f32');
        };
        const q = uniform(items, heads, queries, width);
        const keys = uniform(blockCount, blockSize, groups, width);
        const values = uniform(blockCount, blockSize, groups, width);
        const numbers = Int32Array.from(
          { length: items * blocks },
          (_, at) => (at * 7) % blockCount,
        );
        const table = fromData(numbers, [items, blocks], 'i32');
        const bounds = Int32Array.from({ length: items * queries * 2 }, (_, at) =>
          at % 2 === 0 ? at % 5 : 200 + (at % 100),
        );
        const ranges = fromData(bounds, [items, queries, 2], 'i32');
        const paged = noGrad(() => pagedAttention(q, { keys, values, table, ranges }));
        const found = await paged.data();
        const copied = async (kept: Tensor): Promise<Tensor> => {
          const made = kept
            .indexSelect(0, table.reshape([items * blocks]))
            .reshape([items, blocks * blockSize, groups, width])
            .transpose(1, 2);
          await made.realize();
          return made;
        };
        const [k, v] = [await copied(keys), await copied(values)];
        const whole = noGrad(() =>
          nn.functional.scaledDotProductAttention(q, k, v, { keyRanges: ranges }),
        );
        expect(found).toEqual(await whole.data());
        expect(new Set(Array.from(found, Number)).size).toBeGreaterThan(100);
      },
    );
  },
);
