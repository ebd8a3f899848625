import type { Instruction, Program } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { analyse } from '../src/plan/analyse.ts';
import { onnxFallback } from '../src/engines/onnx/onnx-fallback.ts';
import { Sessions } from '../src/engines/onnx/sessions.ts';
import type { Dataflow } from '../src/program/dataflow.ts';
import type { KernelSupport } from '../src/plan/partition/kernel-support.ts';
import { partitionProgram } from '../src/plan/partition/partition.ts';
import { completePartitions } from '../src/plan/partition/complete-partitions.ts';
import { simplify } from '../src/plan/simplify/simplify.ts';
import type { CpuProgram } from '../src/program/instruction.ts';
import { locate } from '../src/plan/storage.ts';
import { dataflowOf } from '../src/plan/partition/dataflow-of.ts';
import { binary, constant, f32, matmul, programOf, unary } from './support.ts';
import type { CompletePartition } from '../src/program/partition.ts';

const sessions = onnxFallback(new Sessions(1));

/** Kernels take elementwise instructions, lazy ones included. */
const support: KernelSupport = {
  computes: ({ op }) => op !== 'matmul' && op !== 'sin',
  fuses: ({ op }) => op !== 'matmul' && op !== 'sin',
  partitionsOf: (instructions) => instructions.map((instruction) => [instruction]),
  multiplies: () => false,
  fallback: sessions,
};

/** The tensor is large enough for a kernel. */
const type = f32(100, 100);

function compile(source: Program): {
  program: CpuProgram;
  flow: Dataflow;
  partitions: CompletePartition[];
} {
  const program = simplify(source, null);
  const flow = dataflowOf(program, support);
  return {
    program,
    flow,
    partitions: completePartitions(program, partitionProgram(program, flow, support), flow),
  };
}

function shown({ kind, instructions }: CompletePartition): string {
  return `${kind}: ${instructions.map(({ op, output }) => `${output}=${op}`).join(' ')}`;
}

describe('partitionProgram', () => {
  it('alternates between sessions and kernels in as few partitions as dependencies allow', () => {
    const { partitions } = compile(
      programOf({
        inputs: [type, type],
        instructions: [
          matmul(0, 1, type),
          binary('add', 2, 0, type),
          matmul(1, 0, type),
          binary('mul', 3, 4, type),
          matmul(5, 5, type),
        ],
        outputs: [6],
      }),
    );
    expect(partitions.map(shown)).toEqual([
      'onnx: 2=matmul 4=matmul',
      'kernel: 3=add 5=mul',
      'onnx: 6=matmul',
    ]);
    expect(partitions.map(({ inputs, outputs }) => ({ inputs, outputs }))).toEqual([
      { inputs: [0, 1], outputs: [2, 4] },
      { inputs: [2, 0, 4], outputs: [5] },
      { inputs: [5], outputs: [6] },
    ]);
  });

  it('adds small instructions to whichever partition is being made', () => {
    const small = f32(2, 2);
    const { partitions } = compile(
      programOf({
        inputs: [small],
        instructions: [matmul(0, 0, small), binary('add', 1, 1, small), matmul(2, 2, small)],
        outputs: [3],
      }),
    );
    expect(partitions.map(shown)).toEqual(['onnx: 1=matmul 2=add 3=matmul']);
  });

  it('takes memory for two results in a chain of our own products, however long', () => {
    const bytesOf = (products: number): number => {
      const instructions = Array.from({ length: products }, (_, id) => matmul(id, id, type));
      const program = programOf({ inputs: [type], instructions, outputs: [products] });
      return locate(
        analyse(program, { bf16: false, thin: true, attention: null }, sessions).storage,
      ).scratchBytes;
    };
    const aligned = bytesOf(2);
    expect(aligned).toBeGreaterThanOrEqual(100 * 100 * 4);
    expect([bytesOf(3), bytesOf(100)]).toEqual([2 * aligned, 2 * aligned]);
  });

  it('leaves a lone elementwise instruction between products to their session', () => {
    const { partitions } = compile(
      programOf({
        inputs: [type],
        instructions: [matmul(0, 0, type), unary('exp', 1, type), matmul(2, 2, type)],
        outputs: [3],
      }),
    );
    expect(partitions.map(shown)).toEqual(['onnx: 1=matmul 2=exp 3=matmul']);
  });

  it('fuses neighbouring elementwise instructions between products in a kernel', () => {
    const { partitions } = compile(
      programOf({
        inputs: [type],
        instructions: [
          matmul(0, 0, type),
          unary('exp', 1, type),
          unary('neg', 2, type),
          matmul(3, 3, type),
        ],
        outputs: [4],
      }),
    );
    expect(partitions.map(({ kind }) => kind)).toEqual(['onnx', 'kernel', 'onnx']);
  });

  it('narrows a product in its session, where nothing else reads the narrow values', () => {
    const narrow = (input: number): Instruction => {
      const bf16 = { shape: type.shape, dtype: 'bf16' } as const;
      return { op: 'cast', params: { dtype: 'bf16' }, inputs: [input], ...bf16 };
    };
    const wide: Instruction = { op: 'cast', params: { dtype: 'f32' }, inputs: [2], ...type };
    const partitionsOf = (
      instructions: readonly Instruction[],
      outputs: readonly number[],
    ): string[] =>
      compile(programOf({ inputs: [type], instructions, outputs })).partitions.map(shown);
    expect(partitionsOf([matmul(0, 0, type), narrow(1)], [2])).toEqual(['onnx: 1=matmul 2=cast']);
    expect(partitionsOf([unary('exp', 0, type), narrow(1)], [2])).toEqual(['kernel: 1=exp 2=cast']);
    expect(partitionsOf([matmul(0, 0, type), narrow(1), wide], [2, 3])).toEqual([
      'onnx: 1=matmul',
      'kernel: 2=cast 3=cast',
    ]);
  });

  it('counts what an instruction reads, not only what it makes, as its size', () => {
    const sum: Instruction = { op: 'sum', params: { dims: [0] }, inputs: [1], ...f32(100) };
    const { partitions } = compile(
      programOf({ inputs: [type], instructions: [matmul(0, 0, type), sum], outputs: [2] }),
    );
    expect(partitions.map(shown)).toEqual(['onnx: 1=matmul', 'kernel: 2=sum']);
  });

  it('repeats constants, expands and reshapes in every partition that reads them', () => {
    const row = f32(1, 100);
    const { partitions } = compile(
      programOf({
        inputs: [f32(100), type],
        instructions: [
          { op: 'reshape', params: { shape: row.shape }, inputs: [0], ...row },
          { op: 'expand', params: { shape: type.shape }, inputs: [2], ...type },
          binary('add', 1, 3, type),
          matmul(4, 3, type),
          constant(2, type),
          binary('sub', 5, 6, type),
        ],
        outputs: [7],
      }),
    );
    expect(partitions.map(shown)).toEqual([
      'kernel: 2=reshape 3=expand 4=add',
      'onnx: 3=expand 5=matmul',
      'kernel: 6=constant 7=sub',
    ]);
    expect(partitions.map(({ inputs }) => inputs)).toEqual([[1, 0], [4, 2], [5]]);
  });

  it('leaves what only feeds updates to the last partition', () => {
    const { partitions } = compile(
      programOf({
        inputs: [type, type],
        instructions: [
          binary('mul', 1, 1, type),
          binary('sub', 0, 2, type),
          matmul(0, 1, type),
          unary('neg', 4, type),
        ],
        outputs: [5],
        updates: [{ target: 0, value: 3 }],
      }),
    );
    expect(partitions.map(shown)).toEqual([
      'onnx: 4=matmul',
      'kernel: 5=neg',
      'kernel: 2=mul 3=sub',
    ]);
  });

  it('does not compute long before its turn what is ready', () => {
    const chain = Array.from({ length: 300 }, (_, i) => matmul(i === 0 ? 0 : i, 0, type));
    const late = 301;
    const { partitions } = compile(
      programOf({
        inputs: [type],
        instructions: [...chain, binary('add', 0, 0, type), binary('mul', late, 300, type)],
        outputs: [late + 1],
      }),
    );
    expect(partitions.map(({ kind, instructions }) => `${kind} ${instructions.length}`)).toEqual([
      'onnx 300',
      'kernel 2',
    ]);
  });

  it('converts an input with the product that reads it, however many instructions come between', () => {
    for (const between of [1, 63, 64, 65, 66, 300]) {
      const convert = { op: 'cast', params: { dtype: 'f32' }, inputs: [1], ...type } as const;
      const chain = Array.from({ length: between }, (_, i) =>
        unary('exp', i === 0 ? 0 : 2 + i, type),
      );
      const product = matmul(2 + between, 2, type);
      const { partitions } = compile(
        programOf({
          inputs: [type, { shape: type.shape, dtype: 'i32' }],
          instructions: [convert, ...chain, product],
          outputs: [3 + between],
        }),
      );
      expect(partitions.map(({ kind, instructions }) => `${kind} ${instructions.length}`)).toEqual([
        `kernel ${between + 1}`,
        'onnx 1',
      ]);
    }
  });

  it('gives every instruction exactly one partition, after the partitions that it reads', () => {
    const instruction = (index: number): fc.Arbitrary<Instruction> => {
      const id = fc.nat({ max: index + 1 });
      return fc
        .record({ kind: fc.constantFrom('matmul', 'add', 'sin', 'neg'), a: id, b: id })
        .map(({ kind, a, b }): Instruction => {
          if (kind === 'matmul') return matmul(a, b, type);
          return kind === 'add'
            ? binary('add', a, b, type)
            : unary(kind === 'sin' ? 'sin' : 'neg', a, type);
        });
    };
    const programs = fc.tuple(...Array.from({ length: 30 }, (_, i) => instruction(i)));
    fc.assert(
      fc.property(programs, fc.nat({ max: 29 }), (instructions, updated) => {
        const { program, flow, partitions } = compile(
          programOf({
            inputs: [type, type],
            instructions,
            outputs: [31],
            updates: [{ target: 0, value: 2 + updated }],
          }),
        );
        const available = new Set([0, 1]);
        for (const partition of partitions) {
          expect(partition.inputs.every((id) => available.has(flow.root(id) ?? id))).toBe(true);
          const own = new Set(available);
          for (const instruction of partition.instructions) {
            expect(instruction.inputs.every((id) => own.has(id))).toBe(true);
            expect(own.has(instruction.output)).toBe(false);
            own.add(instruction.output);
          }
          for (const id of partition.outputs) available.add(id);
        }
        const scheduled = partitions.flatMap(({ instructions }) => instructions).length;
        expect(scheduled).toBe(program.instructions.length);
        expect(available.has(31)).toBe(true);
      }),
      { numRuns: 50 },
    );
  });
});
