import type { FunctionBuilder } from '@shardwise/wasm-assembler';
import type { LoopSource, RoutineSource } from '../loops/loop-code.ts';
import type { Access } from './loop-spec.ts';

/** One kernel, and the values whose addresses it takes. */
export interface KernelCall {
  /** Kernels of one key are the same code, which `build` makes. */
  readonly key: string;
  readonly build: () => FunctionBuilder;
  /** The same as a loop that machine code may run, where it is one. Sizes are rows and columns then. */
  readonly loop?: LoopSource;
  /** The same as another routine of machine code, where it is one. */
  readonly routine?: RoutineSource;
  /** Of a loop over elements: how it walks over what it reads, which are its first values. What it writes are elements. */
  readonly reads?: readonly Access['kind'][];
  readonly sizes: readonly number[];
  readonly values: readonly number[];
  /** Where in each value the kernel starts; at its first byte where this is not given. */
  readonly byteOffsets?: readonly number[];
  /** The indices of a kernel that returns the place of one that is out of range. */
  readonly indices?: IndexUse;
}

interface IndexUse {
  readonly op: string;
  readonly size: number;
  /** The value of the indices, and that of the instruction that reads them. */
  readonly value: number;
  readonly reader: number;
}
