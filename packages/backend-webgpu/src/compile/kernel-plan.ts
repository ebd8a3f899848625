import type { Instruction } from '@shardwise/core/spec';
import type { Kernel } from './kernel.ts';
import type { Values } from './values.ts';

/** An instruction whose indices are checked, and its number in the program. */
export interface Check {
  readonly op: Instruction['op'];
  readonly instruction: number;
  readonly size: number;
  /** The value that has the indices. */
  readonly index: number;
}

/** How a program runs. */
export interface KernelPlan {
  readonly values: Values;
  /** In their order. */
  readonly kernels: readonly Kernel[];
  /** The value that lies in the buffer of each output. */
  readonly outputs: readonly number[];
  /** Values that lie in the buffer of an input, which they replace. */
  readonly inPlace: ReadonlyMap<number, number>;
  /** The words that checks write: whether there is a fault, and `checkWords` for each check. Undefined without checks. */
  readonly faults: number | undefined;
  readonly checks: readonly Check[];
  /** Inputs that a run copies side by side first, by where they then are. */
  readonly gathered: ReadonlyMap<number, number>;
  /** Bytes of one binding, at most. */
  readonly bindingBytes: number;
}
