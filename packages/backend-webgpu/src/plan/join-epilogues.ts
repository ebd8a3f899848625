import { matmul } from '../kernels/matmul.ts';
import { storageOf } from '../wgsl/registers.ts';
import type { BufferCount } from './buffer-count.ts';
import type { DeviceTraits } from '../kernels/device-traits.ts';
import type { Kernel } from '../emit/kernel.ts';
import type { Reads } from './reads.ts';
import { countOf, type Values } from '../program/values.ts';

export interface EpilogueOptions {
  readonly reads: Reads;
  /** The values that must lie in memory, which are outputs and updates. */
  readonly roots: ReadonlySet<number>;
  /** The values that replace inputs. Only pointwise kernels write them in place. */
  readonly updated: ReadonlySet<number>;
  readonly traits: DeviceTraits;
  readonly buffers: BufferCount;
}

/**
 * Has a product compute what a single pointwise kernel makes of it, so that bias, activation and residual need no
 * memory in between.
 */
export function joinEpilogues(
  values: Values,
  kernels: readonly Kernel[],
  { reads, roots, updated, traits, buffers }: EpilogueOptions,
): Kernel[] {
  const readers = new Map<number, number>();
  for (const id of kernels.flatMap((kernel) => kernel.reads)) {
    readers.set(id, (readers.get(id) ?? 0) + 1);
  }
  const products = new Map(
    kernels.flatMap((kernel) =>
      kernel.product === undefined ? [] : [[kernel.product, kernel] as const],
    ),
  );
  const replaced = new Map<Kernel, Kernel | undefined>();
  for (const kernel of kernels) {
    const made = kernel.pointwise?.roots ?? [];
    const isPlain = made.every(
      (id) => storageOf[values.type(id).dtype].bytes === 4 && !updated.has(id),
    );
    if (made.length === 0 || !isPlain) continue;
    const product = kernel.reads.find((id) => {
      const source = products.get(id);
      if (source === undefined || roots.has(id) || readers.get(id) !== 1) return false;
      const together = new Set([...source.reads, ...kernel.reads, ...kernel.writes]);
      return (
        countOf(values.shape(id)) === kernel.pointwise?.count &&
        buffers(together) - 1 <= traits.mostBuffers &&
        made.every((root) => reads.ofInputs(root).get(id) !== 'any element')
      );
    });
    const source = product === undefined ? undefined : products.get(product);
    const instruction = product === undefined ? undefined : values.instruction(product);
    if (product === undefined || source === undefined || instruction?.op !== 'matmul') continue;
    const all = [...new Set([...source.reads, ...kernel.reads])].filter((id) => id !== product);
    replaced.set(source, undefined);
    replaced.set(kernel, {
      ...matmul(values, product, instruction, { reads: all, traits, epilogue: made }),
      label: `matmul ${kernel.label}`,
      terms: source.terms ?? 0,
    });
    products.delete(product);
  }
  return kernels.flatMap((kernel) => {
    if (!replaced.has(kernel)) return [kernel];
    const joined = replaced.get(kernel);
    return joined === undefined ? [] : [joined];
  });
}
