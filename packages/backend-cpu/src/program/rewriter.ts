import type { ValueType } from '@shardwise/core/spec';
import type { Step } from './instruction.ts';

/** What rewriting needs to know of the program so far. `append` adds a step, to which it gives an id. */
export interface Rewriter {
  readonly values: readonly ValueType[];
  producer(id: number): Step | undefined;
  append(make: (output: number) => Step): number;
}

/** How often a program reads each value, by value id. */
export type Uses = ReadonlyMap<number, number>;
