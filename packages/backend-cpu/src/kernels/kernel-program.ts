import type { Instruction, ValueType } from '@shardwise/core/spec';

export type KernelInstruction = Instruction & { readonly output: number };

/** A partition of a program for the kernels to run. Values that none of its instructions makes are its inputs. */
export interface KernelProgram {
  /**
   * The types of all values, by id: first those of the whole program's inputs, then those of its instructions, in
   * order.
   */
  readonly values: readonly ValueType[];
  /** The number of inputs of the whole program. */
  readonly inputCount: number;
  /** The instructions. Each comes behind those whose results it reads. */
  readonly instructions: readonly KernelInstruction[];
  /** The values that must be stored. */
  readonly outputs: readonly number[];
  /** Maps a value to the input whose memory it overwrites. Such values are stored even if they are no outputs. */
  readonly inPlace: ReadonlyMap<number, number>;
}

export interface KernelExecutable {
  /**
   * The values that need memory of their own during a run: outputs, and temporaries between loops. A value that
   * overwrites an input only counts if the old value is still needed after the new one exists. The new one is then
   * computed aside and copied at the end.
   */
  readonly storage: readonly number[];
  /**
   * Runs the kernels. `address` gives the byte address of each value in `storage` and of each input. If it is the same
   * function as in the run before, all addresses are the same too. Throws IndexError if an index is out of range.
   */
  run(address: (valueId: number) => number): void;
}
