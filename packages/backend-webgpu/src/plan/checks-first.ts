import type { Kernel } from '../emit/kernel.ts';

/**
 * Moves checks of indices, and the kernels that make what they read, before all other kernels. The host then hears of
 * the checks while the device computes the rest.
 */
export function checksFirst(kernels: readonly Kernel[]): readonly Kernel[] {
  const makers = new Map(kernels.flatMap((kernel) => kernel.writes.map((id) => [id, kernel])));
  const early = new Set<Kernel>();
  const visit = kernels.filter(({ check }) => check !== undefined);
  for (let kernel = visit.pop(); kernel !== undefined; kernel = visit.pop()) {
    if (early.has(kernel)) continue;
    early.add(kernel);
    for (const id of kernel.reads) {
      const maker = makers.get(id);
      if (maker !== undefined) visit.push(maker);
    }
  }
  return [
    ...kernels.filter((kernel) => early.has(kernel)),
    ...kernels.filter((kernel) => !early.has(kernel)),
  ];
}
