import type { VectorInstructions } from '../../emit/x64/processor.ts';
import type { LoopCode } from '../../lanes/loop-code.ts';

/** What runs loops over elements and rows. If it is WebAssembly, it also says why. */
export type LoopsBy =
  | {
      readonly by: 'own';
      readonly instructions: VectorInstructions;
      /**
       * Why WebAssembly runs the most recent loops. It is there once the system has begun to refuse executable memory.
       */
      readonly refusal?: string;
    }
  | { readonly by: 'webassembly'; readonly reason: string };

/** What runs the loops of a backend. */
export interface Loops {
  readonly by: LoopsBy;
  /** Null if WebAssembly runs all loops. */
  readonly code: LoopCode | null;
}
