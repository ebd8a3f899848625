import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { layoutOf } from '../src/distributed/layout-of.ts';
import { planRedistribution } from '../src/distributed/plan-redistribution.ts';
import { propagateLayouts } from '../src/distributed/propagate-layouts.ts';
import { ops } from '../src/graph/ops/ops.ts';
import { none } from '../src/graph/node.ts';
import { chunksOf, type PlaceOf } from '../src/layout/chunks.ts';
import { formatLayout } from '../src/layout/layout.ts';
import type { Shape } from '../src/spec/dtype.ts';
import { LayoutError } from '../src/spec/errors.ts';
import type { Layout } from '../src/spec/layout.ts';
import type { MeshAxis } from '../src/spec/mesh.ts';
import type { Op, OpParams } from '../src/spec/op.ts';

const axes: readonly MeshAxis[] = [
  { name: 'dp', size: 2 },
  { name: 'tp', size: 2 },
];
const product = { transposeA: false, transposeB: false };

type Case = readonly [shape: Shape, layout: Layout, dtype?: 'i32'];

/** The moves of each input, and the shape and the layout of the result. */
function rule<K extends Op>(op: K, params: OpParams[K], ...inputs: readonly Case[]): string {
  const placed = inputs.map(([shape, layout, dtype = 'f32' as const]) => ({
    shape,
    layout,
    dtype,
  }));
  const result = ops[op].infer(params, placed, op);
  const { inputs: wanted, output } = propagateLayouts(op, params, placed, result, axes);
  const moves = placed.map(({ layout, shape }, index) => {
    const { steps } = planRedistribution(layout, wanted[index] ?? layout, shape, axes);
    return steps.map(({ move }) => move.operation).join(' ') || '-';
  });
  return `${moves.join(', ')} => [${result.shape.join(', ')}] ${formatLayout(output)}`;
}

describe('layouts go through an op by the factors of its dims', () => {
  const whole: Case = [[8, 4], layoutOf([null, null])];
  const partial: Case = [[8, 4], layoutOf([null, null], ['tp'])];

  it("so that Megatron's column and row parallel products are two matmuls", () => {
    const x: Case = [[8, 4], layoutOf(['dp', null])];
    expect(rule('matmul', product, x, [[4, 16], layoutOf([null, 'tp'])])).toBe(
      '-, - => [8, 16] shard(0: dp) shard(1: tp)',
    );
    const hidden: Case = [[8, 16], layoutOf(['dp', 'tp'])];
    expect(rule('matmul', product, hidden, [[16, 4], layoutOf(['tp', null])])).toBe(
      '-, - => [8, 4] shard(0: dp) partial(tp)',
    );
  });

  it('and the smaller input follows the larger one, for free where it is whole', () => {
    const x: Case = [[8, 4], layoutOf(['dp', 'tp'])];
    expect(rule('matmul', product, x, [[4, 2], layoutOf([null, null])])).toBe(
      '-, slice => [8, 2] shard(0: dp) partial(tp)',
    );
    expect(
      rule('layerNorm', { eps: 1e-5 }, whole, [[4], layoutOf([null])], [[4], layoutOf([null])]),
    ).toBe('-, -, - => [8, 4] replicate');
  });

  it('and partial sums stay what they are as long as the op is linear in them', () => {
    expect(rule('neg', none, partial)).toBe('- => [8, 4] partial(tp)');
    expect(rule('add', none, partial, partial)).toBe('-, - => [8, 4] partial(tp)');
    expect(rule('add', none, partial, whole)).toBe('allReduce, - => [8, 4] replicate');
    expect(rule('mul', none, partial, whole)).toBe('-, - => [8, 4] partial(tp)');
    expect(rule('mul', none, partial, partial)).toBe('allReduce, allReduce => [8, 4] replicate');
    expect(rule('div', none, whole, partial)).toBe('-, allReduce => [8, 4] replicate');
    expect(rule('relu', none, partial)).toBe('allReduce => [8, 4] replicate');
  });

  it('except in a cast, because a sum of rounded terms is not the rounded sum', () => {
    expect(rule('cast', { dtype: 'bf16' }, partial)).toBe('allReduce => [8, 4] replicate');
    expect(rule('cast', { dtype: 'f32' }, partial)).toBe('- => [8, 4] partial(tp)');
  });

  it('and partial sums are reduced into the shards of the other input', () => {
    expect(rule('add', none, [[8, 4], layoutOf(['tp', null])], partial)).toBe(
      '-, reduceScatter => [8, 4] shard(0: tp)',
    );
  });

  it('and a sum over sharded dims is a partial sum', () => {
    expect(rule('sum', { dims: [0] }, [[8, 4], layoutOf(['dp', 'tp'])])).toBe(
      '- => [4] shard(0: tp) partial(dp)',
    );
  });

  it('and rows are looked up in a sharded vocabulary as a partial sum', () => {
    const indices: Case = [[6], layoutOf(['dp']), 'i32'];
    expect(rule('indexSelect', { dim: 0 }, [[10, 4], layoutOf(['tp', null])], indices)).toBe(
      '-, - => [6, 4] shard(0: dp) partial(tp)',
    );
    expect(rule('indexSelect', { dim: 0 }, [[10, 4], layoutOf([null, 'tp'])], indices)).toBe(
      '-, - => [6, 4] shard(0: dp) shard(1: tp)',
    );
  });

  it('and heads are divided where those of keys are, as many query heads as read them', () => {
    const params = { causal: true, hasKeyRanges: false, scale: 1, rounding: 'none' } as const;
    const query: Case = [[3, 8, 5, 4], layoutOf(['dp', 'tp', null, null])];
    const keys: Case = [[3, 2, 5, 4], layoutOf(['dp', null, null, null])];
    expect(rule('attention', params, query, keys, keys)).toBe(
      '-, slice, slice => [3, 8, 5, 4] shard(0: dp) shard(1: tp)',
    );
  });

  it('and a sharded dim that each rank needs whole is refused, with the layouts and a remedy', () => {
    expect(() => rule('softmax', none, [[8, 4], layoutOf(['dp', 'tp'])])).toThrow(
      'softmax of [8, 4] shard(0: dp) shard(1: tp): dim 1 of input 0, of size 4, is sharded over tp, and each rank needs all of it. Redistribute that input to shard(0: dp)',
    );
    expect(() =>
      rule(
        'layerNorm',
        { eps: 1e-5 },
        [[8, 4], layoutOf(['dp', null])],
        [[4], layoutOf(['tp'])],
        [[4], layoutOf([null])],
      ),
    ).toThrow('dim 0 of input 1');
  });
});

describe('dims that are regrouped keep the elements of every rank', () => {
  const mesh = [
    { name: 'a', size: 2 },
    { name: 'b', size: 3 },
  ];
  const places = mesh[0]!.size * mesh[1]!.size;
  const placeAt =
    (rank: number): PlaceOf =>
    (axis) =>
      axis === 'a' ? { size: 2, rank: Math.floor(rank / 3) } : { size: 3, rank: rank % 3 };
  const factors = fc.array(fc.constantFrom(1, 2, 3, 4, 6), { minLength: 1, maxLength: 5 });
  /** Joins neighbouring factors to dims. `joins` says which of them. */
  const joined = (sizes: readonly number[], joins: readonly boolean[]): Shape =>
    sizes.reduce<number[]>((shape, size, index) => {
      if (index > 0 && joins[index] === true) shape[shape.length - 1]! *= size;
      else shape.push(size);
      return shape;
    }, []);
  const flags = fc.array(fc.boolean(), { minLength: 5, maxLength: 5 });
  const drawn = fc.record({ sizes: factors, from: flags, to: flags, a: fc.nat(9), b: fc.nat(9) });

  /** The flat indices of the elements of a place, in the order of its part. */
  const elements = (shape: Shape, layout: Layout, placeOf: PlaceOf): readonly number[] =>
    chunksOf(shape, layout, placeOf).flatMap(({ box, start, stop }) => {
      const own = box.reduce<readonly number[]>(
        (flat, range, dim) =>
          flat.flatMap((index) =>
            Array.from(
              { length: range.stop - range.start },
              (_, at) => index * (shape[dim] ?? 1) + range.start + at,
            ),
          ),
        [0],
      );
      return own.slice(start, stop);
    });

  it('in any order of axes, with parts of sections, and uneven parts of the outermost dim', () => {
    let [kept, refused] = [0, 0];
    fc.assert(
      fc.property(drawn, ({ sizes, from, to, a, b }) => {
        const [shape, output] = [joined(sizes, from), joined(sizes, to)];
        const dims = shape.map((_, dim) => [
          ...(a % (shape.length + 1) === dim ? ['a'] : []),
          ...(b % (shape.length + 1) === dim ? ['b'] : []),
        ]);
        const layout = { dims, partial: [] };
        const result = { shape: output, dtype: 'f32' } as const;
        try {
          const rules = propagateLayouts(
            'reshape',
            { shape: output },
            [{ shape, layout, dtype: 'f32' }],
            result,
            mesh,
          );
          for (let rank = 0; rank < places; rank++) {
            // The op is computed on the parts that the rule wants, which redistribution brings.
            const before = elements(shape, rules.inputs[0]!, placeAt(rank));
            expect(elements(output, rules.output, placeAt(rank))).toEqual(before);
          }
          // A dim of one index is gathered. All others stay where they are.
          if (!dims.some((own, dim) => own.length > 0 && shape[dim] === 1)) {
            expect(rules.inputs[0]).toEqual(layout);
          }
          kept++;
        } catch (error) {
          if (!(error instanceof LayoutError)) throw error;
          refused++;
        }
      }),
      { numRuns: 1000, seed: 40 },
    );
    expect(refused / (kept + refused)).toBeLessThan(0.3);
  });
});
