import { Sized, rejectDegenerateSizes } from '@shardwise/core/base';
import { type SizedProgram } from '@shardwise/core/spec';
import { analyse, type Analysis } from '../plan/analyse.ts';
import { acquire, type CompileHost, isFallback, ownProducts, targetOf } from './compile.ts';
import { CpuExecutable } from './executable.ts';
import { link, linkPartition } from './link.ts';
import { type BatchedProduct, isThin } from '../program/work/batched-product.ts';
import type { AnalysedPartition } from '../plan/analysed-partition.ts';
import type { CompiledPartition } from '../program/partition.ts';
import type { OwnProducts } from '../plan/products/product-of.ts';
import { locate } from '../plan/storage.ts';

/** An analysis for all sizes, and its pattern. */
interface SizedAnalysis {
  readonly analysis: Sized<Analysis>;
  readonly pattern: Analysis;
}

/** Compiles a program for any sizes. Returns undefined if the structure of its analysis depends on the sizes. */
export async function compileSized(
  program: SizedProgram,
  host: CompileHost,
): Promise<CpuExecutable | undefined> {
  const { fallback } = host;
  const { symbols } = program;
  const sampleAt = rejectDegenerateSizes(
    symbols,
    (sizes) => program.at(sizes),
    ({ inputs, instructions }) => [...inputs, ...instructions],
  );
  const analyseWith = (thin: OwnProducts['thin']): SizedAnalysis | undefined => {
    const own = ownProducts(host, thin);
    const analysis = Sized.of(symbols, (sizes) => analyse(sampleAt(sizes), own, fallback));
    if (analysis === undefined) return undefined;
    // Numbers that depend on the sizes are NaN in the pattern.
    const pattern = analysis.pattern();
    const isSized = pattern.partitions.every(
      (partition) => !isFallback(partition) || fallback.takesSizes(partition),
    );
    return isSized ? { analysis, pattern } : undefined;
  };
  const allOwn = analyseWith(true);
  const thin = host.products.own?.thin === true ? [] : thinProducts(allOwn?.pattern);
  const found =
    thin.length === 0
      ? allOwn
      : (analyseWith((product) => !thin.includes(sizesOf(product))) ?? allOwn);
  if (found === undefined) return undefined;
  const { analysis, pattern } = found;
  const fallbacks = await acquire(
    analysis.at(program.symbols.map(({ seen }) => seen)),
    pattern,
    host,
  );
  const locations = locate(analysis.most().storage);
  const target = targetOf(host);
  // What does not depend on the sizes that have changed is linked once. A program disposes of what other engines link for it.
  const known = new WeakMap<AnalysedPartition, CompiledPartition>();
  return new CpuExecutable(host, locations, fallbacks, (sizes) =>
    link(analysis.at(sizes), (partition, index) => {
      const linked = known.get(partition) ?? linkPartition(partition, fallbacks[index], target);
      if (!isFallback(partition)) known.set(partition, linked);
      return linked;
    }),
  );
}

/** The sizes of the thin products that do not depend on the sizes of the program, such as those of few rows. */
function thinProducts({ partitions }: Pick<Analysis, 'partitions'> = { partitions: [] }): string[] {
  return partitions.flatMap((partition) => {
    if (partition.kind !== 'product' || !isThin(partition.product)) return [];
    const sizes = sizesOf(partition.product);
    return sizes.includes('NaN') ? [] : [sizes];
  });
}

function sizesOf({ batch, rows, columns, depth }: BatchedProduct): string {
  return [...batch, rows, columns, depth].join(' ');
}
