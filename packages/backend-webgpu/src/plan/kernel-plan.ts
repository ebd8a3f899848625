import type { Instruction } from '@shardwise/core/spec';
import type { Kernel } from '../emit/kernel.ts';
import type { Values } from '../program/values.ts';

/** An instruction whose indices are checked, with its number in the program. */
export interface IndexCheck {
  readonly op: Instruction['op'];
  readonly instruction: number;
  readonly size: number;
  /** The value that has the indices. */
  readonly index: number;
}

/** How a program runs. */
export interface KernelPlan {
  readonly values: Values;
  /** The kernels in the order in which they run. */
  readonly kernels: readonly Kernel[];
  /** For each output, the value that lies in its buffer. */
  readonly outputs: readonly number[];
  /** Values that replace an input and lie in its buffer: value -> input. */
  readonly inPlace: ReadonlyMap<number, number>;
  /**
   * The value with the words that checks write: whether any index is out of range, then `checkWords` words for each
   * check. Undefined without checks.
   */
  readonly faults: number | undefined;
  readonly checks: readonly IndexCheck[];
  /** The inputs that a run copies side by side first: input -> its position among them. */
  readonly gathered: ReadonlyMap<number, number>;
  /** The most bytes of one binding. */
  readonly bindingBytes: number;
}

/**
 * The value whose first word, if it is not 0, keeps a kernel from doing anything. Kernels that replace inputs look at
 * the words of checks first. Undefined for other kernels.
 */
export function guardOf(
  { faults, inPlace }: Pick<KernelPlan, 'faults' | 'inPlace'>,
  { writes }: Kernel,
): number | undefined {
  return faults !== undefined && writes.some((id) => inPlace.has(id)) ? faults : undefined;
}
