import { BINDING_ALIGNMENT_BYTES } from '../device/gpu-constants.ts';
import { storageOf } from '../wgsl/registers.ts';
import { type Kernel, MAX_GROUPS } from '../emit/kernel.ts';
import { slotsOf } from '../emit/kernel-text.ts';
import type { Reads } from './reads.ts';
import { countOf, type Values, wordsOf } from '../program/values.ts';

/**
 * Cuts a kernel with a value larger than a binding into slices of its groups of threads. A slice needs only a stretch
 * of the values that lie as the groups do. The kernel is left as it is if no value is so large, or if no stretch would
 * be small enough.
 */
export function sliceKernel(
  values: Values,
  kernel: Kernel,
  reads: Reads,
  bindingBytes: number,
): Kernel {
  const { along } = kernel;
  const isLarge = (id: number): boolean => 4 * wordsOf(values, id) > bindingBytes;
  if (along === undefined || !slotsOf(kernel, undefined).some(isLarge)) return kernel;
  const bytes = new Map(
    [...elementsAlong(values, kernel, reads)].flatMap(([id, elements]) =>
      isLarge(id) ? [[id, elements * storageOf[values.type(id).dtype].bytes]] : [],
    ),
  );
  if (bytes.size === 0) return kernel;
  const most = Math.floor(bindingBytes / Math.max(...bytes.values()));
  // A binding may only begin at a multiple of the device's alignment.
  const unit = Math.max(...[...bytes.values()].map(groupsUntilAligned));
  if (most < unit) return kernel;
  if (along.dim !== 'all') {
    return { ...kernel, slices: { dim: along.dim, groups: most - (most % unit), bytes } };
  }
  const [x, y] = kernel.groups;
  const row = 2 ** Math.floor(Math.log2(Math.min(most, MAX_GROUPS)));
  const ofRow = new Map([...bytes].map(([id, ofGroup]) => [id, ofGroup * row]));
  return {
    ...kernel,
    groups: [row, Math.ceil((x * y) / row), 1],
    slices: { dim: 1, groups: Math.floor(most / row), bytes: ofRow },
  };
}

/**
 * The elements for each group, of those values of which consecutive groups use consecutive stretches and nothing else.
 */
function elementsAlong(
  values: Values,
  { along, pointwise, writes }: Kernel,
  reads: Reads,
): ReadonlyMap<number, number> {
  if (along === undefined) return new Map();
  const { elements, root, inputs } = along;
  const found = new Map<number, number | undefined>(writes.map((id) => [id, elements]));
  const note = (id: number, ofGroup: number | undefined): void => {
    found.set(id, found.has(id) && found.get(id) !== ofGroup ? undefined : ofGroup);
  };
  const noteAll = (
    read: ReturnType<Reads['of']>,
    reader: number,
    ofGroup: number | undefined,
  ): void => {
    for (const [id, kind] of read) {
      if (id === root) continue;
      const isSame =
        kind === 'same element' && countOf(values.shape(id)) === countOf(values.shape(reader));
      note(id, isSame ? ofGroup : undefined);
    }
  };
  for (const input of new Set(values.instruction(root ?? -1)?.inputs ?? []))
    noteAll(reads.of(input), input, inputs?.get(input));
  const others = pointwise?.roots ?? writes.filter((id) => root !== undefined && id !== root);
  for (const id of others) noteAll(reads.ofInputs(id), id, elements);
  return new Map([...found].flatMap(([id, of]) => (of === undefined ? [] : [[id, of]])));
}

/** The number of groups, of this many bytes each, after which a binding may begin. A power of two. */
function groupsUntilAligned(bytes: number): number {
  let groups = 1;
  while ((bytes * groups) % BINDING_ALIGNMENT_BYTES !== 0) groups *= 2;
  return groups;
}

/** The most bindings that a value takes in a kernel. */
export function bindingsOf(
  values: Values,
  { slices }: Pick<Kernel, 'slices'>,
  id: number,
  bindingBytes: number,
): number {
  if (slices?.bytes.has(id) === true) return 1;
  return Math.max(1, Math.ceil((4 * wordsOf(values, id)) / bindingBytes));
}
