import { formatLayout } from '@shardwise/core';
import type { Layout, MeshAxis } from '@shardwise/core';
import { layoutOf, propagateLayouts, type OpCall } from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';

const axes: readonly MeshAxis[] = [
  { name: 'dp', size: 2 },
  { name: 'tp', size: 2 },
];
const matmul: OpCall = { op: 'matmul', transposeB: false };

type Case = readonly [readonly number[], Layout];

function rule(call: OpCall, ...inputs: readonly Case[]): string {
  const placed = inputs.map(([shape, layout]) => ({ shape, layout }));
  const { inputs: plans, output } = propagateLayouts(call, placed, axes);
  const moves = plans.map(({ steps }) => steps.map(({ move }) => move.operation).join(' ') || '-');
  return `${moves.join(', ')} => [${output.shape.join(', ')}] ${formatLayout(output.layout)}`;
}

describe('the layouts of ops', () => {
  it("the layouts of ops have Megatron's column and row parallel products as two matmuls", () => {
    const x: Case = [[8, 4], layoutOf(['dp', null])];
    expect(rule(matmul, x, [[4, 16], layoutOf([null, 'tp'])])).toBe(
      '-, - => [8, 16] shard(0: dp) shard(1: tp)',
    );
    const hidden: Case = [[8, 16], layoutOf(['dp', 'tp'])];
    expect(rule(matmul, hidden, [[16, 4], layoutOf(['tp', null])])).toBe(
      '-, - => [8, 4] shard(0: dp) partial(tp)',
    );
  });

  it('let the smaller input follow the larger one, for free where it is whole', () => {
    const x: Case = [[8, 4], layoutOf(['dp', 'tp'])];
    expect(rule(matmul, x, [[4, 2], layoutOf([null, null])])).toBe(
      '-, slice => [8, 2] shard(0: dp) partial(tp)',
    );
    expect(rule({ op: 'add' }, x, [[4], layoutOf(['dp'])])).toBe(
      '-, allGather slice => [8, 4] shard(0: dp) shard(1: tp)',
    );
  });

  it('the layouts of ops keep partial sums as long as the op is linear in them', () => {
    const partial: Case = [[8, 4], layoutOf([null, null], ['tp'])];
    const whole: Case = [[8, 4], layoutOf([null, null])];
    expect(rule({ op: 'neg' }, partial)).toBe('- => [8, 4] partial(tp)');
    expect(rule({ op: 'add' }, partial, partial)).toBe('-, - => [8, 4] partial(tp)');
    expect(rule({ op: 'add' }, partial, whole)).toBe('allReduce, - => [8, 4] replicate');
    expect(rule({ op: 'mul' }, partial, whole)).toBe('-, - => [8, 4] partial(tp)');
    expect(rule({ op: 'mul' }, partial, partial)).toBe('allReduce, allReduce => [8, 4] replicate');
    expect(rule({ op: 'div' }, whole, partial)).toBe('-, allReduce => [8, 4] replicate');
    expect(rule({ op: 'withNumber', binary: 'add', value: 1 }, partial)).toBe(
      'allReduce => [8, 4] replicate',
    );
    expect(rule({ op: 'relu' }, partial)).toBe('allReduce => [8, 4] replicate');
  });

  it('reduce partial sums into the shards of the other input', () => {
    expect(
      rule(
        { op: 'add' },
        [[8, 4], layoutOf(['tp', null])],
        [[8, 4], layoutOf([null, null], ['tp'])],
      ),
    ).toBe('-, reduceScatter => [8, 4] shard(0: tp)');
  });

  it('the layouts of ops sum sharded dims to partial sums', () => {
    expect(rule({ op: 'sum', dims: [0], keepDim: true }, [[8, 4], layoutOf(['dp', 'tp'])])).toBe(
      '- => [1, 4] shard(1: tp) partial(dp)',
    );
  });

  it('look up rows in a sharded vocabulary as a partial sum', () => {
    const indices: Case = [[3, 5], layoutOf(['dp', null])];
    expect(rule({ op: 'embedding' }, indices, [[10, 4], layoutOf(['tp', null])])).toBe(
      '-, - => [3, 5, 4] shard(0: dp) partial(tp)',
    );
    expect(rule({ op: 'embedding' }, indices, [[10, 4], layoutOf([null, 'tp'])])).toBe(
      '-, - => [3, 5, 4] shard(0: dp) shard(2: tp)',
    );
  });

  it('the layouts of ops refuse a sharded dim that each rank needs whole, with the layouts and a remedy', () => {
    expect(() => rule({ op: 'softmax', dim: 1 }, [[8, 4], layoutOf(['dp', 'tp'])])).toThrow(
      'softmax of [8, 4] shard(0: dp) shard(1: tp): dim 1 of input 0, of size 4, is sharded over tp, and each rank needs all of it. Redistribute that input to shard(0: dp)',
    );
    expect(() =>
      rule(
        { op: 'layerNorm', eps: 1e-5 },
        [[8, 4], layoutOf(['dp', null])],
        [[4], layoutOf(['tp'])],
        [[4], layoutOf([null])],
      ),
    ).toThrow('dim 0 of input 1');
  });

  it('the layouts of ops refuse shapes that do not fit, and layouts that do not fit the mesh', () => {
    expect(() =>
      rule(matmul, [[8, 4], layoutOf([null, null])], [[5, 2], layoutOf([null, null])]),
    ).toThrow('matmul of shapes [8, 4], [5, 2]: sizes 4 and 5 of one dim');
    expect(() => rule(matmul, [[4], layoutOf([null])], [[4, 2], layoutOf([null, null])])).toThrow(
      '1 dims of input 0, where 2 are needed',
    );
    expect(() => rule({ op: 'neg' }, [[8], layoutOf(['pp'])])).toThrow("the axis 'pp'");
  });
});
