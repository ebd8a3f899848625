import type { Instruction, Program, Shape, ValueType } from '@shardwise/core/spec';
import { describe, expect, it } from 'vitest';
import { simplify as simplifyFor } from '../src/plan/simplify/simplify.ts';
import type { CpuProgram } from '../src/program/instruction.ts';
import { binary, constant, f32, matmul, programOf, unary } from './support.ts';

const simplify = (program: Program): CpuProgram => simplifyFor(program, null);

function permute(input: number, order: readonly number[], shape: Shape): Instruction {
  return { op: 'permute', params: { order }, inputs: [input], shape, dtype: 'f32' };
}

function pad(input: number, before: number[], after: number[], shape: Shape): Instruction {
  return { op: 'pad', params: { before, after, value: 0 }, inputs: [input], shape, dtype: 'f32' };
}

function ops(instructions: Instruction[], inputs = [f32(2, 3), f32(2, 3)]): string[] {
  const outputs = [inputs.length + instructions.length - 1];
  return simplify(programOf({ inputs, instructions, outputs })).instructions.map(
    ({ op, inputs: from }) => `${op}(${from.join(',')})`,
  );
}

describe('simplify', () => {
  it('drops what nothing reads and what has no elements', () => {
    const empty = f32(0, 3);
    const program = simplify(
      programOf({
        inputs: [f32(3), empty],
        instructions: [unary('neg', 0, f32(3)), unary('neg', 1, empty), unary('exp', 0, f32(3))],
        outputs: [2, 3],
      }),
    );
    expect(program.instructions.map(({ op }) => op)).toEqual(['neg']);
    expect(program.outputs).toEqual([2]);
  });

  it('makes zeros of a product over no elements', () => {
    const product = matmul(0, 1, f32(2, 3));
    expect(ops([product], [f32(2, 0), f32(0, 3)])).toEqual(['constant()']);
  });

  it('makes reshapes of movements that move nothing', () => {
    expect(ops([permute(0, [1, 0, 2], [5, 1, 4])], [f32(1, 5, 4)])).toEqual(['reshape(0)']);
    expect(ops([pad(0, [0, 0], [0, 0], [2, 3])])).toEqual(['reshape(0)']);
  });

  it('lets matmul read transposed operands', () => {
    const program = simplify(
      programOf({
        inputs: [f32(2, 3), f32(2, 3)],
        instructions: [permute(1, [1, 0], [3, 2]), matmul(0, 2, f32(2, 2))],
        outputs: [3],
      }),
    );
    expect(program.instructions).toMatchObject([
      { op: 'matmul', inputs: [0, 1], params: { transposeA: false, transposeB: true } },
    ]);
  });

  it('rounds an input anew for each product, so that 16 bits of all weights are not kept', () => {
    const half = { shape: [4, 4], dtype: 'bf16' } as const;
    const whole = f32(4, 4);
    const cast = (input: number, type: ValueType): Instruction => ({
      op: 'cast',
      params: { dtype: type.dtype },
      inputs: [input],
      ...type,
    });
    const program = programOf({
      inputs: [whole, whole],
      instructions: [
        cast(1, half),
        cast(2, whole),
        matmul(0, 3, whole),
        unary('exp', 4, whole),
        matmul(5, 3, whole),
      ],
      outputs: [6],
    });
    const { instructions } = simplify(program);
    const roundings = instructions.filter(({ op, dtype }) => op === 'cast' && dtype === 'bf16');
    expect(roundings.map(({ inputs }) => inputs)).toEqual([[1], [1]]);
    expect(instructions.map(({ op }) => op)).toEqual(
      ['cast', 'cast', 'matmul', 'exp'].concat(['cast', 'cast', 'matmul']),
    );
  });

  it('makes a concatenation of the gradients of slices', () => {
    const inputs = [f32(2, 3), f32(2, 1), f32(2, 2)];
    const whole = f32(2, 6);
    const slices = [
      pad(2, [0, 4], [0, 0], [2, 6]),
      pad(0, [0, 0], [0, 3], [2, 6]),
      pad(1, [0, 3], [0, 2], [2, 6]),
      binary('add', 4, 5, whole),
      binary('add', 3, 6, whole),
    ];
    expect(ops(slices, inputs)).toEqual(['concat(0,1,2)', 'reshape(9)']);
  });

  it('keeps the sum of slices that overlap', () => {
    const whole = f32(2, 4);
    const slices = [pad(0, [0, 0], [0, 1], [2, 4]), pad(1, [0, 1], [0, 0], [2, 4])];
    expect(ops([...slices, binary('add', 2, 3, whole)])).toEqual(['pad(0)', 'pad(1)', 'add(2,3)']);
  });

  describe('of products of [2, 2]', () => {
    const square = f32(2, 2);
    const bias: Instruction[] = [
      { op: 'reshape', params: { shape: [1, 2] }, inputs: [2], ...f32(1, 2) },
      { op: 'expand', params: { shape: [2, 2] }, inputs: [3], ...square },
    ];
    const inputs = [square, square, f32(2)];
    const stepsOf = (instructions: Instruction[], more: readonly number[] = []) =>
      simplify(
        programOf({ inputs, instructions, outputs: [2 + instructions.length, ...more] }),
      ).instructions.filter(({ op }) => op !== 'constant');

    it('scales in the matmul by the constant factors of operands and result', () => {
      const instructions = stepsOf([
        constant(0.5, square),
        binary('mul', 0, 3, square),
        matmul(4, 1, square),
        binary('mul', 3, 5, square),
      ]);
      expect(instructions).toMatchObject([
        { op: 'matmul', inputs: [0, 1], params: { scale: 0.25 } },
      ]);
    });

    it('adds a bias in the matmul', () => {
      const instructions = stepsOf([...bias, matmul(0, 1, square), binary('add', 4, 5, square)]);
      expect(instructions).toMatchObject([
        { op: 'reshape' },
        { op: 'expand' },
        { op: 'matmul', inputs: [0, 1, 4] },
      ]);
    });

    it('keeps a scale outside that comes after the bias', () => {
      const instructions = stepsOf([
        ...bias,
        matmul(0, 1, square),
        binary('add', 5, 4, square),
        constant(3, square),
        binary('mul', 6, 7, square),
      ]);
      expect(instructions.map(({ op }) => op)).toEqual(['reshape', 'expand', 'matmul', 'mul']);
    });

    it('keeps a product that is read elsewhere', () => {
      const instructions = stepsOf(
        [...bias, matmul(0, 1, square), binary('add', 5, 4, square)],
        [5],
      );
      expect(instructions.map(({ op }) => op)).toEqual(['reshape', 'expand', 'matmul', 'add']);
    });

    it('does not hide an infinite factor', () => {
      const instructions = stepsOf([
        constant(Infinity, square),
        matmul(0, 1, square),
        binary('mul', 4, 3, square),
      ]);
      expect(instructions.map(({ op }) => op)).toEqual(['matmul', 'mul']);
    });
  });
});
