import type { Executable } from '../spec/backend.ts';
import type { Run } from './run-memory.ts';
import type { CollectiveValue, TransferValue } from './values.ts';

/** Starts what a step moves, in a run that came to it at `start`. Settles when the next step may begin. */
export type Starter = (run: Run, start: number) => Promise<{ readonly done: Promise<void> }>;

/** A step of a plan; numbers are value ids, whose places the memory map gives. */
export type PlanStep =
  | {
      readonly kind: 'compute';
      readonly name: string;
      readonly executable: Executable;
      /** Whether it is told the sizes of a run. */
      readonly isSized: boolean;
      /** One for each instruction of its program. */
      readonly values: readonly number[];
      readonly inputs: readonly number[];
      readonly outputs: readonly number[];
      /** Whether it changes leaves in place. */
      readonly updates: boolean;
    }
  | {
      readonly kind: 'start';
      readonly values: readonly number[];
      readonly moved: CollectiveValue | TransferValue;
      readonly start: Starter;
    }
  | { readonly kind: 'wait'; readonly values: readonly number[] }
  /** Reads a number of rows, which is from then on the number of a symbol. */
  | {
      readonly kind: 'size';
      readonly values: readonly number[];
      readonly symbol: number;
      readonly max: number;
    }
  /** Copies the new value of an update that must wait for later readers of the old one. */
  | { readonly kind: 'copy'; readonly from: number; readonly leaf: number };
