import type { CpuInstruction } from './instruction.ts';

/** The instructions that read each value. */
export function readersOf(
  instructions: readonly CpuInstruction[],
): ReadonlyMap<number, readonly CpuInstruction[]> {
  const readers = new Map<number, CpuInstruction[]>();
  for (const instruction of instructions) {
    for (const id of new Set(instruction.inputs)) {
      const known = readers.get(id);
      if (known === undefined) readers.set(id, [instruction]);
      else known.push(instruction);
    }
  }
  return readers;
}
