// Runs loops whose operands end directly before, or begin directly behind, pages that nobody may access. Code that
// reads or writes one byte too many crashes this process.
import { elementwiseLoop } from '../../src/lanes/elementwise-loop.ts';
import type { LaneOperand } from '../../src/lanes/lane-loop.ts';
import { instructionSets } from '../../src/emit/x64/instruction-sets.ts';
import { loopMachine } from '../../src/engines/loops/loop-machine.ts';
import { rowLoop } from '../../src/lanes/row-loop.ts';
import { guardedMemory } from '../machine-code/guarded-memory.ts';
import { rowPrograms, rowProgramsWithEdges } from './row-programs.ts';
import {
  type Access,
  type LaneDType,
  laneBytes,
  type LoopSpec,
} from '../../src/lanes/loop-spec.ts';
import { callWords } from '../../src/lanes/loop-code.ts';

const [, , asked] = process.argv;
const machine = loopMachine(instructionSets.find((set) => set === asked));
if (machine.kind === 'webassembly') throw new Error(machine.reason);
const { code } = machine;
const places = Array.from({ length: 8 }, guardedMemory);
const counts = (rows: number, columns: number): Readonly<Record<Access['kind'], number>> => ({
  element: rows * columns,
  row: rows,
  column: columns,
  scalar: 1,
});

let made = 0;

/** Runs a routine on rows of many lengths. */
function run(routine: bigint, operands: readonly Pick<LaneOperand, 'dtype' | 'access'>[]): void {
  for (const columns of [1, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130]) {
    for (const rows of [1, 3]) {
      for (const atEnd of [false, true]) {
        const elements = counts(rows, columns);
        const addresses = operands.map(({ dtype, access }, index) => {
          const place = places[index];
          if (place === undefined) throw new Error('more operands than places');
          return place(laneBytes[dtype] * elements[access], atEnd);
        });
        const words = callWords.addresses + addresses.length;
        const call = new BigUint64Array(new ArrayBuffer(8 * (words + 1)));
        call.set([routine, BigInt(8 * words), BigInt(rows), BigInt(columns), 0n, ...addresses]);
        code.run(call);
        made++;
      }
    }
  }
}

for (const dtype of ['f32', 'i32', 'bool', 'f16', 'bf16', 'u8'] as const satisfies LaneDType[]) {
  const accesses = ['element', 'row', 'column', 'scalar'] as const;
  const spec: LoopSpec = {
    byRows: true,
    loads: accesses.map((access) => ({ dtype, access, elementOffset: 0 })),
    steps: [
      ...[1, 2, 3].map(
        (slot) => ({ op: 'cast', dtype: 'bool', inputs: [slot], inputDType: dtype }) as const,
      ),
      { op: 'logicalOr', dtype: 'bool', inputDType: 'bool', inputs: [4, 5] },
      { op: 'logicalAnd', dtype: 'bool', inputDType: 'bool', inputs: [7, 6] },
      { op: 'where', dtype, inputDType: dtype, inputs: [8, 0, 1] },
    ],
    stores: [{ slot: 9, dtype }],
  };
  const routine = code.routine(dtype, () => elementwiseLoop(spec));
  if (routine === undefined) throw new Error(`no routine for ${dtype}`);
  run(
    routine,
    [...accesses, 'element' as const].map((access) => ({ dtype, access })),
  );
}
for (const [name, program] of Object.entries({ ...rowPrograms, ...rowProgramsWithEdges })) {
  const loop = rowLoop(program);
  const routine = code.routine(name, () => loop);
  if (routine === undefined) throw new Error(`no routine for ${name}`);
  run(routine, loop.operands);
}

/** Runs a routine that reads from one place and writes to another. */
function runWritten(routine: bigint, numbers: readonly number[], bytes: readonly number[]): void {
  for (const atEnd of [false, true]) {
    const addresses = bytes.map((used, index) => {
      const place = places[index];
      if (place === undefined) throw new Error('more operands than places');
      return place(used, atEnd);
    });
    const words = callWords.rows + numbers.length + addresses.length;
    const call = new BigUint64Array(new ArrayBuffer(8 * (words + 1)));
    call.set([routine, BigInt(8 * words), ...numbers.map(BigInt), ...addresses]);
    code.run(call);
    made++;
  }
}

for (const dtype of ['f32', 'bf16'] as const) {
  const routine = code.routine(`sums of ${dtype}`, () => ({ kind: 'row sums', dtype }));
  if (routine === undefined) throw new Error(`no sums of ${dtype}`);
  for (const columns of [1, 3, 4, 7, 8, 15, 16, 31, 33, 127, 128, 200]) {
    for (const rows of [1, 3, 4, 6]) {
      runWritten(routine, [rows, columns, 2], [2 * rows * columns * laneBytes[dtype], 8 * columns]);
    }
  }
}
const copy = code.routine('copies', () => ({ kind: 'row copy', loops: 1 }));
if (copy === undefined) throw new Error('no copies');
for (const bytes of [1, 7, 8, 15, 16, 31, 32, 63, 64, 127, 255, 256, 257, 700]) {
  runWritten(copy, [2, bytes, bytes, bytes], [2 * bytes, 2 * bytes]);
}
process.send?.(made);
