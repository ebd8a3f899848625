import type { ValueType } from '@shardwise/core/spec';
import type { CpuInstruction } from './instruction.ts';

/** What rewriting needs to know of the program so far. `append` adds an instruction, to which it gives an id. */
export interface Rewriter {
  readonly values: readonly ValueType[];
  producer(id: number): CpuInstruction | undefined;
  append(make: (output: number) => CpuInstruction): number;
}

/** How often a program reads each value, by value id. */
export type Uses = ReadonlyMap<number, number>;
