import type { FunctionBuilder } from '@shardwise/wasm-assembler';
import type { LoopSource, RoutineSource } from '../lanes/loop-code.ts';
import type { Access } from '../lanes/loop-spec.ts';

/** A call of one kernel, with the values whose addresses it takes. */
export interface KernelCall {
  /** Kernels with the same key have the same code, which `build` writes. */
  readonly key: string;
  readonly build: () => FunctionBuilder;
  /** The same computation as a loop that machine code may run, if it is one. The sizes are then rows and columns. */
  readonly loop?: LoopSource;
  /** The same computation as another routine of machine code, if there is one. */
  readonly routine?: RoutineSource;
  /**
   * For a loop over elements, how it accesses the values that it reads. These are its first values. The values behind
   * them are written, element by element.
   */
  readonly reads?: readonly Access['kind'][];
  readonly sizes: readonly number[];
  readonly values: readonly number[];
  /** At which byte of each value the kernel starts. Default: at the first. */
  readonly byteOffsets?: readonly number[];
  /** The indices of a kernel that returns the place of an index that is out of range. */
  readonly indices?: IndexUse;
}

interface IndexUse {
  readonly op: string;
  readonly size: number;
  /** The value of the indices, and the result of the instruction that reads them. */
  readonly value: number;
  readonly reader: number;
}

/**
 * Returns a structure as JSON. Plain JSON has the same text for NaN and the infinities, and none for -0, so numbers are
 * written as strings.
 */
export function structureKey(structure: unknown): string {
  return JSON.stringify(structure, (_, value: unknown) => {
    if (typeof value !== 'number') return value;
    return Object.is(value, -0) ? '-0' : String(value);
  });
}
