import type { VectorInstructions } from '../machine-code/processor.ts';
import type { LoopCode } from './loop-code.ts';

/** What runs loops over elements and rows. If it is WebAssembly, the reason. */
export type LoopsBy =
  | {
      readonly by: 'own';
      readonly instructions: VectorInstructions;
      /** Why WebAssembly runs the loops that were asked for last, where the system has begun to refuse executable memory. */
      readonly refusal?: string;
    }
  | { readonly by: 'webassembly'; readonly reason: string };

/** What runs the loops of a backend. */
export interface Loops {
  readonly by: LoopsBy;
  /** Null for WebAssembly alone. */
  readonly code: LoopCode | null;
}
