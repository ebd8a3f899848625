import type { Program } from '@shardwise/core/spec';
import type { LoopCode } from '../lanes/loop-code.ts';
import type { Products } from '../engines/products/products.ts';
import type { AnalysedPiece } from '../plan/analysed-partition.ts';
import { analyse, type Analysis } from '../plan/analyse.ts';
import { CpuExecutable, type Host } from './executable.ts';
import { link, type LinkTarget } from './link.ts';
import type { OwnProducts } from '../plan/products/product-of.ts';
import type { Rest, RestLease, RestLeases, RestPiece } from '../plan/partition/fallback-engine.ts';
import { locate } from '../plan/storage.ts';

/**
 * What executables share, what computes their products, what runs their loops (null: WebAssembly runs them), and what
 * computes all other steps.
 */
export interface CompileHost extends Host {
  readonly products: Products;
  readonly loops: LoopCode | null;
  readonly rest: Rest;
}

/** Compiles a program to pieces, which run in the order of their dependencies. */
export async function compile(program: Program, host: CompileHost): Promise<CpuExecutable> {
  const analysis = analyse(program, ownProducts(host, host.rest.kind === 'plain'), host.rest);
  const leases = await acquire(analysis, analysis, host.rest);
  const parts = link(analysis, leases, targetOf(host));
  return new CpuExecutable(host, locate(analysis.storage), leases, () => parts);
}

export function ownProducts({ products }: CompileHost, thin: boolean): OwnProducts | null {
  const attention = products.attention?.planning ?? null;
  return products.own && { ...products.own, thin, attention };
}

export function isRest(piece: AnalysedPiece): piece is RestPiece {
  return piece.kind === 'onnx' || piece.kind === 'plain';
}

export function targetOf({ arena, products, loops }: CompileHost): LinkTarget {
  return { memory: arena.memory, products, loops };
}

export async function acquire(
  analysis: Analysis,
  pattern: Analysis,
  rest: Rest,
): Promise<RestLeases> {
  const leases: (RestLease | null)[] = [];
  try {
    for (const [index, piece] of pattern.pieces.entries()) {
      const known = analysis.pieces[index];
      const lease =
        isRest(piece) && known && isRest(known) ? await rest.acquire(piece, known) : null;
      leases.push(lease);
    }
  } catch (error) {
    for (const lease of leases) lease?.release();
    throw error;
  }
  return leases;
}
