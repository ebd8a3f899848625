import { type FunctionBuilder, instantiateKernels } from '@shardwise/wasm-assembler';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loopMachine, type PlacedLoops } from '../../src/engines/loops/loop-machine.ts';
import type { RoutineSource } from '../../src/lanes/loop-code.ts';
import { rowCopyKernel } from '../../src/emit/wasm/move/row-copy.ts';
import { sumRows } from '../../src/emit/wasm/rows/sum.ts';
import { sampleFloats, sharedMemory } from '../wasm/kernel-fixture.ts';

const sets = ['AVX-512', 'AVX2'] as const;
const codeOf = (set: (typeof sets)[number]): PlacedLoops | undefined => {
  const machine = loopMachine(set);
  return machine.kind === 'own' && machine.instructions === set ? machine.code : undefined;
};

interface Routine {
  readonly key: string;
  readonly wasm: () => FunctionBuilder;
  readonly machine: RoutineSource;
}

const sums = (dtype: 'f32' | 'bf16'): Routine => ({
  key: `sums of ${dtype}`,
  wasm: () => sumRows(dtype),
  machine: { kind: 'row sums', dtype },
});
const copies = (loops: number): Routine => ({
  key: `copies with ${loops} loops`,
  wasm: () => rowCopyKernel(loops),
  machine: { kind: 'row copy', loops },
});

const BYTES = 2 ** 16;
const TARGET = BYTES / 2;

/** Runs a routine on numbers of all kinds by WebAssembly and by machine code. Returns both memories. */
function bothMemories(
  code: PlacedLoops,
  { key, wasm, machine }: Routine,
  numbers: readonly number[],
  sourceOffset: number,
): readonly (readonly number[])[] {
  const addresses = [sourceOffset, TARGET];
  const run = (work: (memory: WebAssembly.Memory) => void): readonly number[] => {
    const memory = sharedMemory(BYTES);
    new Float32Array(memory.buffer).set(sampleFloats(BYTES / 4));
    work(memory);
    return [...new Uint32Array(memory.buffer)];
  };
  return [
    run((memory) => {
      instantiateKernels(new Map([[key, wasm()]]), memory).get(key)?.(...numbers, ...addresses);
    }),
    run((memory) => {
      const routine = code.routine(key, () => machine);
      if (routine === undefined) throw new Error('no routine');
      const byteOffsets = addresses;
      code.link(memory, [{ routine, numbers, values: [0, 1], byteOffsets }]).run(() => 0);
    }),
  ];
}

describe.each(sets)('by %s, as by WebAssembly', (set) => {
  const code = codeOf(set);

  it.skipIf(code === undefined).each(['f32', 'bf16'] as const)(
    'sums over rows of %s have the same bits, for any numbers of rows and columns',
    (dtype) => {
      if (code === undefined) throw new Error('no code');
      const size = fc.integer({ min: 0, max: 13 });
      const columns = fc.integer({ min: 1, max: 300 });
      fc.assert(
        fc.property(size, columns, fc.integer({ min: 0, max: 2 }), (rows, width, outer) => {
          const numbers = [rows, width, outer];
          const [wasm, machine] = bothMemories(code, sums(dtype), numbers, 16);
          expect(machine).toEqual(wasm);
        }),
        {
          numRuns: 40,
          examples: [
            [9, 300, 1],
            [4, 1, 2],
            [1, 143, 2],
          ],
        },
      );
    },
  );

  it.skipIf(code === undefined)('copies of rows write the same bytes, and no others', () => {
    if (code === undefined) throw new Error('no code');
    const loop = fc.tuple(fc.integer({ min: 0, max: 3 }), fc.nat(900), fc.nat(900));
    fc.assert(
      fc.property(
        fc.array(loop, { maxLength: 4 }),
        fc.integer({ min: 1, max: 700 }),
        fc.nat(70),
        (loops, rowBytes, offset) => {
          const numbers = [...loops.flat(), rowBytes];
          const [wasm, machine] = bothMemories(code, copies(loops.length), numbers, offset);
          expect(machine).toEqual(wasm);
        },
      ),
      { numRuns: 60, examples: [[[[3, 700, 650]], 639, 1]] },
    );
  });
});
