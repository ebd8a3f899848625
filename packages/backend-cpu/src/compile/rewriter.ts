import type { ValueType } from '@shardwise/core/spec';
import type { Step } from './step.ts';

/** What rewriting needs of the program so far; `append` gives a new step an id. */
export interface Rewriter {
  readonly values: readonly ValueType[];
  producer(id: number): Step | undefined;
  append(make: (output: number) => Step): number;
}
