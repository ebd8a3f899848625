import type { Instruction, ValueType } from '@shardwise/core/spec';

export type KernelInstruction = Instruction & { readonly output: number };

/** A piece of a program for the kernels to run. Values that no instruction makes are its inputs. */
export interface KernelProgram {
  /**
   * The types of all values, by id: first the whole program's inputs, then those of its instructions, in
   * order.
   */
  readonly values: readonly ValueType[];
  /** The number of inputs of the whole program. */
  readonly inputCount: number;
  /** The instructions, each behind those whose results it reads. */
  readonly instructions: readonly KernelInstruction[];
  /** Values that must be stored. */
  readonly outputs: readonly number[];
  /** Value -> the input whose memory it overwrites. Such values are stored, listed as outputs or not. */
  readonly inPlace: ReadonlyMap<number, number>;
}

export interface KernelExecutable {
  /**
   * Values that need memory of their own during a run: outputs, and temporaries between loops.
   * Values in place are not among them, except where an old value is still needed after the new one
   * is there; then the new one is computed aside and copied at the end.
   */
  readonly storage: readonly number[];
  /**
   * `address` gives the byte address of each value in `storage` and of each input. Throws IndexError where
   * an index is out of range. Where it is the function of the run before, all addresses are what they were.
   */
  run(address: (valueId: number) => number): void;
}
