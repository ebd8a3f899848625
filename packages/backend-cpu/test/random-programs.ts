import type { Instruction, Program } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { binary, constant, f32, programOf, unary } from './support.ts';

/** The matrices are large enough for fused kernels of their own. */
export const side = 66;
export const elements = side * side;
export const type = f32(side, side);
export const inputCount = 3;

export type Operation = (a: number, b: number, next: number) => Instruction[];

/**
 * Each operation takes two matrices and appends instructions. The last one computes its result, which is a matrix too.
 */
export const operations: Readonly<Record<string, Operation>> = {
  add: (a, b) => [binary('add', a, b, type)],
  sub: (a, b) => [binary('sub', a, b, type)],
  half: (a, _, next) => [constant(0.5, type), binary('mul', a, next, type)],
  neg: (a) => [unary('neg', a, type)],
  // The product reads views where they lie in memory, and a constant that has no place before the product.
  product: (a, b, next) => [
    {
      op: 'slice',
      params: { starts: [0, 3], stops: [side, 4], steps: [1, 1] },
      inputs: [a],
      ...f32(side, 1),
    },
    { op: 'expand', params: type, inputs: [next], ...type },
    constant(1 / 64, type),
    binary('mul', b, next + 2, type),
    {
      op: 'matmul',
      params: { transposeA: false, transposeB: true },
      inputs: [next + 1, next + 3],
      ...type,
    },
  ],
  sums: (a, _, next) => [
    constant(1 / side, type),
    { op: 'matmul', params: { transposeA: true, transposeB: false }, inputs: [a, next], ...type },
  ],
  // This runs in ONNX Runtime or in JavaScript loops.
  sine: (a) => [unary('sin', a, type)],
  repeated: (a, b, next) => [
    { op: 'reshape', params: { shape: [6, 11, 66] }, inputs: [a], ...f32(6, 11, 66) },
    {
      op: 'slice',
      params: { starts: [0, 2, 0], stops: [6, 3, 66], steps: [1, 1, 1] },
      inputs: [next],
      ...f32(6, 1, 66),
    },
    { op: 'expand', params: { shape: [6, 11, 66] }, inputs: [next + 1], ...f32(6, 11, 66) },
    { op: 'reshape', params: { shape: [side, side] }, inputs: [next + 2], ...type },
    unary('sin', next + 3, type),
    binary('add', next + 4, b, type),
  ],
  transpose: (a) => [{ op: 'permute', params: { order: [1, 0] }, inputs: [a], ...type }],
  // This has a kernel of its own.
  cumsum: (a) => [{ op: 'cumsum', params: { dim: 0, reverse: false }, inputs: [a], ...type }],
  // These are lazy steps around a reduction.
  rowMax: (a, b, next) => [
    { op: 'max', params: { dims: [1] }, inputs: [a], ...f32(side) },
    { op: 'reshape', params: { shape: [side, 1] }, inputs: [next], ...f32(side, 1) },
    { op: 'expand', params: type, inputs: [next + 1], ...type },
    binary('sub', b, next + 2, type),
  ],
  columnMax: (a, b, next) => [
    { op: 'max', params: { dims: [0] }, inputs: [a], ...f32(side) },
    { op: 'reshape', params: { shape: [1, side] }, inputs: [next], ...f32(1, side) },
    { op: 'expand', params: type, inputs: [next + 1], ...type },
    binary('sub', b, next + 2, type),
  ],
  flatten: (a, b, next) => [
    { op: 'reshape', params: { shape: [elements] }, inputs: [a], ...f32(elements) },
    unary('neg', next, f32(elements)),
    { op: 'reshape', params: { shape: type.shape }, inputs: [next + 1], ...type },
    binary('add', next + 2, b, type),
  ],
};

/** Programs of these operations, whose outputs, updates and operands are drawn. */
export function randomPrograms(of: Readonly<Record<string, Operation>>): fc.Arbitrary<Program> {
  const choices = fc.array(
    fc.record({
      operation: fc.constantFrom(...Object.values(of)),
      a: fc.nat(),
      b: fc.nat(),
      isOutput: fc.boolean(),
    }),
    { minLength: 1, maxLength: 12 },
  );
  return fc
    .tuple(choices, fc.array(fc.nat(), { maxLength: inputCount }), fc.subarray([0, 1, 2]))
    .map(([steps, updateValues, inputOutputs]) => {
      const instructions: Instruction[] = [];
      const matrices = [0, 1, 2];
      const outputs = [...inputOutputs];
      const pick = (n: number): number => matrices[n % matrices.length] ?? 0;
      for (const { operation, a, b, isOutput } of steps) {
        const next = inputCount + instructions.length;
        instructions.push(...operation(pick(a), pick(b), next));
        const result = inputCount + instructions.length - 1;
        matrices.push(result);
        if (isOutput) outputs.push(result);
      }
      const results = matrices.slice(inputCount);
      const updates = updateValues.flatMap((n, target) => {
        const value = results[n % results.length];
        return value === undefined ? [] : [{ target, value }];
      });
      return programOf({ inputs: [type, type, type], instructions, outputs, updates });
    });
}
