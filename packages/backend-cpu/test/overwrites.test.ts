import type { Instruction, Program } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CpuParts } from '../src/cpu-backend.ts';
import { Arena } from '../src/memory/arena.ts';
import { createMemory } from '../src/memory/create-memory.ts';
import { Scratch } from '../src/memory/scratch.ts';
import { nativeParts } from '../src/native-parts.ts';
import { analyse, type Analysis } from '../src/plan/analyse.ts';
import { locate, type Locations } from '../src/plan/storage.ts';
import { acquire, type CompileHost, ownProducts, targetOf } from '../src/run/compile.ts';
import { CpuExecutable } from '../src/run/executable.ts';
import { link, linkPartition } from '../src/run/link.ts';
import { WorkQueue } from '../src/run/work-queue.ts';
import { wasmParts } from '../src/wasm-parts.ts';
import {
  elements,
  inputCount,
  type Operation,
  operations,
  randomPrograms,
  side,
  type,
} from './random-programs.ts';
import { binary, bytesOf, f32, matmul, programOf, unary } from './support.ts';

const memoryBytes = 2 ** 26;
const parts: Readonly<Record<string, () => CpuParts>> = {
  cpu: () =>
    nativeParts(new Arena(createMemory(memoryBytes)), {
      threads: 1,
      products: 'own',
      instructions: 'AMX-BF16',
      loops: 'own',
    }),
  'cpu with two threads': () =>
    nativeParts(new Arena(createMemory(memoryBytes)), {
      threads: 2,
      products: 'own',
      instructions: 'AVX2',
      loops: 'own',
    }),
  wasm: () => wasmParts(new Arena(createMemory(memoryBytes)), 'it was asked for'),
};

function hostOf({ arena, products, loops, fallback }: CpuParts): CompileHost {
  const shared = { arena, scratch: new Scratch(arena), queue: new WorkQueue() };
  return { ...shared, products, loops: loops.code, fallback };
}

/** The places of a program's values, and those that they would have if no value were written over another. */
function placesOf(analysis: Analysis): { readonly over: Locations; readonly apart: Locations } {
  const { storage } = analysis;
  return { over: locate(storage), apart: locate({ ...storage, overwrites: new Map() }) };
}

const rows: Readonly<Record<string, Operation>> = {
  softmax: (a) => [{ op: 'softmax', params: {}, inputs: [a], ...type }],
  softmaxGrad: (a, b) => [{ op: 'softmaxGrad', params: {}, inputs: [a, b], ...type }],
  logSoftmax: (a) => [{ op: 'logSoftmax', params: {}, inputs: [a], ...type }],
  logSoftmaxGrad: (a, b) => [{ op: 'logSoftmaxGrad', params: {}, inputs: [a, b], ...type }],
  negatedSoftmax: (a, _, next) => [
    { op: 'softmax', params: {}, inputs: [a], ...type },
    unary('neg', next, type),
  ],
  squares: (a, b, next) => [
    { op: 'matmul', params: { transposeA: false, transposeB: false }, inputs: [a, b], ...type },
    binary('mul', next, next, type),
    binary('add', next + 1, a, type),
  ],
};

describe.each(Object.keys(parts))('on %s, random programs', (name) => {
  it('have the same bits whether or not values are written over those that they replace', async () => {
    const host = hostOf(parts[name]?.() ?? expect.unreachable());
    const { arena } = host;
    const seen = { overwrites: 0, savedBytes: 0 };

    async function run(
      program: Program,
      analysis: Analysis,
      locations: Locations,
    ): Promise<readonly Uint8Array[]> {
      const fallbacks = await acquire(analysis, analysis, host);
      const target = targetOf(host);
      const linked = link(analysis, (partition, index) =>
        linkPartition(partition, fallbacks[index], target),
      );
      const executable = new CpuExecutable(host, locations, fallbacks, () => linked);
      const inputs = program.inputs.map((_, input) => {
        const buffer = arena.alloc(elements * 4);
        arena
          .bytes(buffer)
          .set(
            bytesOf(Array.from({ length: elements }, (__, i) => ((i * (7 + input)) % 41) / 8 - 2)),
          );
        return buffer;
      });
      const outputs = program.outputs.map(() => arena.alloc(elements * 4));
      await executable.run(inputs, outputs);
      const buffers = [...outputs, ...inputs];
      const bytes = buffers.map((buffer) => arena.bytes(buffer).slice());
      executable.dispose();
      await host.queue.drained();
      for (const buffer of buffers) arena.free(buffer);
      return bytes;
    }

    await fc.assert(
      fc.asyncProperty(randomPrograms({ ...operations, ...rows }), async (program) => {
        const own = ownProducts(host, host.products.own?.thin ?? false);
        const analysis = analyse(program, own, host.fallback);
        const { over, apart } = placesOf(analysis);
        expect(over.scratchBytes).toBeLessThanOrEqual(apart.scratchBytes);
        seen.overwrites += analysis.storage.overwrites.size;
        seen.savedBytes += apart.scratchBytes - over.scratchBytes;
        expect(await run(program, analysis, over)).toEqual(await run(program, analysis, apart));
      }),
      { numRuns: 25 },
    );
    expect(seen.overwrites).toBeGreaterThan(0);
    expect(seen.savedBytes).toBeGreaterThan(0);
  });
});

describe('the memory of a program', () => {
  const host = hostOf(parts['cpu']?.() ?? expect.unreachable());
  const matrixBytes = Math.ceil((elements * 4) / 64) * 64;

  function analysisOf(instructions: readonly Instruction[], outputs: readonly number[]): Analysis {
    const inputs = Array.from({ length: inputCount }, () => type);
    const program = programOf({ inputs, instructions, outputs });
    return analyse(program, ownProducts(host, true), host.fallback);
  }

  it('of losses by tiles of classes has the logits of a tile once, forward and backward', () => {
    const column = f32(side, 1);
    const expanded = (input: number): Instruction => {
      return { op: 'expand', params: type, inputs: [input], ...type };
    };
    // Inputs: x, W, and the largest logits of rows; then the sums of rows, or the gradients of both.
    const first: Instruction = {
      op: 'slice',
      params: { starts: [0, 0], stops: [side, 1], steps: [1, 1] },
      inputs: [2],
      ...column,
    };
    const powers: readonly Instruction[] = [
      matmul(0, 1, type),
      first,
      expanded(4),
      binary('sub', 3, 5, type),
      unary('exp', 6, type),
    ];
    const sums: Instruction = { op: 'sum', params: { dims: [1] }, inputs: [7], ...f32(side) };
    const forward = placesOf(analysisOf([...powers, sums], [8]));
    const gradients = [matmul(7, 1, type), matmul(7, 0, type)];
    const backward = placesOf(analysisOf([...powers, ...gradients], [8, 9]));
    const small = 64 * side;
    for (const { over, apart } of [forward, backward]) {
      expect(apart.scratchBytes - over.scratchBytes).toBe(matrixBytes);
      expect(over.scratchBytes).toBeLessThan(matrixBytes + small);
      const bytes = over.temporaries.values.map(({ byteLength }) => byteLength);
      expect(bytes.filter((byteLength) => byteLength === elements * 4)).toHaveLength(1);
    }
  });

  it('computes what an output replaces where the output will be', () => {
    const chain = [matmul(0, 1, type), unary('exp', 3, type), unary('neg', 4, type)];
    const { over, apart } = placesOf(analysisOf(chain, [5]));
    expect([over.scratchBytes, apart.scratchBytes]).toEqual([0, matrixBytes]);
    expect(over.of.get(3)).toEqual({ in: 'output', index: 0 });
  });

  it('has one row, and no matrix, for a softmax that is only read as it is rounded', () => {
    const narrow: Instruction = {
      op: 'cast',
      params: { dtype: 'bf16' },
      inputs: [3],
      shape: type.shape,
      dtype: 'bf16',
    };
    const softmax: Instruction = { op: 'softmax', params: {}, inputs: [0], ...type };
    const { over } = placesOf(analysisOf([softmax, narrow], [4]));
    expect(over.temporaries.values.map(({ byteLength }) => byteLength)).toEqual([side * 4]);
  });

  const relu = (input: number): Instruction => ({
    op: 'relu',
    params: {},
    inputs: [input],
    ...type,
  });
  const integers = { shape: type.shape, dtype: 'i32' } as const;

  it.each<[string, number, readonly Instruction[], readonly number[]]>([
    ['an input', 0, [relu(0)], [3]],
    ['an output', 3, [matmul(0, 1, type), relu(3)], [3, 4]],
    [
      'a value that a later product reads',
      3,
      [matmul(0, 1, type), relu(3), matmul(3, 4, type), matmul(5, 4, type)],
      [6],
    ],
    [
      'a value that the product of the same step still reads for other rows',
      3,
      [unary('sin', 0, type), matmul(3, 1, type), binary('add', 4, 3, type), relu(5)],
      [4, 6],
    ],
    [
      'a value of another dtype',
      3,
      [matmul(0, 1, type), { op: 'cast', params: { dtype: 'i32' }, inputs: [3], ...integers }],
      [4],
    ],
  ])('does not write over %s', (_, old, instructions, outputs) => {
    const { storage } = analysisOf(instructions, outputs);
    expect([...storage.overwrites.values()]).not.toContain(old);
  });
});
