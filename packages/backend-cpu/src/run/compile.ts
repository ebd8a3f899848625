import type { Program } from '@shardwise/core/spec';
import type { LoopCode } from '../lanes/loop-code.ts';
import type { Products } from '../engines/products/products.ts';
import type { AnalysedPartition } from '../plan/analysed-partition.ts';
import { analyse, type Analysis } from '../plan/analyse.ts';
import { CpuExecutable, type Host } from './executable.ts';
import { link, linkPartition, type LinkTarget } from './link.ts';
import type { OwnProducts } from '../plan/products/product-of.ts';
import type {
  FallbackEngine,
  CompiledFallback,
  CompiledFallbacks,
  FallbackPartition,
} from '../plan/partition/fallback-engine.ts';
import { locate } from '../plan/storage.ts';

/**
 * What executables share, what computes their products, what runs their loops (null: WebAssembly runs them), and what
 * computes all other instructions.
 */
export interface CompileHost extends Host {
  readonly products: Products;
  readonly loops: LoopCode | null;
  readonly fallback: FallbackEngine;
}

/** Compiles a program to partitions, which run in the order of their dependencies. */
export async function compile(program: Program, host: CompileHost): Promise<CpuExecutable> {
  const analysis = analyse(
    program,
    ownProducts(host, host.products.own?.thin ?? false),
    host.fallback,
  );
  const fallbacks = await acquire(analysis, analysis, host);
  const target = targetOf(host);
  const parts = link(analysis, (partition, index) =>
    linkPartition(partition, fallbacks[index], target),
  );
  return new CpuExecutable(host, locate(analysis.storage), fallbacks, () => parts);
}

/** The bytes of the temporary values of a program, which is not compiled. */
export function temporaryBytes(program: Program, host: CompileHost): number {
  const own = ownProducts(host, host.products.own?.thin ?? false);
  return locate(analyse(program, own, host.fallback).storage).scratchBytes;
}

export function ownProducts(
  { products }: CompileHost,
  thin: OwnProducts['thin'],
): OwnProducts | null {
  const attention = products.attention?.planning ?? null;
  return products.own && { ...products.own, thin, attention };
}

export function isFallback(partition: AnalysedPartition): partition is FallbackPartition {
  return partition.kind === 'onnx' || partition.kind === 'plain';
}

export function targetOf({ arena, products, loops }: CompileHost): LinkTarget {
  return { memory: arena.memory, products, loops };
}

/** Acquires what other engines compute of a program, and loads what our products need. */
export async function acquire(
  analysis: Analysis,
  pattern: Analysis,
  { fallback, products }: CompileHost,
): Promise<CompiledFallbacks> {
  if (pattern.partitions.some(({ kind }) => kind === 'grouped')) await products.loadGrouped?.();
  const fallbacks: (CompiledFallback | null)[] = [];
  try {
    for (const [index, partition] of pattern.partitions.entries()) {
      const known = analysis.partitions[index];
      const compiled =
        isFallback(partition) && known && isFallback(known)
          ? await fallback.acquire(partition, known)
          : null;
      fallbacks.push(compiled);
    }
  } catch (error) {
    for (const compiled of fallbacks) compiled?.release();
    throw error;
  }
  return fallbacks;
}
