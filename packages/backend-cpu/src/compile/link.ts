import { OnnxPiece } from '../onnx/onnx-piece.ts';
import type { SessionLease } from '../onnx/sessions.ts';
import type { LoopCode } from '../loops/loop-machine.ts';
import { linkKernels } from '../wasm/link-kernels.ts';
import { sizeInputs } from '../onnx/session-model.ts';
import type { Products } from '../products/products.ts';
import type { Analysis, Signature } from './analyse.ts';
import type { CompiledPiece } from './compiled-piece.ts';
import { formatPiece } from './onnx-model.ts';
import type { StoragePlan } from './storage.ts';

/** For each piece its session; null for kernels. */
export type SessionLeases = readonly (SessionLease | null)[];

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

/** `pattern` is the analysis with NaN for what depends on the sizes. */
export function link(
  { signature, pieces, storage }: Analysis,
  pattern: Analysis,
  leases: SessionLeases,
  { memory, products, loops }: LinkTarget,
): LinkedProgram {
  const linked = pieces.map((piece, index): CompiledPiece => {
    if (piece.kind === 'kernel') return linkKernels({ memory, loops }, piece.plan);
    if (piece.kind === 'product') return products.link(memory, piece.product);
    if (piece.kind === 'grouped') return products.linkGrouped(memory, piece.product);
    const lease = leases[index];
    const sized = pattern.pieces[index];
    if (!lease || sized?.kind !== 'onnx') throw new RangeError(`piece ${index} has no session`);
    const describe = (): string => formatPiece(piece.description);
    return new OnnxPiece(
      memory,
      piece.slots,
      sizeInputs(piece.graph, sized.graph),
      lease.session,
      describe,
    );
  });
  return { signature, pieces: linked, storage };
}
