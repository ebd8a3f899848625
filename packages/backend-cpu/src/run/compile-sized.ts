import { Sized, rejectDegenerateSizes } from '@shardwise/core/base';
import { type SizedProgram } from '@shardwise/core/spec';
import { analyse } from '../plan/analyse.ts';
import { acquire, type CompileHost, isFallback, ownProducts, targetOf } from './compile.ts';
import { CpuExecutable } from './executable.ts';
import { link } from './link.ts';
import { locate } from '../plan/storage.ts';

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
  const own = ownProducts(host, true);
  const analysis = Sized.of(symbols, (sizes) => analyse(sampleAt(sizes), own, fallback));
  if (analysis === undefined) return undefined;
  // Numbers that depend on the sizes are NaN in the pattern.
  const pattern = analysis.pattern();
  const isSized = pattern.partitions.every(
    (partition) => !isFallback(partition) || fallback.takesSizes(partition),
  );
  if (!isSized) return undefined;
  const fallbacks = await acquire(
    analysis.at(program.symbols.map(({ seen }) => seen)),
    pattern,
    fallback,
  );
  const locations = locate(analysis.most().storage);
  const target = targetOf(host);
  return new CpuExecutable(host, locations, fallbacks, (sizes) =>
    link(analysis.at(sizes), fallbacks, target),
  );
}
