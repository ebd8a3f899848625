import type { Step } from './instruction.ts';

/** The steps that read each value. */
export function readersOf(steps: readonly Step[]): ReadonlyMap<number, readonly Step[]> {
  const readers = new Map<number, Step[]>();
  for (const step of steps) {
    for (const id of new Set(step.inputs)) {
      const known = readers.get(id);
      if (known === undefined) readers.set(id, [step]);
      else known.push(step);
    }
  }
  return readers;
}
