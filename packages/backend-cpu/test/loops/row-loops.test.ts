import { instantiateKernels } from '@shardwise/wasm-assembler';
import { describe, expect, it } from 'vitest';
import { loopNumbers } from '../../src/lanes/loop-code.ts';
import { loopMachine, type PlacedLoops } from '../../src/engines/loops/loop-machine.ts';
import { type LaneDType, laneBytes } from '../../src/lanes/loop-spec.ts';
import { rowLoop } from '../../src/lanes/row-loop.ts';
import { rowOverwrites } from '../../src/lanes/row-overwrites.ts';
import { floats, type RowProgram } from '../../src/lanes/rows.ts';
import { logSoftmaxGrad, softmax } from '../../src/lanes/softmax.ts';
import { rowFunction } from '../../src/emit/wasm/rows/row-writer.ts';
import { sharedMemory, uniform } from '../wasm/kernel-fixture.ts';
import { rowPrograms, rowProgramsWithEdges } from './row-programs.ts';

const codes = (['AVX512-BF16', 'AVX-512', 'AVX2'] as const).flatMap((set) => {
  const machine = loopMachine(set);
  const isNarrow = machine.kind === 'own' && machine.instructions === 'AVX2';
  return machine.kind === 'own' && isNarrow === (set === 'AVX2') ? [machine.code] : [];
});
/** The distance in bytes between two operands. */
const OPERAND_BYTES = 1 << 13;

type Draw = (random: () => number, index: number) => number;

/**
 * Runs a program on rows of the numbers that `draw` returns. Returns the memory of all its operands. Operand `written`
 * lies in the memory of operand `read` if `over` names them.
 */
function runRows(
  name: string,
  [rows, columns]: readonly [number, number],
  by: 'webassembly' | PlacedLoops,
  draw: Draw,
  over?: { readonly read: number; readonly written: number },
): Float32Array {
  const program = rowPrograms[name] ?? rowProgramsWithEdges[name];
  if (program === undefined) throw new RangeError(`no program ${name}`);
  const addresses = program.operands.map(
    (_, index) => (index === over?.written ? over.read : index) * OPERAND_BYTES,
  );
  const memory = sharedMemory(addresses.length * OPERAND_BYTES);
  const numbers = new Float32Array(memory.buffer);
  const random = uniform(7);
  numbers.forEach((_, index) => {
    numbers[index] = draw(random, index);
  });
  if (by === 'webassembly') {
    const kernel = instantiateKernels(new Map([[name, rowFunction(program)]]), memory).get(name);
    kernel?.(rows, columns, ...addresses);
  } else {
    const routine = by.routine(name, () => rowLoop(program));
    if (routine === undefined) throw new Error('machine code does not have all that it takes');
    const values = [...addresses.keys()];
    by.link(memory, [{ routine, numbers: loopNumbers(rows, columns), values }]).run(
      (id) => addresses[id] ?? 0,
    );
  }
  return numbers.slice();
}

function largestDifference(a: Float32Array, b: Float32Array): number {
  return a.reduce((most, value, index) => {
    const other = b[index] ?? NaN;
    if (Object.is(value, other)) return most;
    return Math.max(most, Math.abs(value - other) / Math.max(1, Math.abs(value)));
  }, 0);
}

const usual: Draw = (random) => random() * 4 - 2;

describe.skipIf(codes.length === 0).each(Object.keys(rowPrograms))('%s in machine code', (name) => {
  it('computes what WebAssembly does, but for the order of sums, and writes nothing else', () => {
    for (const columns of [1, 2, 15, 16, 17, 31, 33, 48, 63, 64, 65, 129]) {
      const meant = runRows(name, [3, columns], 'webassembly', usual);
      for (const code of codes) {
        const found = runRows(name, [3, columns], code, usual);
        expect(largestDifference(meant, found)).toBeLessThan(2e-5);
      }
    }
  });

  it('gives NaN where WebAssembly does, of NaN and infinite values', () => {
    const odd: Draw = (random, index) =>
      index % 61 === 7 ? NaN : index % 53 === 5 ? -Infinity : usual(random, index);
    const meant = runRows(name, [9, 29], 'webassembly', odd);
    for (const code of codes) {
      const found = runRows(name, [9, 29], code, odd);
      expect([...found].map(Number.isNaN)).toEqual([...meant].map(Number.isNaN));
    }
  });
});

const all = Object.keys({ ...rowPrograms, ...rowProgramsWithEdges });

it.skipIf(codes.length === 0).each(all)(
  '%s gives the same bits in every run, and by vectors of all lengths',
  (name) => {
    for (const rows of [1, 2, 5]) {
      for (const columns of [1, 7, 8, 9, 24, 77, 200]) {
        const [first, ...others] = [...codes, ...codes].map((code) =>
          runRows(name, [rows, columns], code, usual),
        );
        for (const other of others) expect(other).toEqual(first);
      }
    }
  },
);

it.each(all)('%s has the same bits in the memory of an operand that it replaces', (name) => {
  const program = rowPrograms[name] ?? rowProgramsWithEdges[name];
  const { operands } = program ?? expect.unreachable();
  const pairs = rowOverwrites(program ?? expect.unreachable()).filter(
    ([read, written]) => operands[read] === operands[written],
  );
  const [rows, columns] = [5, 77];
  const bytesOf = (memory: Float32Array, place: number, dtype: LaneDType): Uint8Array =>
    new Uint8Array(memory.buffer, place * OPERAND_BYTES, rows * columns * laneBytes[dtype]);
  for (const [read, written] of pairs) {
    for (const by of ['webassembly', ...codes] as const) {
      const apart = runRows(name, [rows, columns], by, usual);
      const over = runRows(name, [rows, columns], by, usual, { read, written });
      for (const [operand, dtype] of operands.entries()) {
        if (operand === read) continue;
        const place = operand === written ? read : operand;
        expect(bytesOf(over, place, dtype)).toEqual(bytesOf(apart, operand, dtype));
      }
    }
  }
});

it('programs may replace operands that they have read for the last time', () => {
  expect(rowOverwrites(softmax)).toEqual([[0, 1]]);
  expect(rowOverwrites(logSoftmaxGrad)).toEqual([
    [1, 2],
    [0, 2],
  ]);
  const copiesTwice: RowProgram = {
    operands: floats(3),
    write: (rows) => {
      const [x, y, z] = [rows.address(0), rows.address(1), rows.address(2)];
      rows.eachRow([x, y, z], () => {
        rows.each((at) => at.store(y, at.load(x)));
        rows.each((at) => at.store(z, at.load(x)));
      });
    },
  };
  expect(rowOverwrites(copiesTwice)).toEqual([[0, 2]]);
});
