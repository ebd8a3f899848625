import type { LoopCode } from '../loops/loop-code.ts';
import { linkKernels } from '../wasm/link-kernels.ts';
import type { Products } from '../products/products.ts';
import type { Analysis, Signature } from './analyse.ts';
import type { CompiledPiece } from './compiled-piece.ts';
import type { RestLeases } from './rest.ts';
import type { StoragePlan } from './storage.ts';

/** A program at some sizes, ready to run. */
export interface LinkedProgram {
  readonly signature: Signature;
  readonly pieces: readonly CompiledPiece[];
  readonly storage: Pick<StoragePlan, 'copiesBefore' | 'copiesAfter' | 'updatesInPlace'>;
}

/** The memory in which it runs, what makes its products, and what runs its loops; null for WebAssembly alone. */
export interface LinkTarget {
  readonly memory: WebAssembly.Memory;
  readonly products: Products;
  readonly loops: LoopCode | null;
}

export function link(
  { signature, pieces, storage }: Analysis,
  leases: RestLeases,
  { memory, products, loops }: LinkTarget,
): LinkedProgram {
  const linked = pieces.map((piece, index): CompiledPiece => {
    if (piece.kind === 'kernel') return linkKernels({ memory, loops }, piece.plan);
    if (piece.kind === 'product') return products.link(memory, piece.product);
    if (piece.kind === 'grouped') return products.linkGrouped(memory, piece.product);
    if (piece.kind === 'attention') {
      if (loops === null) throw new RangeError('nothing runs loops of attention');
      return products.linkAttention(memory, piece.work, loops);
    }
    const lease = leases[index];
    if (!lease) throw new RangeError(`nothing runs piece ${index}`);
    return lease.link(memory, piece);
  });
  return { signature, pieces: linked, storage };
}
