import type { Assembler } from '../machine-code/assembler.ts';
import type { LoopVectors } from './loop-vectors.ts';

/**
 * A kernel in machine code that is not a loop over elements or rows. It takes the numbers and addresses that the kernel
 * in WebAssembly takes (`callNumber`), and gives the same bits. It may change all registers but rsp, rbp and r15.
 */
export interface WrittenRoutine {
  readonly write: (code: Assembler, vectors: LoopVectors) => void;
}
