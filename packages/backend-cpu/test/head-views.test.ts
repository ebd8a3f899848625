import { autocast, fromData, nn, setRank, type Tensor } from '@shardwise/core';
import type { Instruction, Program } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { analyse } from '../src/plan/analyse.ts';
import { cpu } from '../src/cpu.ts';
import { onnxFallback } from '../src/engines/onnx/onnx-fallback.ts';
import { Sessions } from '../src/engines/onnx/sessions.ts';
import { attentionPlanning } from '../src/plan/attention/plan-attention-instructions.ts';
import { f32, programOf } from './support.ts';
import {
  permutedView,
  slicedView,
  type View,
  wholeView,
  reshapedView,
} from '../src/program/view.ts';

const device = await cpu();
const isNative = device.limits.native.has('attention');
const sessions = onnxFallback(new Sessions(1));

const [B, T, H, D] = [2, 10, 3, 16];
const params = { causal: true, hasKeyRanges: false, scale: 0.3, rounding: 'none' } as const;

/**
 * Splits one tensor of queries, keys and values into heads: [B, T, 3HD] -> three of [B, H, T, D]. The last of them is
 * value 5.
 */
const heads: readonly Instruction[] = [
  { op: 'reshape', params: { shape: [B, T, 3 * H, D] }, inputs: [0], ...f32(B, T, 3 * H, D) },
  { op: 'permute', params: { order: [0, 2, 1, 3] }, inputs: [1], ...f32(B, 3 * H, T, D) },
  ...[0, 1, 2].map((part): Instruction => {
    const [starts, stops] = [
      [0, part * H, 0, 0],
      [B, (part + 1) * H, T, D],
    ];
    return {
      op: 'slice',
      params: { starts, stops, steps: [1, 1, 1, 1] },
      inputs: [2],
      ...f32(B, H, T, D),
    };
  }),
];
const attention = (q: number, k: number, v: number): Instruction => ({
  op: 'attention',
  params,
  inputs: [q, k, v],
  ...f32(B, H, T, D),
});

/** The number of row copies in a program. */
function copiesOf(program: Program): number {
  const { partitions } = analyse(
    program,
    { bf16: true, thin: false, attention: attentionPlanning },
    sessions,
  );
  const calls = partitions.flatMap((partition) =>
    partition.kind === 'kernel' ? partition.plan.calls : [],
  );
  return calls.filter(({ key }) => key.startsWith('copy rows')).length;
}

describe('heads of attention', () => {
  const inputs = [f32(B, T, 3 * H * D)];

  it('are read where they lie, and not copied', () => {
    const instructions = [...heads, attention(3, 4, 5)];
    expect(copiesOf(programOf({ inputs, instructions, outputs: [6] }))).toBe(0);
  });

  it('are copied where the program gives them away, or another op reads them', () => {
    const instructions = [...heads, attention(3, 4, 5)];
    expect(copiesOf(programOf({ inputs, instructions, outputs: [6, 4] }))).toBeGreaterThan(0);
    const square: Instruction = { op: 'mul', params: {}, inputs: [4, 4], ...f32(B, H, T, D) };
    const both = programOf({ inputs, instructions: [...instructions, square], outputs: [6, 7] });
    expect(copiesOf(both)).toBeGreaterThan(0);
  });

  it('are copied where attention does not read all of the value, which would stay in memory for them', () => {
    const instructions = [...heads, attention(3, 4, 4)];
    expect(copiesOf(programOf({ inputs, instructions, outputs: [6] }))).toBeGreaterThan(0);
  });

  /** Returns attention, and the gradient of the tensor that queries, keys and values are parts of. */
  async function attend(
    split: (x: Tensor) => readonly Tensor[],
    { half, keepsCopies }: { readonly half: boolean; readonly keepsCopies: boolean },
  ): Promise<readonly number[][]> {
    setRank({ device: await cpu() });
    const data = Float32Array.from({ length: B * T * 3 * H * D }, (_, i) =>
      Math.sin(i * 1.7 + (i % 13)),
    );
    const x = fromData(data, [B, T, 3 * H * D], 'f32').requiresGrad_();
    const [q, k, v] = split(half ? x.to('bf16') : x);
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three parts');
    const forward = (): Tensor =>
      nn.functional.scaledDotProductAttention(q, k, v, { causal: true });
    const y = half ? autocast({}, forward) : forward();
    y.to('f32').square().sum().backward();
    const wanted = [y, x.grad ?? y, ...(keepsCopies ? [q, k, v] : [])];
    const read = await Promise.all(wanted.map((tensor) => tensor.to('f32').data()));
    return read.slice(0, 2).map((values) => Array.from(values, Number));
  }

  const ways: Readonly<Record<string, (x: Tensor) => readonly Tensor[]>> = {
    'permuted and then split': (x) =>
      x
        .reshape([B, T, 3 * H, D])
        .transpose(1, 2)
        .split(H, 1),
    'split and then permuted': (x) =>
      x.split(H * D, 2).map((part) => part.reshape([B, T, H, D]).transpose(1, 2)),
    'neighbours of each other': (x) =>
      x
        .reshape([B, T, H, 3 * D])
        .transpose(1, 2)
        .split(D, 3),
  };

  it.skipIf(!isNative).each(Object.entries(ways))(
    'give the same bits where they lie and as copies: %s',
    async (_, split) => {
      for (const half of [false, true]) {
        const views = await attend(split, { half, keepsCopies: false });
        expect(views).toEqual(await attend(split, { half, keepsCopies: true }));
        expect(views[0]?.every(Number.isFinite)).toBe(true);
      }
    },
  );
});

describe('gradients of attention', () => {
  /** A program that joins all gradients into value 11. */
  function joined(dtype: 'f32' | 'bf16', outputs: readonly number[]): Program {
    const typed = (...shape: number[]) => ({ shape, dtype });
    const type = typed(B, H, T, D);
    const rows = f32(B, H, T);
    const rounding = dtype === 'bf16' ? dtype : 'none';
    const gradients = (
      ['attentionQueryGrad', 'attentionKeyGrad', 'attentionValueGrad'] as const
    ).map((op): Instruction => ({
      op,
      params: { ...params, rounding },
      inputs: [0, 1, 2, 3, 4, 5],
      ...type,
    }));
    const instructions: readonly Instruction[] = [
      ...gradients,
      { op: 'concat', params: { dim: 1 }, inputs: [6, 7, 8], ...typed(B, 3 * H, T, D) },
      { op: 'permute', params: { order: [0, 2, 1, 3] }, inputs: [9], ...typed(B, T, 3 * H, D) },
      {
        op: 'reshape',
        params: { shape: [B * T, 3 * H * D] },
        inputs: [10],
        ...typed(B * T, 3 * H * D),
      },
    ];
    return programOf({ inputs: [type, type, type, type, rows, rows], instructions, outputs });
  }

  it('are written where the program puts them together, and not copied', () => {
    expect(copiesOf(joined('f32', [11]))).toBe(0);
    expect(copiesOf(joined('bf16', [11]))).toBe(0);
  });

  it('are copied where the program gives one of them away', () => {
    expect(copiesOf(joined('f32', [11, 7]))).toBeGreaterThan(0);
  });

  /**
   * Returns the gradients with respect to queries, keys and values. If `joins` is true, they are parts of one tensor,
   * and the result is the gradient of that tensor.
   */
  async function gradientsOf(
    queries: number,
    causal: boolean,
    { joins, half }: { readonly joins: boolean; readonly half: boolean },
  ): Promise<number[]> {
    setRank({ device: await cpu() });
    const narrowed = (x: Tensor): Tensor => (half ? x.to('bf16') : x);
    const shape = [B, queries, 3 * H * D];
    const length = B * queries * 3 * H * D;
    const whole = fromData(
      Float32Array.from({ length }, (_, i) => Math.sin(i * 1.7 + (i % 13))),
      shape,
      'f32',
    );
    const split = (x: Tensor): readonly Tensor[] =>
      x
        .reshape([B, queries, 3 * H, D])
        .transpose(1, 2)
        .split(H, 1);
    const parts = split(narrowed(joins ? whole.requiresGrad_() : whole));
    const leaves = joins
      ? parts
      : await Promise.all(
          parts.map(async (part) =>
            fromData(
              Float32Array.from(await part.to('f32').data(), Number),
              part.shape,
              'f32',
            ).requiresGrad_(),
          ),
        );
    const [q, k, v] = joins ? leaves : leaves.map(narrowed);
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three parts');
    const y = autocast({ enabled: half }, () =>
      nn.functional.scaledDotProductAttention(q, k, v, { causal }),
    );
    y.to('f32').square().sum().backward();
    if (joins) return Array.from(await (whole.grad ?? whole).data(), Number);
    // The index in the whole tensor of each element of a part.
    const places = split(
      fromData(
        Float32Array.from({ length }, (_, i) => i),
        shape,
        'f32',
      ),
    );
    const made = Array.from({ length }, () => NaN);
    for (const [index, leaf] of leaves.entries()) {
      const [at, values] = [await places[index]?.data(), await leaf.grad?.data()];
      values?.forEach((value: number | bigint, element: number) => {
        made[Number(at?.[element])] = Number(value);
      });
    }
    return made;
  }

  it.skipIf(!isNative).each([
    [10, true],
    [10, false],
    [300, true],
  ])(
    'of %d tokens have the same bits as those by tensors of their own',
    async (queries, causal) => {
      for (const half of [false, true]) {
        const together = await gradientsOf(queries, causal, { joins: true, half });
        expect(together).toEqual(await gradientsOf(queries, causal, { joins: false, half }));
        expect(together.every(Number.isFinite)).toBe(true);
      }
    },
  );
});

describe('a view with other dims', () => {
  /** The memory positions of the elements of a view, in the order of their indices. */
  function placesOf({ elementOffset, dims }: View): number[] {
    return dims.reduce(
      (places, { size, stride }) =>
        places.flatMap((place) => Array.from({ length: size }, (_, at) => place + at * stride)),
      [elementOffset],
    );
  }

  it('has the same elements in the same order, where it has strides', () => {
    const sizes = fc.array(fc.constantFrom<number>(1, 2, 3, 4, 6), { minLength: 1, maxLength: 4 });
    let made = 0;
    fc.assert(
      fc.property(sizes, sizes, fc.nat(5), fc.boolean(), (shape, other, seed, cuts) => {
        const order = shape.map((_, dim) => (dim + seed) % shape.length);
        const permuted = permutedView(wholeView(shape), order);
        const cut = permuted.dims.map(({ size }) => (cuts ? Math.ceil(size / 2) : size));
        const view = slicedView(
          permuted,
          cut.map((size, dim) => (permuted.dims[dim]?.size ?? 1) - size),
          cut,
        );
        const count = cut.reduce((product, size) => product * size, 1);
        const rest = other.reduce((product, size) => product * size, 1);
        const target = count % rest === 0 ? [...other, count / rest] : [count];
        const reshaped = reshapedView(view, target);
        if (reshaped === undefined) return;
        made++;
        expect(reshaped.dims.map(({ size }) => size)).toEqual(target);
        expect(placesOf(reshaped)).toEqual(placesOf(view));
      }),
      { numRuns: 300 },
    );
    expect(made).toBeGreaterThan(100);
  });

  it('splits a dim of a part, and joins dims that follow each other', () => {
    const part = slicedView(wholeView([2, 5, 12]), [0, 0, 4], [2, 5, 4]);
    expect(reshapedView(part, [2, 5, 2, 2])?.dims.map(({ stride }) => stride)).toEqual([
      60, 12, 2, 1,
    ]);
    expect(reshapedView(part, [10, 4])?.dims.map(({ stride }) => stride)).toEqual([12, 1]);
    expect(reshapedView(part, [2, 20])).toBeUndefined();
  });
});
