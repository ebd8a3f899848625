import type { ValueType } from '@shardwise/core/spec';
import type { Step } from './step.ts';

/** What rewriting needs to know of the program so far. `append` adds a step, to which it gives an id. */
export interface Rewriter {
  readonly values: readonly ValueType[];
  producer(id: number): Step | undefined;
  append(make: (output: number) => Step): number;
}
