import type { Program } from '@shardwise/core/spec';
import { pointwise } from '../kernels/pointwise.ts';
import type { Kernel } from '../emit/kernel.ts';
import type { Reads } from './reads.ts';
import type { Values } from '../program/values.ts';

export interface UpdateOptions {
  readonly updates: Program['updates'];
  readonly outputs: readonly number[];
  /**
   * Whether the program checks indices. Kernels that write inputs then look first whether an index was out of range,
   * which kernels with barriers cannot do.
   */
  readonly hasChecks: boolean;
}

export interface PlacedUpdates {
  readonly kernels: readonly Kernel[];
  readonly inPlace: ReadonlyMap<number, number>;
}

/**
 * Decides which updates a kernel writes in place. These are updates whose target no later kernel reads, and their own
 * kernel only reads it element by element. The other updates are copied at the end.
 */
export function placeUpdates(
  values: Values,
  kernels: readonly Kernel[],
  reads: Reads,
  { updates, outputs, hasChecks }: UpdateOptions,
): PlacedUpdates {
  const ordered = updatesLast(
    kernels,
    new Set(updates.map(({ value }) => value)),
    new Set(outputs),
  );
  const inPlace = new Map<number, number>();
  const copies: Kernel[] = [];
  const isOutput = new Set(outputs);
  for (const { target, value } of updates) {
    const writer = ordered.findIndex(({ writes }) => writes.includes(value));
    const kernel = ordered[writer];
    const isDirect =
      kernel !== undefined &&
      !inPlace.has(value) &&
      !isOutput.has(value) &&
      updates.filter((update) => update.value === value).length === 1 &&
      !(hasChecks && kernel.shared !== undefined) &&
      !ordered
        .slice(writer + 1)
        .some(({ reads: read, check }) => read.includes(target) || check !== undefined) &&
      readsOnlySame(kernel, target, reads);
    if (isDirect) {
      inPlace.set(value, target);
      continue;
    }
    if (kernel === undefined) continue;
    const { shape, dtype } = values.type(value);
    const copy = values.add({ op: 'reshape', params: { shape }, inputs: [value], shape, dtype });
    inPlace.set(copy, target);
    copies.push(pointwise(values, [copy], [value], 'update'));
  }
  return { kernels: [...ordered, ...copies], inPlace };
}

/** Moves kernels to the end if all that they make are updates that no other kernel reads. */
function updatesLast(
  kernels: readonly Kernel[],
  updated: ReadonlySet<number>,
  outputs: ReadonlySet<number>,
): readonly Kernel[] {
  const read = new Set(kernels.flatMap(({ reads }) => reads));
  const isLast = ({ writes }: Kernel): boolean =>
    writes.every((id) => updated.has(id) && !read.has(id) && !outputs.has(id));
  return [...kernels.filter((kernel) => !isLast(kernel)), ...kernels.filter(isLast)];
}

function readsOnlySame(kernel: Kernel, target: number, reads: Reads): boolean {
  if (!kernel.reads.includes(target)) return true;
  if (kernel.pointwise === undefined) return false;
  return kernel.pointwise.roots.every((root) => reads.ofInputs(root).get(target) !== 'any element');
}
