import {
  autocast,
  type Backend,
  concat,
  fromData,
  setRank,
  type Tensor,
  tensor,
} from '@shardwise/core';
import type { Instruction, ValueType } from '@shardwise/core/spec';
import { interpreter } from '@shardwise/testing';
import { describe, expect, it } from 'vitest';
import { analyse } from '../../src/plan/analyse.ts';
import { cpu } from '../../src/index.ts';
import { instructionSets } from '../../src/emit/x64/instruction-sets.ts';
import { onnxFallback } from '../../src/engines/onnx/onnx-fallback.ts';
import { Sessions } from '../../src/engines/onnx/sessions.ts';
import { f32, programOf } from '../support.ts';
import { codes, machine } from './support.ts';

describe('products of rows in groups', () => {
  it.each(['own', 'onnxruntime'] as const)(
    'refuse counts of more rows than there are, or below 0, by products: %s',
    async (products) => {
      setRank({ device: await cpu({ products }) });
      const product = (counts: readonly number[]): Promise<unknown> =>
        fromData(new Float32Array(12), [6, 2], 'f32')
          .groupedMatmul(fromData(new Float32Array(8), [2, 2, 2], 'f32'), tensor(counts, 'i32'))
          .data();
      await expect(product([3, 3])).resolves.toHaveLength(12);
      await expect(product([3, 4])).rejects.toThrow('counts of 3, 4, 7 in all');
      await expect(product([-1, 4])).rejects.toThrow('counts of -1, 4, 3 in all');
    },
  );
});

describe('products of groups of other sizes on two threads', () => {
  it.each([
    { name: 'the second group is larger', counts: [64, 100] },
    { name: 'the second group is smaller', counts: [100, 3] },
    { name: 'the first group is small', counts: [1, 150, 12] },
  ])('have the bits that one thread makes, if $name', async ({ counts: groups }) => {
    const all = groups.reduce((sum, count) => sum + count);
    const by = async (threads: number): Promise<unknown> => {
      setRank({ device: await cpu({ threads }) });
      const x = values([all, 1000], 1);
      const w = values([groups.length, 1000, 64], 2);
      return x.groupedMatmul(w, tensor(groups, 'i32')).data();
    };
    expect(await by(2)).toEqual(await by(1));
  });
});

const counts = [3, 0, 17, 5];
const [depth, columns] = [37, 21];
const rows = counts.reduce((sum, count) => sum + count);
const values = (shape: readonly number[], seed: number): Tensor =>
  fromData(
    Float32Array.from({ length: shape.reduce((all, size) => all * size, 1) }, (_, index) =>
      Math.sin(seed + index * 1.7),
    ),
    shape,
    'f32',
  );

interface Grouped {
  readonly y: unknown;
  readonly dx: unknown;
  readonly dw: unknown;
}

/** Returns the product that `multiply` computes inside autocast, and its gradients, in f32. */
async function results(
  device: Backend,
  multiply: (x: Tensor, w: Tensor) => Tensor,
): Promise<Grouped> {
  setRank({ device });
  const x = values([rows, depth], 1).requiresGrad_();
  const w = values([counts.length, depth, columns], 2).requiresGrad_();
  const y = autocast({}, () => multiply(x, w)).to('f32');
  y.mul(values([rows, columns], 3))
    .sum()
    .backward();
  return { y: await y.data(), dx: await x.grad?.data(), dw: await w.grad?.data() };
}

const grouped = (x: Tensor, w: Tensor): Tensor => x.groupedMatmul(w, tensor(counts, 'i32'));

function oneByOne(x: Tensor, w: Tensor): Tensor {
  let first = 0;
  const products = counts.map((count, group) => {
    const own = x.slice(0, first, first + count);
    first += count;
    return own.matmul(w.slice(0, group, group + 1).reshape([depth, columns]));
  });
  return concat(products, 0);
}

describe('products of bf16 in groups', () => {
  it.skipIf(machine.kind === 'none').each(instructionSets)(
    'by %s have the bits of products of each group',
    async (instructions) => {
      if (codes[instructions] === undefined) return;
      const device = await cpu({ byteLength: 2 ** 26, instructions });
      expect(await results(device, grouped)).toEqual(await results(device, oneByOne));
    },
  );

  it.skipIf(machine.kind === 'none')(
    'have the bits that the interpreter gives by request',
    async () => {
      const device = await cpu({ byteLength: 2 ** 26, instructions: 'AVX512-BF16' });
      const [own, exact] = [
        await results(device, grouped),
        await results(interpreter({ bf16Sums: 'AVX512-BF16' }), grouped),
      ];
      expect([own.y, own.dx]).toEqual([exact.y, exact.dx]);
    },
  );

  it('read 16 bits, and matrices of f32 that packing rounds, in one partition without copies', () => {
    const bf16 = (...shape: number[]): ValueType => ({ shape, dtype: 'bf16' });
    const cast = (input: number, { shape, dtype }: ValueType): Instruction => {
      return { op: 'cast', params: { dtype }, inputs: [input], shape, dtype };
    };
    const program = programOf({
      inputs: [bf16(rows, depth), f32(4, depth, columns), { shape: [4], dtype: 'i32' }],
      instructions: [
        cast(1, bf16(4, depth, columns)),
        cast(0, f32(rows, depth)),
        cast(3, f32(4, depth, columns)),
        {
          op: 'groupedMatmul',
          params: { transposeB: false },
          inputs: [4, 5, 2],
          ...f32(rows, columns),
        },
        cast(6, bf16(rows, columns)),
        cast(7, f32(rows, columns)),
      ],
      outputs: [8],
    });
    const { partitions } = analyse(
      program,
      { bf16: true, thin: false, attention: null },
      onnxFallback(new Sessions(1)),
    );
    expect(partitions).toMatchObject([
      {
        kind: 'grouped',
        product: {
          kind: 'bf16 to f32',
          left: { value: 0, packing: 'bf16' },
          right: { value: 1, packing: 'f32 as bf16' },
          rounds: true,
        },
      },
    ]);
  });
});
