import type { Instruction } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { type Bounds, boundsOf } from '../src/program/bounds.ts';
import { Values } from '../src/program/values.ts';

const i32 = { shape: [4], dtype: 'i32' } as const;
const ofInputs: readonly Bounds[] = [
  { least: 0, greatest: 9 },
  { least: -3, greatest: 5 },
];

/** Returns the bounds of an instruction's result. The inputs are in 0 to 9, in -3 to 5, and unknown. */
function bounds(instruction: Instruction): Bounds | undefined {
  const values = new Values({ inputs: [i32, i32, i32], instructions: [instruction] });
  return boundsOf(values, 3, (input) => ofInputs[input]);
}

const binary = (op: 'add' | 'sub' | 'mul' | 'maximum' | 'div', a: number, b: number) =>
  bounds({ op, params: {}, inputs: [a, b], ...i32 });

describe('bounds of integers', () => {
  it("follow from the bounds of an instruction's inputs", () => {
    expect(binary('add', 0, 1)).toEqual({ least: -3, greatest: 14 });
    expect(binary('sub', 0, 1)).toEqual({ least: -5, greatest: 12 });
    expect(binary('mul', 0, 1)).toEqual({ least: -27, greatest: 45 });
    expect(binary('maximum', 0, 1)).toEqual({ least: 0, greatest: 9 });
  });

  it('follow from sizes for iota and argSort', () => {
    const shape = [3, 4];
    const iota = {
      op: 'iota',
      params: { dim: 1, shape },
      inputs: [],
      shape,
      dtype: 'i32',
    } as const;
    expect(bounds(iota)).toEqual({ least: 0, greatest: 3 });
    const params = { dim: 0, descending: false };
    expect(bounds({ op: 'argSort', params, inputs: [2], ...i32 })).toEqual({
      least: 0,
      greatest: 3,
    });
  });

  it('are those of all values that may have been taken, or copied', () => {
    const concat = { op: 'concat', params: { dim: 0 }, shape: [8], dtype: 'i32' } as const;
    expect(bounds({ ...concat, inputs: [0, 1] })).toEqual({ least: -3, greatest: 9 });
    expect(bounds({ ...concat, inputs: [0, 2] })).toBeUndefined();
  });

  it('are not known of what may wrap around, of floats, and of what has no rule', () => {
    const values = new Values({
      inputs: [i32],
      instructions: [{ op: 'add', params: {}, inputs: [0, 0], ...i32 }],
    });
    const huge = { least: 0, greatest: 2 ** 31 - 1 };
    expect(boundsOf(values, 1, () => huge)).toBeUndefined();
    const cast = new Values({
      inputs: [{ shape: [4], dtype: 'f32' }],
      instructions: [{ op: 'cast', params: { dtype: 'i32' }, inputs: [0], ...i32 }],
    });
    expect(boundsOf(cast, 1, () => huge)).toBeUndefined();
    expect(binary('div', 0, 1)).toBeUndefined();
  });
});
