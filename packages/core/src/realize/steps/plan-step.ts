import type { Executable } from '../../spec/backend.ts';
import type { Run } from './run-memory.ts';
import type { CollectiveValue, TransferValue } from '../values/values.ts';

/**
 * Starts the collective or transfer of a step. `start` is the time at which the run came to the step. Settles when the
 * next step may begin.
 */
export type Starter = (run: Run, start: number) => Promise<{ readonly done: Promise<void> }>;

/** A step of a plan. Numbers are the ids of values, and the memory map has their places. */
export type PlanStep =
  | {
      readonly kind: 'compute';
      readonly name: string;
      readonly executable: Executable;
      /** Whether the executable is given the sizes of a run. */
      readonly isSized: boolean;
      /** The value of each instruction of the program. */
      readonly values: readonly number[];
      readonly inputs: readonly number[];
      readonly outputs: readonly number[];
      /** Whether the step changes leaves in place. */
      readonly updates: boolean;
    }
  | {
      readonly kind: 'start';
      readonly values: readonly number[];
      readonly moved: CollectiveValue | TransferValue;
      readonly start: Starter;
    }
  | { readonly kind: 'wait'; readonly values: readonly number[] }
  /** Reads a number of rows that the run has computed. Later steps use it as the number of the symbol. */
  | {
      readonly kind: 'size';
      readonly values: readonly number[];
      readonly symbol: number;
      readonly max: number;
    }
  /** Copies the new value of an update to its leaf, after all steps that read the old value. */
  | { readonly kind: 'copy'; readonly from: number; readonly leaf: number };
